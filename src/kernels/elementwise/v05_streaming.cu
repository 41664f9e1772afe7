// Idea      streaming loads and stores: the caches evict first what is used only once
// Vs v04    __ldcs and __stcs; the instructions are as many and as wide
// Bound by  DRAM bandwidth. What this kernel is through with no longer pushes out of the L2 what
//           other kernels will want. By itself it gains nothing, and on an H200 large problems take
//           5 to 9 % longer: it stands here to show that a hint is to be measured, not believed
// Limits    none; arrays start at multiples of 16 bytes
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kVectors = 4;  // per thread

// The vectors of a thread: first, first + kBlock, … of which all exist if the tile is whole. (Only
// then is nothing tested between the loads: a branch there would wait for those before it.)
template <bool kWhole, class Op, class T>
__device__ void process_tile(const elementwise::Args<Op, T>& a, std::int64_t first,
                             std::int64_t vectors) {
  using Vec = ladder::Vec128<T>;
  Vec in[kVectors][Op::inputs];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) in[j][k] = Vec::load_streaming(a.x[k] + v * Vec::size);
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
      out[e] = T(Op::apply(x));
    }
    out.store_streaming(a.y + v * Vec::size);
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) streaming(elementwise::Args<Op, T> a) {
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
    a.y[i] = T(Op::apply(x));
  }
}

struct Streaming {
  static constexpr ladder::Version version{"loads and stores with a streaming hint"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    const std::int64_t blocks = ladder::ceil_div(vectors, kBlock * kVectors);
    ladder::launch(streaming<Op, T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<Streaming, elementwise::relu, float> relu;
const ladder::Register<Streaming, elementwise::add, float> add;

}  // namespace
