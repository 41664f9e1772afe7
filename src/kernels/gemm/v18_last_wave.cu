// Idea      the last wave: SMs that it would leave idle take the ends of the others' tiles
// Vs v14    the tiles of the last wave are cut in two along K; the later of a tile's two blocks to
//           finish adds the other's partial sums to its own and stores C
// Bound by  instruction issue, as v14; adding partial sums takes a microsecond or two
// Tile      128 x 256 x 8, 256 threads of 16 x 8, 4 stages in 48 KiB of shared memory; one block
//           per SM. Smaller problems: 64 x 128 x 16, 128 threads of 8 x 8, three blocks per SM
//
//   SM 0   | tile 0 | tile 4 |              | tile 0 | tile 4 |
//   SM 1   | tile 1 | tile 5 |              | tile 1 | tile 5 |     the ends of tiles 4, 5 and 6:
//   SM 2   | tile 2 | tile 6 |              | tile 2 | tile 6 |     3/4 of a tile's time each SM
//   SM 3   | tile 3 |                       | tile 3 |4 |5 |6 |
//
// Either block may be the last; a sum of two numbers does not depend on their order, so C does not.
// Stream-K is the same idea with any number of blocks per tile.
//
// Which tiles are cut, and where: last_wave.hpp, which v20 uses too.
#include "aligned_rows.hpp"
#include "device/ptx/cp_async.hpp"
#include "last_wave.hpp"

namespace {

using namespace ladder::ptx;

/// The shapes of tiles: BM x BN x BK of a block, WM x WN of a warp.
template <int BlockM, int BlockN, int BlockK, int WarpM, int WarpN, int Stages, int BlocksPerSm>
struct Shape {
  static constexpr int BM = BlockM, BN = BlockN, BK = BlockK, WM = WarpM, WN = WarpN;
  static constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
  static constexpr int kStages = Stages, kBlocksPerSm = BlocksPerSm;
  // A warp tile is made of pieces, in which each lane has V x V elements.
  static constexpr int PM = 4 * V, PN = 8 * V;
  static constexpr int TM = WM / PM * V, TN = WN / PN * V;  // of a thread, in all pieces
  static_assert(BM % WM == 0 && BN % WN == 0 && WM % PM == 0 && WN % PN == 0, "no tile is cut");

  struct Stage {
    // Transposed; padded, so that 8 neighbours in a row of A come to lie in different banks.
    alignas(Vec) float a[BK][BM + V];
    alignas(Vec) float b[BK][BN];
  };
  static constexpr std::size_t kShared = kStages * sizeof(Stage);
};

/// W: how many floats of B a copy has, 4 where all rows start at multiples of 16 bytes, or 1. `arrived` is
/// state: how many blocks of each cut tile have written partial sums.
template <class S, int W>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm)
    last_wave(gemm::Args<float> g, Plan plan, unsigned* arrived) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  using Stage = typename S::Stage;
  Stage* const stages = ladder::dynamic_shared<Stage>();
  Stage* const last_stage = stages + S::kStages - 1;
  // Blocks b < plan.whole have a tile each. After them come a block for the beginning of each of
  // the tiles that are cut, and one for the end of each.
  const int cut_block = static_cast<int>(blockIdx.x) - plan.whole;  // among the cut tiles' blocks
  const bool is_cut = cut_block >= 0, is_end = cut_block >= plan.cut;
  const int tile = is_end ? blockIdx.x - plan.cut : blockIdx.x;
  const int row0 = tile / plan.columns * BM, col0 = tile % plan.columns * BN;
  const int first = is_end ? plan.at : 0;
  const int k_tiles = (is_cut && !is_end ? plan.at : plan.k_tiles) - first;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  // Of this thread's V x V elements of the first piece, in the tile.
  const int row = warp / (BN / S::WN) * S::WM + (lane / 16 * 2 + lane % 2) * V;
  const int col = warp % (BN / S::WN) * S::WN + lane % 16 / 2 * V;

  // A warp copies 8 neighbours of each of 4 rows of A, and of B a part of a row. K-tiles end where
  // K ends, so that only the first one may lack something, rows that are zeros then. Rows of A and
  // columns of B beyond the edge are replaced by the first: what comes of them is never stored.
  constexpr int kDeepA = 8, kRowsA = S::kThreads / kDeepA, kCopiesA = BM / kRowsA;
  constexpr int kRowsB = S::kThreads / (BN / W), kCopiesB = BK / kRowsB;
  static_assert(kCopiesA * kRowsA == BM && kCopiesB * kRowsB == BK, "threads copy equally many");
  const int lacking = (BK - g.k % BK) % BK;
  const std::int64_t k0 = std::int64_t{first} * BK - lacking;
  const int a_row = t / kDeepA, a_col = t % kDeepA;
  const int b_row = t / (BN / W) % kRowsB, b_col = t % (BN / W) * W;
  const float* a_from[kCopiesA];
