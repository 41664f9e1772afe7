// Idea      fp32 from TF32 (Ootomo and Yokota, Recovering single precision accuracy from Tensor
//           Cores, 2022). A number x is a sum of two: big, x rounded to TF32, and small, what is
//           left. Of a * b = big_a * big_b + big_a * small_b + small_a * big_b + small_a * small_b
//           three products are made; the last one is below the last bit of the first
// Vs v03    three products for one, of fragments that are split in registers. And tensor cores only
//           cut numbers off, always towards zero, so they accumulate a single K-tile, 32 products,
//           which is then added to the total by an fp32 addition on the CUDA cores, which rounds
// Bound by  the tensor cores as mma.sync drives them, at a third of TF32's rate
// Limits    nn; rows of A and B start at multiples of 16 bytes; compute capability 8.0; 96 KiB of
//           shared memory
// Tile      128 x 128 x 32, 8 warps of 64 x 32, 64 accumulators and 64 totals per thread; three
//           stages of 32 KiB; one block per SM
//
//   K-tile                   chunk c of row r is stored as chunk
//   A, 128 rows along K     c ^ (r % 8): ldmatrix reads a chunk of each of eight rows
//   B, 32 rows across K     c ^ (2 r % 8): 32 lanes read 8 words of each of four rows
//
// An element is off by at most 2^-23 of itself when it is big + small, since TF32 has 11 bits and
// so the two have 23 or more of the 24; the product left out is 2^-22 of the whole.
#include "device/ptx/cp_async.hpp"
#include "device/ptx/ldmatrix.hpp"
#include "device/ptx/mma.hpp"
#include "limits.hpp"

namespace {

using namespace ladder::ptx;

constexpr int BM = 128, BN = 128, BK = 32, WM = 64, WN = 32;
constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
constexpr int kStages = 3;
constexpr int kChunk = 4;  // floats in 16 bytes

/// A K-tile of A or B, swizzled.
template <int Rows, int Columns, int kShift>
struct KTile {
  static constexpr int kChunks = Columns / kChunk;  // in a row
  static constexpr int kRowsAtOnce = kThreads / kChunks;

  alignas(128) float element[Rows * Columns];

  __device__ float* chunk(int row, int c) {
    return &element[(row * kChunks + (c ^ (row * kShift % 8))) * kChunk];
  }

  /// Starts to copy it from a matrix, of which `rows` and `columns` are left from `from` on; beyond
  /// them it is zero.
  __device__ void copy(const float* from, int pitch, int rows, int columns) {
    const int row = static_cast<int>(threadIdx.x) / kChunks;
    const int c = static_cast<int>(threadIdx.x) % kChunks;
    from += std::int64_t{row} * pitch + c * kChunk;
#pragma unroll
    for (int r = 0; r < Rows; r += kRowsAtOnce) {
      const bool exists = row + r < rows && c * kChunk < columns;
      cp_async<16>(chunk(row + r, c), from, exists ? 16 : 0);
      from += std::int64_t{kRowsAtOnce} * pitch;
    }
  }
};

struct Stage {
  KTile<BM, BK, 1> a;
  KTile<BK, BN, 2> b;
};

/// Splits fp32 numbers into TF32 ones that add up to them.
template <int kWords>
__device__ __forceinline__ void split(const std::uint32_t (&words)[kWords],
                                      std::uint32_t (&big)[kWords],
                                      std::uint32_t (&small)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const float x = __uint_as_float(words[i]);
    big[i] = to_tf32(x) & 0xffffe000;
    small[i] = __float_as_uint(x - __uint_as_float(big[i]));  // of which mma sees 11 bits
  }
}

__global__ void __launch_bounds__(kThreads, 1) split_products(gemm_tensor::Args<float> g) {
  auto* const stages = ladder::dynamic_shared<Stage>();
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

  const float* a_from = g.a + std::int64_t{row0} * g.k;
  const float* b_from = g.b + col0;
  int k_left = g.k;
  auto copy = [&](Stage* to) {
    to->a.copy(a_from, g.k, g.m - row0, k_left);
    to->b.copy(b_from, g.n, k_left, g.n - col0);
    cp_async_commit_group();
    a_from += BK;
    b_from += std::int64_t{BK} * g.n;
    k_left -= BK;
  };

  float total[WM / 16][WN / 8][4] = {};
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) copy(&stages[s]);
  int now = 0, free = kStages - 1;
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    cp_async_wait_group<kStages - 2>();
    __syncthreads();  // the K-tile is complete for all threads, and the previous stage free
    copy(&stages[free]);
    Stage& stage = stages[now];
    free = now;
    now = now == kStages - 1 ? 0 : now + 1;

    float acc[WM / 16][WN / 8][4] = {};
#pragma unroll
    for (int k = 0; k < BK; k += 8) {
      std::uint32_t big_a[WM / 16][4], small_a[WM / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        std::uint32_t a[4];
        ldmatrix(a, stage.a.chunk(warp_row + i * 16 + lane % 16, k / kChunk ^ lane / 16));
        split(a, big_a[i], small_a[i]);
      }
      std::uint32_t big_b[WN / 8][2], small_b[WN / 8][2];
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        const int n = warp_col + j * 8 + lane / 4;
        const float* const rows[] = {stage.b.chunk(k + lane % 4, n / kChunk),
                                     stage.b.chunk(k + lane % 4 + 4, n / kChunk)};
        split({__float_as_uint(rows[0][n % kChunk]), __float_as_uint(rows[1][n % kChunk])},
              big_b[j], small_b[j]);
      }
      auto multiply_add = [&](const auto& a, const auto& b) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
          for (int j = 0; j < WN / 8; ++j) mma_m16n8k8_tf32(acc[i][j], a[i], b[j], acc[i][j]);
        }
      };
      multiply_add(small_a, big_b);
      multiply_add(big_a, small_b);
      multiply_add(big_a, big_b);
    }
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) total[i][j][e] += acc[i][j][e];
      }
    }
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + warp_row + i * 16 + half * 8 + lane / 4;
        const int col = col0 + warp_col + j * 8 + lane % 4 * 2;
        if (row >= g.m || col >= g.n) continue;
        const float2 pair = make_float2(total[i][j][half * 2], total[i][j][half * 2 + 1]);
        *reinterpret_cast<float2*>(g.c + std::int64_t{row} * g.n + col) = pair;
      }
    }
  }
}

struct SplitFp32 {
  static constexpr ladder::Version version{"fp32 from three products of TF32"};

  static void launch(const gemm_tensor::Args<float>& g, cudaStream_t stream) {
    ladder::launch(split_products, dim3(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM)),
                   kThreads, kStages * sizeof(Stage), stream, g);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.m > BM * 65535) return ladder::unsupported("M is over 8388480");
    for (const ladder::Support& support :
         {needs_aligned_rows<gemm_tensor_nn, float>(p), needs_compute_capability(80),
          needs_shared_memory(kStages * sizeof(Stage))}) {
      if (!support.ok) return support;
    }
    return ladder::supported();
  }
};

const ladder::Register<SplitFp32, gemm_tensor_nn, float> registration;

}  // namespace
