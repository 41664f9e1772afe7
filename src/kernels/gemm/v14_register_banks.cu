// Idea      register banks: each accumulator lies in the other bank than the number of B in its FMA
// Vs v13    C is stored from copies of the accumulators, so that vector stores do not decide which
//           registers accumulators are in; and cp.async in the loop copies whole K-tiles or none,
//           which takes fewer instructions
// Bound by  instruction issue: 91 of 100 instructions are FMAs
// Limits    M up to 8388480
// Tile      128 x 256 x 8, 256 threads of 16 x 8, 204 registers; 4 stages in 48 KiB of shared
//           memory; one block per SM; 43 operations per byte of the K-tiles. Or, as in v11, 64 x
//           128 x 16, 128 threads of 8 x 8; 3 stages in 37 KiB of shared memory, three blocks per
//           SM
//
// Even registers are one bank, odd ones the other; each delivers one register per cycle. An FMA
// reads an accumulator and a number of B; the number of A is still in the operand cache from the
// FMA before (.reuse). A vector is in four consecutive registers, the first one even, so
// b[j] is in bank j % 2. A vector store of four accumulators would put acc[i][j] in bank j % 2 too,
// and every FMA would read one bank twice.
//
// Hence the shuffle before the stores: each lane reads its own accumulators by __shfl_sync. A plain
// copy would not help: the compiler propagates it, so that the vector store again wants the
// accumulators themselves in consecutive registers. It does not see that a shuffle from the lane
// itself changes nothing, so only the results need consecutive registers, and the accumulators'
// registers are chosen for the loop. In the machine code (nvcc 13.0, sm_90, the big tile) 877 of the
// loop's 1024 FMAs read one bank twice in v13, and 146 in v14:
//
//   v13   FFMA R88, R24, R18.reuse, R88      R24 and R88: both even
//         FFMA R89, R25, R18.reuse, R89      R25 and R89: both odd
//   v14   FFMA R174, R74.reuse, R77, R174    R77 is odd, R174 even
//         FFMA R179, R74.reuse, R78, R179    R78 is even, R179 odd
#include "device/ptx/cp_async.hpp"
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using namespace ladder::ptx;

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

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
};

/// W: how many floats of B a copy has, 4 where all rows start at multiples of 16 bytes, or 1.
template <class S, int W>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm)
    register_banks(gemm::Args<float> g) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  using Stage = typename S::Stage;
  Stage* const stages = ladder::dynamic_shared<Stage>();
  Stage* const last_stage = stages + S::kStages - 1;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
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
  const int k_tiles = ladder::ceil_div(g.k, BK);
  const int lacking = (BK - g.k % BK) % BK;
  const int a_row = t / kDeepA, a_col = t % kDeepA;
  const int b_row = t / (BN / W) % kRowsB, b_col = t % (BN / W) * W;
  const float* a_from[kCopiesA];
#pragma unroll
  for (int v = 0; v < kCopiesA; ++v) {
    const int m = row0 + a_row + v * kRowsA;
    a_from[v] = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col - lacking;
  }
  const float* b_from = g.b + std::int64_t{b_row - lacking} * g.n;
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
      cp_async<4 * W>(&to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * g.n,
                      k >= missing ? 4 * W : 0);
    }
    b_from += std::int64_t{BK} * g.n;
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
      cp_async_if<4 * W>(any, &to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * g.n);
    }
    b_from += std::int64_t{BK} * g.n;
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
    copy_first(&stages[s], s >= k_tiles ? BK : s == 0 ? lacking : 0);
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
        now = left == 1 ? now : now == last_stage ? stages : now + 1;
      }
      fragments(now, (k + 1) % BK);  // after the last K-tile its own, unused
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int step = 0; step < TN; ++step) {
          const int j = i % 2 == 0 ? step : TN - 1 - step;
          acc[i][j] += a[k % 2][i / V][i % V] * b[k % 2][j / V][j % V];
        }
      }
    }
  }

  const bool c_aligned = reinterpret_cast<std::uintptr_t>(g.c) % sizeof(Vec) == 0 && g.n % V == 0;
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += V) {
      // A shuffle from the lane itself: a copy that the compiler does not propagate (see above).
      Vec value;
#pragma unroll
      for (int e = 0; e < V; ++e) value[e] = __shfl_sync(0xffffffff, acc[i][j + e], lane);
      const int c_row = row0 + row + i / V * S::PM + i % V;
      const int c_col = col0 + col + j / V * S::PN;
      if (c_row >= g.m) continue;
      float* const to = g.c + std::int64_t{c_row} * g.n + c_col;
      if (c_aligned && c_col < g.n) {
        value.store(to);
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          if (c_col + e < g.n) to[e] = value[e];
        }
      }
    }
  }
}

struct RegisterBanks {
  // 128 big tiles
  static constexpr gemm::Problem test_problems[] = {{4, 32764, 8}};
  static constexpr ladder::Version version{
      "every FMA reads its accumulator and its number of B from different register banks"};
  using Big = Shape<128, 256, 8, 64, 64, 4, 1>;
  using Small = Shape<64, 128, 16, 32, 64, 3, 3>;
  static constexpr std::int64_t kBlocks = 128;  // keep the SMs busy: an H100 has 132

  template <class S>
  static dim3 grid(const gemm::Args<float>& g) {
    return dim3(ladder::ceil_div(g.n, S::BN), ladder::ceil_div(g.m, S::BM));
  }
  template <class S>
  static void launch_shape(const gemm::Args<float>& g, cudaStream_t stream) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(g.b) % sizeof(Vec) == 0 && g.n % V == 0;
    ladder::launch(aligned ? register_banks<S, V> : register_banks<S, 1>, grid<S>(g), S::kThreads,
                   S::kStages * sizeof(typename S::Stage), stream, g);
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 big = grid<Big>(g);
    if (std::int64_t{big.x} * big.y >= kBlocks) {
      launch_shape<Big>(g, stream);
    } else {
      launch_shape<Small>(g, stream);
    }
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= Big::BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 8388480");
  }
};

const ladder::Register<RegisterBanks, gemm, float> registration;

}  // namespace