#pragma unroll
  for (int v = 0; v < kCopiesA; ++v) {
    const int m = row0 + a_row + v * kRowsA;
    a_from[v] = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col + k0;
  }
  const float* b_from = g.b + (b_row + k0) * plan.b_pitch;
  b_from += col0 + b_col < g.n ? col0 + b_col : 0;

  // The first `missing` steps of the K-tile are not read; they become zero.
  auto copy_first = [&](Stage* to, int missing) {
#pragma unroll
    for (int v = 0; v < kCopiesA; ++v) {
#pragma unroll
      for (int k = 0; k < BK; k += kDeepA) {
        cp_async<4>(&to->a[k + a_col][a_row + v * kRowsA], a_from[v] + k,
                    k + a_col >= missing ? 4 : 0);
      }
      a_from[v] += BK;
    }
#pragma unroll
    for (int v = 0; v < kCopiesB; ++v) {
      const int k = b_row + v * kRowsB;
      cp_async<4 * W>(&to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * plan.b_pitch,
                      k >= missing ? 4 * W : 0);
    }
    b_from += std::int64_t{BK} * plan.b_pitch;
    cp_async_commit_group();
  };
  auto copy_if = [&](bool any, Stage* to) {
#pragma unroll
    for (int v = 0; v < kCopiesA; ++v) {
#pragma unroll
      for (int k = 0; k < BK; k += kDeepA) {
        cp_async_if<4>(any, &to->a[k + a_col][a_row + v * kRowsA], a_from[v] + k);
      }
      a_from[v] += BK;
    }
#pragma unroll
    for (int v = 0; v < kCopiesB; ++v) {
      const int k = b_row + v * kRowsB;
      cp_async_if<4 * W>(any, &to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * plan.b_pitch);
    }
    b_from += std::int64_t{BK} * plan.b_pitch;
    cp_async_commit_group();
  };

  // The fragments of two steps of k: one is multiplied while the other is loaded.
  Vec a[2][TM / V], b[2][TN / V];
  auto fragments = [&](const Stage* from, int k) {
#pragma unroll
    for (int i = 0; i < TM / V; ++i) a[k % 2][i] = Vec::load(&from->a[k][row + i * S::PM]);
#pragma unroll
    for (int j = 0; j < TN / V; ++j) b[k % 2][j] = Vec::load(&from->b[k][col + j * S::PN]);
  };
  static_assert(BK % 2 == 0, "the first step of a K-tile follows on the last of the one before");

  float acc[TM][TN] = {};
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    copy_first(&stages[s], s >= k_tiles ? BK : s == 0 && first == 0 ? lacking : 0);
  }
  cp_async_wait_group<S::kStages - 2>();
  __syncthreads();
  Stage* now = stages;       // the K-tile in hand
  Stage* free = last_stage;  // to be overwritten
  fragments(now, 0);
  for (int left = k_tiles; left > 0; --left) {
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == 0) copy_if(left >= S::kStages, free);
      if (k == BK - 1) {  // everything of this K-tile is in registers: on to the next
        cp_async_wait_group<S::kStages - 2>();
        __syncthreads();
        free = now;
        if (left > 1) now = now == last_stage ? stages : now + 1;
      }
      fragments(now, (k + 1) % BK);  // after the last K-tile its own, unused
      // The other way round than in v14: here the compiler then assigns registers with fewer bank
      // conflicts.
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int step = 0; step < TN; ++step) {
          const int j = i % 2 != 0 ? step : TN - 1 - step;
          acc[i][j] += a[k % 2][i / V][i % V] * b[k % 2][j / V][j % V];
        }
      }
    }
  }

  bool add = false;  // the other block's sums
  // Of the first sum of this thread; those of its others follow, each of all threads together.
  float* const mine =
      plan.partials + (std::int64_t{2} * (tile - plan.whole) + is_end) * (BM * BN) + t;
  if (is_cut) {
    unsigned* const count = &arrived[tile - plan.whole];
    add = __syncthreads_or(t == 0 && *static_cast<volatile unsigned*>(count) > 0);
    if (!add) {
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) mine[(i * TN + j) * S::kThreads] = acc[i][j];
      }
      __threadfence();
      __syncthreads();  // all have written before the counter is incremented
      add = __syncthreads_or(t == 0 && atomicAdd(count, 1u) > 0);
      if (!add) return;
    }
    __threadfence();
    if (t == 0) atomicExch(count, 0u);  // as it was before the launch
  }
  const float* const others = is_end ? mine - BM * BN : mine + BM * BN;
  const bool c_aligned = rows_aligned(g.c, g.n);
