// Idea      fp32 on tensor cores: a float is nearly the sum of two numbers of TF32, a large one
//           with the first 11 bits of its mantissa and a small one with the next 11. Three products
//           of these, large times large and large times small, are nearly as good as the product in
//           fp32
// Vs v13    a first kernel splits A and B, and transposes B, because wgmma reads TF32 along K only.
//           K-tiles are added on the CUDA cores, and C is stored from registers
// Bound by  tensor cores, and power. Splitting A and B takes time in proportion to the matrices:
//           the smaller they are, the larger its share
// Limits    compute capability 9.0. Magnitudes from 2^-103 to 2^128 (1 - 2^-12): small parts of
//           what is less are denormal; what is larger and infinities are split into an infinity and
//           a NaN, and their row or column of C is NaN
// Tile      128 x 128 x 32, two warpgroups of 64 x 128, 64 accumulators per thread and 64 of the
//           current K-tile; 3 stages of 64 KiB; one block per SM
//
// The small part is at most 2^-11 of a number, and the two together are off by up to 2^-23 of it:
// the last bit of its 24 is lost where the small part has the sign of the large one and needs 12.
// Left out is the product of two small parts, at most 2^-22 of the product.
//
// The tensor cores cut off what does not fit where they add: always towards zero, so errors do not
// cancel, and each is as large as the last bit of the sum so far. So they accumulate one K-tile
// only, its small products first, and the K-tiles are added in fp32, rounded to nearest (Ootomo and
// Yokota, Recovering single precision accuracy from Tensor Cores, 2022).
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"
#include "store.hpp"
#include "tiles.hpp"
#include "transpose_tile.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;
using ladder::tfloat32;

constexpr int kParts = 2;
constexpr int BM = 128, BN = 128, BK = 32;
constexpr int kStages = 3, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
// A stage holds the parts of A, [kParts][BM][BK], and those of B, [kParts][BN][BK]. Elements:
constexpr int kPartA = BM * BK, kPartB = BN * BK;
constexpr int kStage = kParts * (BM + BN) * BK;
constexpr std::size_t kShared = kStages * kStage * sizeof(tfloat32) + 1024;  // to begin at 1024 n
using TileOrder = Tiles<BM, BN, 12>;

/// The parts of A, or of B transposed: [kParts][rows][row()].
struct Parts {
  tfloat32* data;
  int rows, columns;

  static constexpr int kChunk = ladder::Vec128<tfloat32>::size;
  __host__ __device__ int chunks() const { return ladder::ceil_div(columns, kChunk); }
  /// Rows begin with lines: else TMA's 128 bytes of one lie in two.
  __host__ __device__ int row() const { return ladder::ceil_div(columns, 32) * 32; }
  __host__ __device__ std::int64_t part() const { return std::int64_t{rows} * row(); }
};

constexpr int kSplitThreads = 256;

/// Splits a [rows][columns] matrix: a chunk per thread.
template <bool kAligned>
__global__ void __launch_bounds__(kSplitThreads) split(const float* matrix, Parts parts) {
  using Chunk = ladder::Vec128<float>;
  const unsigned i = blockIdx.x * kSplitThreads + threadIdx.x;
  if (i >= unsigned(parts.rows) * unsigned(parts.chunks())) return;
  const int row = i / parts.chunks(), column = i % parts.chunks() * Chunk::size;
  const float* const from = matrix + std::int64_t{row} * parts.columns + column;
  Chunk x{};
  if constexpr (kAligned) {
    x = Chunk::load_streaming(from);
  } else {
#pragma unroll
    for (int e = 0; e < Chunk::size; ++e) {
      if (column + e < parts.columns) x[e] = from[e];
    }
  }
  ladder::Vec128<tfloat32> large, small;
#pragma unroll
  for (int e = 0; e < Chunk::size; ++e) {
    large[e] = tfloat32(x[e]);
    small[e] = tfloat32(x[e] - float(large[e]));  // the difference is exact
  }
  tfloat32* const to = parts.data + std::int64_t{row} * parts.row() + column;
  large.store(to);
  small.store(to + parts.part());
}

/// Splits a [columns][rows] matrix and transposes it: a tile per block.
__global__ void __launch_bounds__(kTransposeThreads)
    split_transposed(const float* matrix, Parts parts) {
  __shared__ TransposeTile tile;
  transpose_tile(tile, matrix, parts.rows, parts.columns, [&](int row, int column, float x) {
    tfloat32* const to = parts.data + std::int64_t{row} * parts.row() + column;
    const tfloat32 large(x), small(x - float(large));
    to[0] = large;
    to[parts.part()] = small;
  });
}

