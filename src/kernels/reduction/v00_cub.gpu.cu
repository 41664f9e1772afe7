// Idea      CUB, the vendor's library, as the baseline
// Bound by  DRAM bandwidth; at small n by its two launches
// Limits    none
//
// DeviceReduce::Reduce with a result in fp32 converts every element before it adds; for fp32 it is
// DeviceReduce::Sum. DeviceReduce::Max would begin at the lowest finite number, which is more than
// the maximum of infinities below zero.
#include "reduction.hpp"

#include <cub/device/device_reduce.cuh>

#include <limits>

namespace {

template <class Op>
struct Combine {
  __host__ __device__ float operator()(float a, float b) const { return Op::combine(a, b); }
};

/// CUB's call: without temporary storage it only says how many bytes that takes. Offsets are 32-bit
/// where n allows it.
template <class Op, class T>
std::size_t cub_reduce(void* storage, std::size_t bytes, const reduction::Args<Op, T>& a,
                       cudaStream_t stream) {
  auto reduce = [&](auto n) {
    return cub::DeviceReduce::Reduce(storage, bytes, a.x, a.y, n, Combine<Op>{}, Op::identity(),
                                     stream);
  };
  const bool is_short = a.n <= std::numeric_limits<int>::max();
  const cudaError_t error = is_short ? reduce(static_cast<int>(a.n)) : reduce(a.n);
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  return bytes;
}

struct Cub {
  static constexpr ladder::Version version{"NVIDIA's library, cub::DeviceReduce", true};

  template <class Op, class T>
  static std::size_t workspace(const reduction::Args<Op, T>& a) {
    return cub_reduce(nullptr, 0, a, nullptr);
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, cudaStream_t stream) {
    cub_reduce(a.workspace, cub_reduce(nullptr, 0, a, stream), a, stream);
  }
};

const ladder::Register<Cub, reduction::sum, float, ladder::half, ladder::bfloat16> sum;
const ladder::Register<Cub, reduction::max, float, ladder::half, ladder::bfloat16> max;

}  // namespace
