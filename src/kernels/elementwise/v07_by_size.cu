// Idea      fewer vectors per thread where the problem is small: all of it is resident at once, so
//           the number of threads that share the work counts, not the loads each has in flight
// Vs v06    4 vectors per thread only where that still makes 4 blocks per SM, else 1. 2^20 2-byte
//           elements are 128 blocks of 4 vectors: a warp or two per scheduler, whose arithmetic
//           nothing hides, and some SMs with nothing to do
// Bound by  DRAM bandwidth; small problems by a launch, one latency and their bytes
// Limits    none; arrays start at multiples of 16 bytes
#include "approx.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kMostVectors = 4;  // per thread
constexpr int kFullSm = 4;       // blocks per SM, of whole tiles

template <int kVectors, bool kWhole, class Op, class T>  // as in v04
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

template <int kVectors, class Op, class T>
__global__ void __launch_bounds__(kBlock) by_size(elementwise::Args<Op, T> a) {
  constexpr int kSize = ladder::Vec128<T>::size;
  const std::int64_t vectors = a.n / kSize;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (kBlock * kVectors);  // of the block
  const std::int64_t first = begin + threadIdx.x;
  if (begin + kBlock * kVectors <= vectors) {
    process_tile<kVectors, true>(a, first, vectors);
    return;
  }
  process_tile<kVectors, false>(a, first, vectors);  // the last block

  const std::int64_t i = vectors * kSize + threadIdx.x;
  if (i < a.n) {
    float x[Op::inputs];
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(a.x[k][i]);
    a.y[i] = T(elementwise::fast<Op>(x));
  }
}

struct BySize {
  static constexpr ladder::Version version{"1 vector per thread where 4 leave the GPU empty"};

  template <int kVectors, class Op, class T>
  static std::int64_t blocks(const elementwise::Args<Op, T>& a) {
    return ladder::ceil_div(a.n, kBlock * kVectors * ladder::Vec128<T>::size);
  }

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    const bool full = blocks<kMostVectors>(a) >= kFullSm * ladder::sm_count();
    if (full) {
      ladder::launch(by_size<kMostVectors, Op, T>, blocks<kMostVectors>(a), kBlock, 0, stream, a);
    } else {
      ladder::launch(by_size<1, Op, T>, blocks<1>(a), kBlock, 0, stream, a);
    }
  }
};

template <class Op>
using Registration = ladder::Register<BySize, Op, float, ladder::half, ladder::bfloat16>;
const Registration<elementwise::relu> relu;
const Registration<elementwise::add> add;
const Registration<elementwise::gelu> gelu;
const Registration<elementwise::gelu_tanh> gelu_tanh;
const Registration<elementwise::gelu_tanh_approx> gelu_tanh_approx;
const Registration<elementwise::silu_mul> silu_mul;

}  // namespace
