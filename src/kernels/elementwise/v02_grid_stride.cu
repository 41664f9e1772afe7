// Idea      a grid that fills the GPU once; each thread strides over the elements
// Vs v01    the number of blocks no longer grows with n: no waves of short blocks to start and end
// Bound by  how many loads are in flight: an element per thread, as in v01. So it gains where
//           starting blocks was the limit: with 2-byte elements, and on an H200 with fp32 too, by 3
//           to 11 %; but at 2^20 elements it loses 7 %
// Limits    none
#include "elementwise.hpp"

namespace {

template <class Op, class T>
__global__ void grid_stride(elementwise::Args<Op, T> a) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < a.n; i += stride) {
    float x[Op::inputs];
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(a.x[k][i]);
    a.y[i] = T(Op::apply(x));
  }
}

struct GridStride {
  static constexpr elementwise::Problem test_problems[] = {{1, 600'011}};  // more than one stride
  static constexpr ladder::Version version{"a grid of fixed size, strided loop"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    constexpr int kBlock = 256;
    constexpr std::int64_t kMostBlocks = 2048;  // 8 blocks of 256 fill an SM; GPUs have up to ~200
    const std::int64_t blocks = min(ladder::ceil_div(a.n, kBlock), kMostBlocks);
    ladder::launch(grid_stride<Op, T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<GridStride, elementwise::relu, float> relu;
const ladder::Register<GridStride, elementwise::add, float> add;

}  // namespace
