// Idea      a block does one contiguous tile and ends; each of its threads loads 4 vectors before
//           it stores the first
// Vs v03    4 times the loads in flight per thread, and no loop: when a block ends, another starts
//           its loads at once, where the threads of v03 all come to their last round together
// Bound by  DRAM bandwidth
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
      out[e] = T(Op::apply(x));
    }
    out.store(a.y + v * Vec::size);
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) in_flight(elementwise::Args<Op, T> a) {
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

struct InFlight {
  static constexpr ladder::Version version{"4 vectors in flight per thread, no loop"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    const std::int64_t blocks = ladder::ceil_div(vectors, kBlock * kVectors);
    ladder::launch(in_flight<Op, T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<InFlight, elementwise::relu, float> relu;
const ladder::Register<InFlight, elementwise::add, float> add;

}  // namespace
