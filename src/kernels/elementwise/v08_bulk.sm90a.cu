// Idea      the TMA unit copies a block's tile to shared memory and back: one thread issues the
//           bulk copies, all compute
// Vs v07    no registers hold the bytes in flight, of which an SM has 128 KiB and more. A block
//           still does one tile and ends, as in v04
// Bound by  DRAM bandwidth, with a barrier and a pass through shared memory that v07 does without
// Limits    compute capability 9.0; arrays start at multiples of 16 bytes. The last n % (4 or 8)
//           elements, which are no whole 16 bytes, are loaded and stored one by one
// Tile      1024 vectors of each input, 16 KiB; 8 blocks per SM, of two inputs 7
#include "approx.hpp"
#include "device/ptx/tma.hpp"
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kBlock = 256;
constexpr int kTile = 1024;  // vectors
static_assert(kTile % kBlock == 0, "a whole tile takes every thread equally many rounds");

template <class Op, class T>
__device__ T result(const T (&in)[Op::inputs]) {
  float x[Op::inputs];
#pragma unroll
  for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(in[k]);
  return T(elementwise::fast<Op>(x));
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) bulk(elementwise::Args<Op, T> a) {
  using Vec = ladder::Vec128<T>;
  T* const tile = ladder::dynamic_shared<T>();  // [Op::inputs][kTile * Vec::size]
  __shared__ Mbarrier arrived;
  const std::int64_t first = std::int64_t{blockIdx.x} * kTile;  // of the block, in vectors
  const int vectors = static_cast<int>(min(std::int64_t{kTile}, a.n / Vec::size - first));
  const unsigned bytes = 16 * vectors;
  const int t = static_cast<int>(threadIdx.x);

  if (vectors > 0) {
    if (t == 0) {
      mbarrier_init(&arrived, 1);
      fence_proxy_async();
      mbarrier_arrive_expect_tx(&arrived, Op::inputs * bytes);
#pragma unroll
      for (int k = 0; k < Op::inputs; ++k) {
        bulk_load(tile + k * kTile * Vec::size, a.x[k] + first * Vec::size, bytes, &arrived);
      }
    }
    __syncthreads();
    mbarrier_wait(&arrived, 0);

    // The results take the place of the first input.
#pragma unroll
    for (int j = 0; j < kTile / kBlock; ++j) {
      const int v = j * kBlock + t;
      if (v >= vectors) break;
      Vec in[Op::inputs], out;
#pragma unroll
      for (int k = 0; k < Op::inputs; ++k) in[k] = Vec::load(tile + (k * kTile + v) * Vec::size);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        T x[Op::inputs];
#pragma unroll
        for (int k = 0; k < Op::inputs; ++k) x[k] = in[k][e];
        out[e] = result<Op>(x);
      }
      out.store(tile + v * Vec::size);
    }
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
      bulk_store(a.y + first * Vec::size, tile, bytes);
      bulk_commit_group();
      bulk_wait_group_read<0>();
    }
  }

  const std::int64_t i = a.n / Vec::size * Vec::size + t;
  if (vectors < kTile && i < a.n) {  // in the last block
    T x[Op::inputs];
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) x[k] = a.x[k][i];
    a.y[i] = result<Op>(x);
  }
}

struct Bulk {
  static constexpr ladder::Version version{"bulk copies through shared memory, a tile per block"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    constexpr std::size_t kBytes = Op::inputs * kTile * sizeof(ladder::Vec128<T>);
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    ladder::launch(bulk<Op, T>, ladder::ceil_div(vectors, kTile), kBlock, kBytes, stream, a);
  }
};

const ladder::Register<Bulk, elementwise::relu, float> relu;
const ladder::Register<Bulk, elementwise::add, float> add;

}  // namespace
