// Idea      a float is the sum of three bfloat16s, 8 bits of its mantissa in each, and a product of
//           floats the sum of nine products of these. Six of them, made on tensor cores, are as
//           good as the product in fp32
// Vs v16    all 24 bits of the mantissa, where two parts of TF32 keep 22 or 23. Six products at
//           twice the rate take as long as three, of fewer bytes. wgmma reads bfloat16s along N as
//           well, so B is not transposed. The tensor cores accumulate two K-tiles, not one, before
//           the CUDA cores add them, or the additions would cost what was gained
// Bound by  tensor cores, and power. Splitting A and B takes time in proportion to the matrices
// Limits    compute capability 9.0. Magnitudes from 2^-110 to 2^128 (1 - 2^-9): the third part of
//           what is smaller loses bits, with an absolute error of up to 2^-134; what is larger and
//           infinities are split into an infinity and a NaN, and their row or column of C is NaN
// Tile      128 x 128 x 32, two warpgroups of 64 x 128, 64 accumulators per thread and 64 of the
//           current K-tiles; 4 stages of 48 KiB; one block per SM
//
// With x = x0 + x1 + x2, large to small, x1 is at most 2^-8 of x, and x2 2^-16. What is left out,
// a1 b2 + a2 b1 + a2 b2, is at most 2^-23 of a b, as much as two roundings of fp32.
//
// The tensor cores cut off what does not fit where they add: always towards zero, so errors do not
// cancel, and each is as large as the last bit of the sum so far. So they accumulate two K-tiles
// only, the small products of each first, and these are added in fp32, rounded to nearest (Ootomo
// and Yokota, Recovering single precision accuracy from Tensor Cores, 2022).
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;
using ladder::bfloat16;

constexpr int kParts = 3;
constexpr int BM = 128, BN = 128, BK = 32;
constexpr int kTogether = 2;  // K-tiles that the tensor cores accumulate
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
// A stage holds the parts of A, [kParts][BM][BK], and those of B in panels of 64 columns,
// [BN / 64][kParts][BK][64]. Elements:
constexpr int kPartA = BM * BK, kPartB = BK * 64, kPanel = kParts * kPartB;
constexpr int kStage = kParts * (BM + BN) * BK;
constexpr std::size_t kShared = kStages * kStage * sizeof(bfloat16) + 1024;  // to begin at 1024 n
using TileOrder = Tiles<BM, BN, 12>;

/// A matrix, and where its parts are to be: [kParts][rows][row()].
struct Matrix {
  const float* from;
  bfloat16* parts;
  int rows, columns;

  static constexpr int kChunk = ladder::Vec128<bfloat16>::size;
  __host__ __device__ int chunks() const { return ladder::ceil_div(columns, kChunk); }
  /// Rows begin with lines: else TMA's 64 or 128 bytes of one lie in two.
  __host__ __device__ int row() const { return ladder::ceil_div(columns, 64) * 64; }
  __host__ __device__ std::int64_t part() const { return std::int64_t{rows} * row(); }
};

constexpr int kSplitThreads = 256;

/// Splits A (y = 0) and B (y = 1): a chunk per thread.
template <bool kAligned>
__global__ void __launch_bounds__(kSplitThreads) split(Matrix a, Matrix b) {
  using Floats = ladder::Vec128<float>;
  const Matrix matrix = blockIdx.y == 0 ? a : b;
  const unsigned i = blockIdx.x * kSplitThreads + threadIdx.x;
  if (i >= unsigned(matrix.rows) * unsigned(matrix.chunks())) return;
  const int row = i / matrix.chunks(), column = i % matrix.chunks() * Matrix::kChunk;
  const float* const from = matrix.from + std::int64_t{row} * matrix.columns + column;
  const int left = matrix.columns - column;

  float x[Matrix::kChunk] = {};
#pragma unroll
  for (int j = 0; j < Matrix::kChunk; j += Floats::size) {
    if constexpr (kAligned) {
      if (j >= left) break;
      const Floats four = Floats::load_streaming(from + j);
#pragma unroll
      for (int e = 0; e < Floats::size; ++e) x[j + e] = four[e];
    } else {
#pragma unroll
      for (int e = j; e < j + Floats::size; ++e) {
        if (e < left) x[e] = from[e];
      }
    }
  }

  bfloat16* const to = matrix.parts + std::int64_t{row} * matrix.row() + column;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    ladder::Vec128<bfloat16> part;
#pragma unroll
    for (int e = 0; e < Matrix::kChunk; ++e) {
      part[e] = __float2bfloat16_rn(x[e]);
      x[e] -= __bfloat162float(part[e]);  // exact
    }
    part.store(to + p * matrix.part());
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             gemm_tensor::Args<float> g, TileOrder tiles) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  bfloat16* const shared = ladder::dynamic_shared<bfloat16>();
  bfloat16* const ring = shared + (-shared_address(shared) & 1023) / sizeof(bfloat16);
  const int k_tiles =
      ladder::ceil_div(g.k, kTogether * BK) * kTogether;  // beyond K TMA fills with zeros

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
        bfloat16* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(bfloat16));
        tensor_load(to, &map_a, k_tile * BK, corner.y, 0, barrier);