__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             gemm_tensor::Args<float> g, TileOrder tiles) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  tfloat32* const shared = ladder::dynamic_shared<tfloat32>();
  tfloat32* const ring = shared + (-shared_address(shared) & 1023) / sizeof(tfloat32);
  const int k_tiles = ladder::ceil_div(g.k, BK);

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  PipelineState<kStages> state;
  if (threadIdx.x >= kConsumers * 128) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128) return;
    for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
      const int2 corner = tiles.at(tile);
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
        tfloat32* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(tfloat32));
        tensor_load(to, &map_a, k_tile * BK, corner.y, 0, barrier);
        tensor_load(to + kParts * kPartA, &map_b, k_tile * BK, corner.x, 0, barrier);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    float acc[BN / 2] = {};
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      const tfloat32* const from = ring + state.stage * kStage;
      const auto a = wgmma_descriptor<Major::k>(from + warpgroup * 64 * BK);
      const auto b = wgmma_descriptor<Major::k>(from + kParts * kPartA);
      constexpr int kProducts[][2] = {{1, 0}, {0, 1}, {0, 0}};
      constexpr std::uint64_t kNextA = kPartA * 4 / 16, kNextB = kPartB * 4 / 16;
      float of_k_tile[BN / 2];
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int p = 0; p < 3; ++p) {
#pragma unroll
        for (int k = 0; k < BK / 8; ++k) {
          wgmma<BN, Major::k, Major::k, tfloat32>(
              of_k_tile, a + kProducts[p][0] * kNextA + k * wgmma_step(Major::k),
              b + kProducts[p][1] * kNextB + k * wgmma_step(Major::k), p + k > 0);
        }
      }
      wgmma_commit_group();
      wgmma_wait_group<0>(of_k_tile);  // meanwhile the other warpgroup multiplies
      if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[state.stage]);
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) acc[i] += of_k_tile[i];
    }
    const int2 corner = tiles.at(tile);
    store_pairs(g.c, g.m, g.n, corner.y + warp * 16, corner.x, acc);
  }
}

/// Parts for TMA, which brings both of them at once, `rows` x BK of each.
CUtensorMap parts_map(const Parts& parts, int rows) {
  constexpr std::int64_t kSize = sizeof(tfloat32);
  return ladder::tensor_map(ladder::DType::tf32, parts.data,
                            {{.size = parts.columns, .stride = kSize, .box = BK},
                             {.size = parts.rows, .stride = parts.row() * kSize, .box = rows},
                             {.size = kParts, .stride = parts.part() * kSize, .box = kParts}},
                            CU_TENSOR_MAP_SWIZZLE_128B);
}

struct SplitTf32 {
  static constexpr ladder::Version version{"fp32 from three products of two TF32 numbers each"};
  using Args = gemm_tensor::Args<float>;

  static Parts parts_a(const Args& g) { return {static_cast<tfloat32*>(g.workspace), g.m, g.k}; }
  static Parts parts_b(const Args& g) {
    return {static_cast<tfloat32*>(g.workspace) + kParts * parts_a(g).part(), g.n, g.k};
  }
  static std::size_t workspace(const Args& g) {
    return kParts * (parts_a(g).part() + parts_b(g).part()) * sizeof(tfloat32);
  }

  static void launch(const Args& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const Parts a = parts_a(g), b = parts_b(g);
    const bool aligned =
        g.k % Parts::kChunk == 0 && reinterpret_cast<std::uintptr_t>(g.a) % 16 == 0;
    const std::int64_t chunks = std::int64_t{a.rows} * a.chunks();
    ladder::launch(aligned ? split<true> : split<false>,
                   static_cast<unsigned>(ladder::ceil_div(chunks, kSplitThreads)), kSplitThreads, 0,
                   stream, g.a, a);
    ladder::launch(split_transposed, tiles_to_transpose(g.n, g.k), kTransposeThreads, 0, stream,
                   g.b, b);

    const TileOrder tiles(g.m, g.n);
    ladder::launch(multiply, tiles.blocks(ladder::sm_count()), kThreads, kShared, stream,
                   parts_map(a, BM), parts_map(b, BN), g, tiles);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) { return supports_transposing(p); }
};

const ladder::Register<SplitTf32, gemm_tensor_nn, float> registration;

}  // namespace
