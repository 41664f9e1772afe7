// Idea      the heads that share keys are the rows of a product: sixteen rows are what mma.sync takes,
//           row r being query r / group of head r % group. A block reads keys and values once for all
//           of them
// Vs v51    of a group of four heads a quarter of the loads, and products on tensor cores: rows that
//           do not exist are multiplied too, which costs nothing where memory is the limit. A warp
//           copies sixteen keys and values to shared memory, as ldmatrix wants them, and adds up what
//           they are to its rows; behind the last key the four warps' sums are added up
// Bound by  latency: a warp loads, waits, multiplies; one block for a group of heads of a sequence is
//           too few to fill a GPU with few sequences
// Limits    compute capability 8.0; more than 16 rows are several blocks, which each read all keys;
//           34 KiB of shared memory for head size 128
// Tile      16 rows by 64 keys, 4 warps of 16 keys
#include "device/vector.hpp"
#include "group_rows.hpp"
#include "head.hpp"
#include "limits.hpp"

namespace {

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32, BM = 16, WN = 16, BN = kWarps * WN;

template <class T, int D>
struct Shared {
  union OfWarp {
    struct {
      SwizzledTile<T, WN, D> k, v;
    } tiles;
    RowSums<D> sums;
  };
  OfWarp warp[kWarps];
  float2 max_and_sum[kWarps][BM];
};

template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a) {
  using Vec = ladder::Vec128<T>;
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const int row0 = blockIdx.x * BM, kv_head = blockIdx.y, sequence = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Cache<T> cache(a, kv_head, sequence);
  const Queries<T> queries(a, kv_head, sequence, cache.keys);
  const float scale = a.scale * ladder::ptx::kLog2E;
  auto& tiles = s.warp[warp].tiles;

  GroupRows<T, D> rows;
  rows.begin(queries, row0, lane);
  for (int key0 = warp * WN; key0 < cache.keys; key0 += BN) {
    constexpr int kChunks = D / Vec::size, kAtOnce = 32 / kChunks;
    const int chunk = lane % kChunks;
    const std::int64_t from = cache.at(key0) + chunk * Vec::size;
    Vec k[WN / kAtOnce], v[WN / kAtOnce];
#pragma unroll
    for (int i = 0; i < WN / kAtOnce; ++i) {
      const int row = i * kAtOnce + lane / kChunks;
      k[i] = v[i] = {};
      if (key0 + row < cache.keys) {
        k[i] = Vec::load(cache.k + from + row * cache.pitch);
        v[i] = Vec::load(cache.v + from + row * cache.pitch);
      }
    }
    __syncwarp();  // the tiles before are read
#pragma unroll
    for (int i = 0; i < WN / kAtOnce; ++i) {
      k[i].store(tiles.k.chunk(i * kAtOnce + lane / kChunks, chunk));
      v[i].store(tiles.v.chunk(i * kAtOnce + lane / kChunks, chunk));
    }
    __syncwarp();
    rows.add(tiles.k, tiles.v, key0, scale, lane);
  }

  __syncwarp();
  rows.store(s.warp[warp].sums, s.max_and_sum[warp], lane);
  __syncthreads();
  for (int row = warp; row < BM && row0 + row < queries.rows; row += kWarps) {
    Row<D> whole;
    whole.add_up(
        s.max_and_sum, row, [&](int w, int column) { return *s.warp[w].sums.at(row, column); },
        lane);
    whole.store(queries, row0 + row, lane);
  }
}

struct GroupPacked {
  static constexpr ladder::Version version{"a group's heads are rows of mma.sync"};

  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.heads / a.kv_heads * a.queries, BM), a.kv_heads, a.batch);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(attend<T, D>, grid, kThreads, sizeof(Shared<T, D>), stream, a);
    });
  }
  static ladder::Support supports(const attention::Problem&) {
    return needs_compute_capability(80);
  }
};

using ladder::bfloat16;
const ladder::Register<GroupPacked, attention_decode, bfloat16> registration;

}  // namespace
