// Idea      rows may start anywhere: a few single elements up to the first multiple of 16 bytes,
//           then whole vectors, then singles again. And a thread holds 128 bytes of the row as they
//           came, 64 of an fp32 row that is no more than 8192 elements
// Vs v05    128-bit accesses for every number of columns, not only for multiples of the vector; of
//           16-bit types twice as much in flight per thread
// Bound by  DRAM bandwidth; of short rows the latency of weight and bias, which are asked for when
//           the row is there
// Limits    none. x and y start at multiples of 16 bytes. What of a row is beyond 128 KiB, the
//           registers of 1024 threads, is read three times.
// Tile      a row is spread over the smallest team of threads that holds it: device/row_team.hpp
//
// Weight and bias do not shift with the rows: a vector of them is put together from two.
#include "layernorm.hpp"
#include "normalize.hpp"

namespace {

struct AnyStart {
  static constexpr ladder::Version version{"rows that start anywhere, in 128-bit vectors"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    using layernorm_rows::Weights;
    layernorm_rows::launch_normalize<layernorm, Weights::late>(a, stream);
  }
};

const ladder::Register<AnyStart, layernorm, float> registration;

}  // namespace
