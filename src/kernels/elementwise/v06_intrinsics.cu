// Idea      arithmetic that the hardware has instructions for: exp2, reciprocal and tanh
// Vs v04    per element 16 instructions instead of 27 for gelu, 10 for gelu_tanh's 23, 11 for
//           silu_mul's 29 (approx.hpp has them). An H100 that moves 2-byte elements at full speed
//           has time for some 40, but only if no warp ever waits
// Bound by  DRAM bandwidth
// Limits    none; arrays start at multiples of 16 bytes. The errors stay within the limits of the
//           other versions, but for gelu_tanh_approx, whose limit is that of tanh.approx
#include "approx.hpp"
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kVectors = 4;  // per thread

template <bool kWhole, class Op, class T>  // as in v04
__device__ void process_tile(const elementwise::Args<Op, T>& a, std::int64_t first,
                             std::int64_t vectors) {
  using Vec = ladder::Vec128<T>;
  Vec in[kVectors][Op::inputs];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) in[j][k] = Vec::load(a.x[k] + v * Vec::size);
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      float x[Op::inputs];
#pragma unroll
      for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(in[j][k][e]);
      out[e] = T(elementwise::fast<Op>(x));
    }
    out.store(a.y + v * Vec::size);
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) intrinsics(elementwise::Args<Op, T> a) {
  constexpr int kSize = ladder::Vec128<T>::size;
  const std::int64_t vectors = a.n / kSize;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (kBlock * kVectors);  // of the block
  const std::int64_t first = begin + threadIdx.x;
  if (begin + kBlock * kVectors <= vectors) {
    process_tile<true>(a, first, vectors);
    return;
  }
  process_tile<false>(a, first, vectors);  // the last block

  const std::int64_t i = vectors * kSize + threadIdx.x;
  if (i < a.n) {
    float x[Op::inputs];
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(a.x[k][i]);
    a.y[i] = T(elementwise::fast<Op>(x));
  }
}

struct Intrinsics {
  static constexpr ladder::Version version{"exp2, reciprocals and tanh as the hardware does them"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    const std::int64_t blocks = ladder::ceil_div(vectors, kBlock * kVectors);
    ladder::launch(intrinsics<Op, T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<Intrinsics, elementwise::gelu, float, ladder::bfloat16> gelu;
const ladder::Register<Intrinsics, elementwise::gelu_tanh, float, ladder::bfloat16> gelu_tanh;
const ladder::Register<Intrinsics, elementwise::gelu_tanh_approx, float, ladder::bfloat16>
    gelu_tanh_approx;
const ladder::Register<Intrinsics, elementwise::silu_mul, float, ladder::bfloat16> silu_mul;

}  // namespace
