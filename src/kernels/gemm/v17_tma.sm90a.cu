// Idea      TMA fills shared memory: no warp loads from global memory, and there is no block-wide
//           barrier in the loop. One thread issues the copies of the K-tiles of A and B, three
//           ahead
// Vs v10    per K-tile two instructions of one thread instead of loads, stores and addresses of
//           all; warps wait for K-tiles, not for each other, and may be as many K-tiles apart as
//           there are stages, so that one multiplies while another waits. A stays as it lies in
//           memory: a vector of a row is four steps of k, and TMA's swizzle spreads rows over the
//           banks
// Bound by  the registers' two banks: with A four steps deep its vectors and the accumulators are
//           often in the same one. Fewer instructions than v13, but 10 to 13 % more time on an H200
// Limits    compute capability 9.0; N and K are multiples of 4, so that all rows start at multiples
//           of 16 bytes
// Tile      128 x 256 x 32, 256 threads of 8 x 16, 4 stages, 193 KiB of shared memory; smaller ones
//           for small problems: 128 x 128 and 64 x 128; always one block of 8 warps per SM
//
// Lane l takes row y = l / 8 * 2 + l / 2 % 2 and column x = l / 4 % 2 * 2 + l % 2 of 8 x 4.
//
//   load a    chunk ^ y of row y + 8i: 8 vectors, which are all 32 banks once;
//             lanes 2l and 2l + 1 want the same one
//   load b    columns 4x + 16j: 4 vectors, side by side; lanes l and l + 2 want the same one
//
// That is when the hardware serves two groups of 8 lanes at once: two wavefronts per load.
#include "device/ptx/tma.hpp"
#include "device/sm_count.hpp"
#include "device/tensor_map.hpp"
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using namespace ladder::ptx;

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;
constexpr int kBand = 8;  // rows of tiles

/// The shapes of tiles: BM x BN of a block, TM x TN of a thread. The ring has kStages K-tiles; of a
/// K-tile kUnroll vectors' worth of steps of k are unrolled: more of them is less of the loop's own
/// work, and more instructions to be fetched.
template <int BlockM, int BlockN, int ThreadM, int ThreadN, int Stages, int Unroll = 4>
struct Shape {
  static constexpr int BM = BlockM, BN = BlockN, BK = 32, TM = ThreadM, TN = ThreadN;
  static constexpr int kStages = Stages, kUnroll = Unroll;
  static constexpr int LM = 8, LN = 4;              // lanes of a warp
  static constexpr int WM = TM * LM, WN = TN * LN;  // of a warp
  static constexpr int kWarps = BM / WM * (BN / WN), kThreads = kWarps * 32;
  static constexpr int kStage = (BM + BN) * BK;  // floats
  static constexpr unsigned kStageBytes = kStage * sizeof(float);
  static constexpr std::size_t kShared = kStages * kStageBytes + 1024;  // to begin at 1024 n
  static_assert(BM % WM == 0 && BN % WN == 0 && TM % V == 0 && TN % V == 0, "no tile is cut");
  static_assert(BM <= 256 && BN <= 256, "a box of TMA");
  static_assert(BK * sizeof(float) == 128, "the width of the swizzle");
  static_assert(BK / V % kUnroll == 0, "a K-tile is whole iterations");
};

/// C in tiles. Blocks walk down the columns of a band of kBand rows of tiles, so that those which
/// run at the same time share what they load, in the L2.
struct Tiles {
  int rows, cols;
  __device__ int2 at(int block) const {
    const int first = block / (kBand * cols) * kBand, within = block - first * cols;
    const int height = min(kBand, rows - first);
    return make_int2(within / height, first + within % height);
  }
};

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    tma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
        gemm::Args<float> g, Tiles tiles) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  constexpr int kStages = S::kStages, kChunks = BK / V;
  __shared__ Mbarrier full[kStages], empty[kStages];
  float* const shared = ladder::dynamic_shared<float>();
  float* const ring = shared + (-shared_address(shared) & 1023) / sizeof(float);
  const int2 tile = tiles.at(blockIdx.x);
  const int row0 = tile.y * BM, col0 = tile.x * BN;
  const int k_tiles = ladder::ceil_div(g.k, BK);

  // Issued by one thread: loads a K-tile into its stage as soon as all warps have released it. A
  // new mbarrier reports the previous phase complete, so the first pass does not block.
  const bool leader = threadIdx.x == 0;
  auto fetch = [&](int k_tile) {
    const int stage = k_tile % kStages;
    float* const to = ring + stage * S::kStage;
    mbarrier_wait(&empty[stage], k_tile / kStages % 2 ^ 1);
    mbarrier_arrive_expect_tx(&full[stage], S::kStageBytes);
    tensor_load(to, &map_a, k_tile * BK, row0, &full[stage]);            // [BM][BK], swizzled
    tensor_load(to + BM * BK, &map_b, col0, k_tile * BK, &full[stage]);  // [BK][BN]
  };
  if (leader) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], S::kWarps);
    }
    fence_proxy_async();
    for (int s = 0; s < min(kStages - 1, k_tiles); ++s) fetch(s);
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int y = lane / 8 * 2 + lane / 2 % 2, x = lane / 4 % 2 * 2 + lane % 2;
  const int row = warp / (BN / S::WN) * S::WM + y, col = warp % (BN / S::WN) * S::WN + x * V;
  const float* const ring_a = ring + row * BK;
  const float* const ring_b = ring + BM * BK + col;

  // Fragments: four steps of k of A, in one vector per row; of B one step, and the next in flight.
  Vec a[TM], b[2][TN / V];
  auto load_a = [&](const float* stage, int chunk, int i) {
    a[i] = Vec::load(stage + i * S::LM * BK + (chunk ^ y) * V);
  };
  auto load_b = [&](const float* from, int k) {
#pragma unroll
    for (int j = 0; j < TN / V; ++j) b[k % 2][j] = Vec::load(from + j * S::LN * V);
  };

  float acc[TM][TN] = {};
  mbarrier_wait(&full[0], 0);