#pragma unroll
  for (int piece = 0; piece < TM; piece += V) {
    float other[V][TN] = {};  // loaded together, not one after the other
    if (add) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) other[i][j] = others[((piece + i) * TN + j) * S::kThreads];
      }
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
#pragma unroll
      for (int j = 0; j < TN; j += V) {
        // A shuffle from the lane itself, as in v14: a copy that the compiler does not propagate.
        Vec total;
#pragma unroll
        for (int e = 0; e < V; ++e) {
          total[e] = __shfl_sync(0xffffffff, acc[piece + i][j + e], lane) + other[i][j + e];
        }
        const int c_row = row0 + row + piece / V * S::PM + i;
        const int c_col = col0 + col + j / V * S::PN;
        if (c_row >= g.m) continue;
        float* const to = g.c + std::int64_t{c_row} * g.n + c_col;
        if (c_aligned && c_col < g.n) {
          total.store(to);
        } else {
#pragma unroll
          for (int e = 0; e < V; ++e) {
            if (c_col + e < g.n) to[e] = total[e];
          }
        }
      }
    }
  }
}

struct LastWave {
  // Three big tiles for the two SMs of the host executor: the last one is cut. On a GPU: for most SMs
  static constexpr gemm::Problem test_problems[] = {{300, 250, 164}, {4, 32764, 8}};
  static constexpr ladder::Version version{
      "SMs that the last wave would leave idle take the ends of the others' tiles"};
  using Big = Shape<128, 256, 8, 64, 64, 4, 1>;
  using Small = Shape<64, 128, 16, 32, 64, 3, 3>;

  template <class S>
  static void launch_shape(const gemm::Args<float>& g, unsigned* arrived, cudaStream_t stream) {
    const Plan plan = cut_last_wave<S>(g);
    ladder::launch(rows_aligned(g.b, g.n) ? last_wave<S, V> : last_wave<S, 1>,
                   plan.whole + 2 * plan.cut, S::kThreads, S::kShared, stream, g, plan, arrived);
  }
  static bool is_big(const gemm::Args<float>& g) {
    return 10 * tiles_of<Big>(g) >= 9 * ladder::sm_count();
  }
  static std::size_t workspace(const gemm::Args<float>& g) {
    return is_big(g) ? cut_bytes<Big>(cut_last_wave<Big>(g))
                     : cut_bytes<Small>(cut_last_wave<Small>(g));
  }
  static std::size_t state(const gemm::Args<float>& g) {
    return max(cut_state<Big>(g), cut_state<Small>(g));
  }
  static void launch(const gemm::Args<float>& g, void* state, cudaStream_t stream) {
    auto* const arrived = static_cast<unsigned*>(state);
    if (is_big(g)) {
      launch_shape<Big>(g, arrived, stream);
    } else {
      launch_shape<Small>(g, arrived, stream);
    }
  }
};

const ladder::Register<LastWave, gemm, float> registration;

}  // namespace
