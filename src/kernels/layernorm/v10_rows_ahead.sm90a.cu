// Idea      clusters stay and take row after row, and the copy engine brings the next rows to
//           shared memory while one is summed up and stored
// Vs v09    while a cluster waits for its sums, and while it stores, more is on its way from DRAM.
//           Each block has the same columns of every row, so that it reads weight and bias once,
//           into shared memory. The blocks push their sums to each other: a barrier of the cluster
//           would wait for the stores of the row before. Which rows are a cluster's is not settled
//           beforehand: with equal parts the fastest would wait for the slowest
// Bound by  DRAM bandwidth; of 132 multiprocessors some are left over, because the blocks of a
//           cluster are neighbours
// Limits    Hopper. x and y start at multiples of 16 bytes. Rows of up to 32768 elements (in
//           fp32 16384) and of more than 512 KiB are v09's. No two launches may overlap
// Tile      a row is shared by 1, 2, 4 or 8 blocks of 512 threads, 128 bytes of it in each
//           thread; up to 3 rows on their way: device/row_share.hpp
#include "layernorm.hpp"
#include "normalize_ahead.hpp"

namespace layernorm_rows {
// Compiled in v08.
extern template void launch_normalize<layernorm, Weights::prefetched>(const layernorm::Args<float>&,
                                                                      cudaStream_t);
extern template void launch_normalize<layernorm, Weights::prefetched>(
    const layernorm::Args<ladder::half>&, cudaStream_t);
extern template void launch_normalize<layernorm, Weights::prefetched>(
    const layernorm::Args<ladder::bfloat16>&, cudaStream_t);
// Compiled in v09.
extern template void launch_normalize_on_hopper<layernorm>(const layernorm::Args<float>&,
                                                           cudaStream_t);
extern template void launch_normalize_on_hopper<layernorm>(const layernorm::Args<ladder::half>&,
                                                           cudaStream_t);
extern template void launch_normalize_on_hopper<layernorm>(const layernorm::Args<ladder::bfloat16>&,
                                                           cudaStream_t);
}  // namespace layernorm_rows

namespace {

struct RowsAhead {
  static constexpr ladder::Version version{"long rows on their way before they are needed"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_normalize_ahead<layernorm>(a, stream);
  }
};

const ladder::Register<RowsAhead, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