#pragma unroll
  for (int i = 0; i < TM; ++i) load_a(ring_a, 0, i);
  load_b(ring_b, 0);

  const float* stage_a = ring_a;  // where the next vectors of A come from
  const float* now_b = ring_b;    // the rows of B that the vectors in hand belong to
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
#pragma unroll 1
    for (int chunk0 = 0; chunk0 < kChunks; chunk0 += S::kUnroll) {
#pragma unroll
      for (int u = 0; u < S::kUnroll; ++u) {
        const float* next_b = now_b + V * BN;
        if (u == S::kUnroll - 1 && chunk0 == kChunks - S::kUnroll) {  // on to the next K-tile
          const int next =
              k_tile + 1 < k_tiles ? k_tile + 1 : k_tile;  // the last once more, unused
          if (leader && k_tile + kStages - 1 < k_tiles) fetch(k_tile + kStages - 1);
          mbarrier_wait(&full[next % kStages], next / kStages % 2);
          stage_a = ring_a + next % kStages * S::kStage;
          next_b = ring_b + next % kStages * S::kStage;
        }
#pragma unroll
        for (int k = 0; k < V; ++k) {
          load_b(k < V - 1 ? now_b + (k + 1) * BN : next_b, k + 1);
#pragma unroll
          for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] += a[i][k] * b[k % 2][j / V][j % V];
            if (k == V - 1) load_a(stage_a, (chunk0 + u + 1) % kChunks, i);  // the row is done with
          }
        }
        now_b = next_b;
      }
    }
    __syncwarp();  // all lanes have read the K-tile
    if (lane == 0) mbarrier_arrive(&empty[k_tile % kStages]);
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int c_row = row0 + row + i * S::LM;
    if (c_row >= g.m) continue;
#pragma unroll
    for (int j = 0; j < TN; j += V) {
      const int c_col = col0 + col + j * S::LN;
      if (c_col >= g.n) continue;
      Vec{acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]}.store(
          g.c + std::int64_t{c_row} * g.n + c_col);
    }
  }
}

struct Tma {
  // On a GPU: big tiles for most SMs
  static constexpr gemm::Problem test_problems[] = {{4, 32764, 8}};
  static constexpr ladder::Version version{
      "TMA fills shared memory; mbarriers instead of a block-wide barrier"};
  using Big = Shape<128, 256, 8, 16, 4>;
  using Middle = Shape<128, 128, 8, 8, 6>;
  using Small = Shape<64, 128, 4, 8, 8>;

  template <class S>
  static void launch_tiles(const gemm::Args<float>& g, cudaStream_t stream) {
    constexpr int kSize = sizeof(float);
    const std::int64_t row_a = std::int64_t{g.k} * kSize, row_b = std::int64_t{g.n} * kSize;
    const CUtensorMap a = ladder::tensor_map(ladder::DType::f32, g.a,
                                             {{.size = g.k, .stride = kSize, .box = S::BK},
                                              {.size = g.m, .stride = row_a, .box = S::BM}},
                                             CU_TENSOR_MAP_SWIZZLE_128B);
    const CUtensorMap b = ladder::tensor_map(ladder::DType::f32, g.b,
                                             {{.size = g.n, .stride = kSize, .box = S::BN},
                                              {.size = g.k, .stride = row_b, .box = S::BK}},
                                             CU_TENSOR_MAP_SWIZZLE_NONE);
    const Tiles tiles{ladder::ceil_div(g.m, S::BM), ladder::ceil_div(g.n, S::BN)};
    ladder::launch(tma<S>, tiles.rows * tiles.cols, S::kThreads, S::kShared, stream, a, b, g,
                   tiles);
  }
  /// What a launch takes: its waves, each as long as a tile is large. Small tiles issue more loads
  /// for their FMAs: of 100 instructions `fmas` are FMAs.
  template <class S>
  static std::int64_t cost(const gemm::Args<float>& g, int fmas) {
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.m, S::BM)} * ladder::ceil_div(g.n, S::BN);
    return ladder::ceil_div(tiles, ladder::sm_count()) * S::BM * S::BN * 100 / fmas;
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // there are no maps of nothing
      ladder::fill_async(g.c, 0, sizeof(float) * g.m * g.n, stream);
      return;
    }
    const std::int64_t big = cost<Big>(g, 95), middle = cost<Middle>(g, 93);
    const std::int64_t small = cost<Small>(g, 88);
    if (big <= middle && big <= small) {
      launch_tiles<Big>(g, stream);
    } else if (middle <= small) {
      launch_tiles<Middle>(g, stream);
    } else {
      launch_tiles<Small>(g, stream);
    }
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.n % V == 0 && p.k % V == 0 ? ladder::supported()
                                        : ladder::unsupported("N or K is no multiple of 4");
  }
};

const ladder::Register<Tma, gemm, float> registration;

}  // namespace
