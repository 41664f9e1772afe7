// Idea      every thread loads and stores 128 bits at once: 4 fp32 or 8 16-bit elements
// Vs v02    4 to 8 times the bytes in flight, and as many times fewer loads and stores
// Bound by  DRAM bandwidth, nearly: a thread loads its next vector only after it has stored the
//           last
// Limits    none: the last n % (4 or 8) elements are done one by one. The arrays start at multiples
//           of 16 bytes, as cudaMalloc returns them.
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

template <class Op, class T>
__global__ void vec128(elementwise::Args<Op, T> a) {
  using Vec = ladder::Vec128<T>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t vectors = a.n / Vec::size;

  for (std::int64_t v = thread; v < vectors; v += threads) {
    Vec in[Op::inputs], out;
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) in[k] = Vec::load(a.x[k] + v * Vec::size);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      float x[Op::inputs];
#pragma unroll
      for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(in[k][e]);
      out[e] = T(Op::apply(x));
    }
    out.store(a.y + v * Vec::size);
  }

  const std::int64_t i = vectors * Vec::size + thread;
  if (i < a.n) {
    float x[Op::inputs];
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(a.x[k][i]);
    a.y[i] = T(Op::apply(x));
  }
}

struct Vec128 {
  static constexpr elementwise::Problem test_problems[] = {{1, 4'200'013}};  // more than one stride
  static constexpr ladder::Version version{"128-bit loads and stores"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    constexpr int kBlock = 256;
    constexpr std::int64_t kMostBlocks = 2048;
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    const std::int64_t blocks = min(ladder::ceil_div(vectors, kBlock), kMostBlocks);
    ladder::launch(vec128<Op, T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<Vec128, elementwise::relu, float, ladder::bfloat16> relu;
const ladder::Register<Vec128, elementwise::add, float, ladder::bfloat16> add;

}  // namespace