#pragma unroll
        for (int i = 0; i < BN / 64; ++i) {
          tensor_load(to + kParts * kPartA + i * kPanel, &map_b, corner.x + i * 64, k_tile * BK, 0,
                      barrier);
        }
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warp = threadIdx.x / 32;
  // Broadcast by a shuffle, so that the compiler knows it is the same in all lanes: descriptors are
  // computed from it, and belong in uniform registers.
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    float acc[BN / 2] = {};
    for (int first = 0; first < k_tiles; first += kTogether) {
      float together[BN / 2];
      int previous = 0;  // the previous K-tile's stage
#pragma unroll
      for (int s = 0; s < kTogether; ++s, state.advance()) {
        const bfloat16* const from = ring + state.stage * kStage;
        const auto a = wgmma_descriptor<Major::k, BK * 2>(from + warpgroup * 64 * BK);
        const auto b = wgmma_descriptor<Major::mn, 128, kPanel * 2>(from + kParts * kPartA);
        constexpr int kProducts[][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
        constexpr std::uint64_t kNextA = kPartA * 2 / 16, kNextB = kPartB * 2 / 16;
        mbarrier_wait(&full[state.stage], state.parity);
        wgmma_fence();
#pragma unroll
        for (int p = 0; p < 6; ++p) {
#pragma unroll
          for (int k = 0; k < BK / 16; ++k) {
            wgmma<BN, Major::k, Major::mn, bfloat16>(
                together, a + kProducts[p][0] * kNextA + k * wgmma_step(Major::k),
                b + kProducts[p][1] * kNextB + k * wgmma_step(Major::mn), s + p + k > 0);
          }
        }
        wgmma_commit_group();
        if (s > 0) {
          wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
          if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
        }
        previous = state.stage;
      }
      wgmma_wait_group<0>(together);  // meanwhile the other warpgroup multiplies
      if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) acc[i] += together[i];
    }
    const int2 corner = tiles.at(tile);
    store_pairs(g.c, g.m, g.n, corner.y + warp * 16, corner.x, acc);
  }
}

/// The parts of a matrix for TMA, which brings all of them at once.
CUtensorMap parts_map(const Matrix& m, int columns, int rows, CUtensorMapSwizzle swizzle) {
  constexpr std::int64_t kSize = sizeof(bfloat16);
  return ladder::tensor_map(ladder::DType::bf16, m.parts,
                            {{.size = m.columns, .stride = kSize, .box = columns},
                             {.size = m.rows, .stride = m.row() * kSize, .box = rows},
                             {.size = kParts, .stride = m.part() * kSize, .box = kParts}},
                            swizzle);
}

struct SplitBf16 {
  static constexpr ladder::Version version{"fp32 from six products of three bfloat16s each"};
  using Args = gemm_tensor::Args<float>;

  static Matrix matrix_a(const Args& g) {
    return {g.a, static_cast<bfloat16*>(g.workspace), g.m, g.k};
  }
  static Matrix matrix_b(const Args& g) {
    return {g.b, static_cast<bfloat16*>(g.workspace) + kParts * matrix_a(g).part(), g.k, g.n};
  }
  static std::size_t workspace(const Args& g) {
    return kParts * (matrix_a(g).part() + matrix_b(g).part()) * sizeof(bfloat16);
  }

  static void launch(const Args& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const Matrix a = matrix_a(g), b = matrix_b(g);
    auto aligned = [](const Matrix& m) {
      return m.columns % 4 == 0 && reinterpret_cast<std::uintptr_t>(m.from) % 16 == 0;
    };
    const std::int64_t chunks =
        max(std::int64_t{a.rows} * a.chunks(), std::int64_t{b.rows} * b.chunks());
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(chunks, kSplitThreads)), 2);
    ladder::launch(aligned(a) && aligned(b) ? split<true> : split<false>, grid, kSplitThreads, 0,
                   stream, a, b);

    const TileOrder tiles(g.m, g.n);
    ladder::launch(multiply, tiles.blocks(ladder::sm_count()), kThreads, kShared, stream,
                   parts_map(a, BK, BM, CU_TENSOR_MAP_SWIZZLE_64B),
                   parts_map(b, 64, BK, CU_TENSOR_MAP_SWIZZLE_128B), g, tiles);
  }
};

const ladder::Register<SplitBf16, gemm_tensor_nn, float> registration;

}  // namespace
