// Idea      nvcuda::wmma, the tensor cores from C++: a warp loads fragments of 16 x 16 matrices
//           from shared memory, multiplies them, and stores the result. Which lane holds which
//           element of a fragment is not specified
// Bound by  the copies into shared memory: one element per instruction, and all warps wait for them
// Limits    compute capability 8.0; M up to 8388480
// Tile      128 x 128 x 32, 8 warps of 64 x 32; 18 to 36 KiB of shared memory
//
// The unspecified layout also keeps this version from the host executor, which has to know which
// bytes a lane accesses.
#include "limits.hpp"

#include <mma.h>

namespace {

constexpr int BM = 128, BN = 128, BK = 32, WM = 64, WN = 32;
constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
static_assert(BK % 16 == 0, "whole fragments");

/// A part of a matrix, as it lies in memory. Rows are 16 bytes longer than they need be, so that
/// the rows of a fragment come to lie in different banks.
template <class T, int Rows, int Columns>
struct Tile {
  static constexpr int kRow = Columns + 16 / sizeof(T);
  alignas(32) T element[Rows][kRow];

  /// Fills the tile from row, column on; beyond the matrix with zeros.
  __device__ void load(const T* matrix, int rows, int columns, int row, int column) {
    for (int i = threadIdx.x; i < Rows * Columns; i += kThreads) {
      const int r = row + i / Columns, c = column + i % Columns;
      element[i / Columns][i % Columns] =
          r < rows && c < columns ? matrix[std::int64_t{r} * columns + c] : T(0.0f);
    }
  }
};

template <class Op, class T>
__global__ void __launch_bounds__(kThreads) wmma_tiles(gemm_tensor::Args<T> g) {
#if __CUDA_ARCH__ >= 800
  namespace wmma = nvcuda::wmma;
  // wmma's name of the type, and what it is stored as.
  constexpr bool kTf32 = std::is_same_v<T, ladder::tfloat32>;
  using Element = std::conditional_t<kTf32, wmma::precision::tf32, T>;
  using Stored = std::conditional_t<kTf32, float, T>;
  constexpr int K = kTf32 ? 8 : 16;  // of a fragment
  using LayoutA = std::conditional_t<Op::kTransposedA, wmma::col_major, wmma::row_major>;
  using LayoutB = std::conditional_t<Op::kTransposedB, wmma::col_major, wmma::row_major>;

  __shared__ std::conditional_t<Op::kTransposedA, Tile<T, BK, BM>, Tile<T, BM, BK>> tile_a;
  __shared__ std::conditional_t<Op::kTransposedB, Tile<T, BN, BK>, Tile<T, BK, BN>> tile_b;
  __shared__ alignas(32) float results[kThreads / 32][16][16];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

  wmma::fragment<wmma::accumulator, 16, 16, K, float> acc[WM / 16][WN / 16];
  for (auto& row : acc) {
    for (auto& fragment : row) wmma::fill_fragment(fragment, 0.0f);
  }
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    if constexpr (Op::kTransposedA) {
      tile_a.load(g.a, g.k, g.m, k0, row0);
    } else {
      tile_a.load(g.a, g.m, g.k, row0, k0);
    }
    if constexpr (Op::kTransposedB) {
      tile_b.load(g.b, g.n, g.k, col0, k0);
    } else {
      tile_b.load(g.b, g.k, g.n, k0, col0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += K) {
      wmma::fragment<wmma::matrix_a, 16, 16, K, Element, LayoutA> a[WM / 16];
      wmma::fragment<wmma::matrix_b, 16, 16, K, Element, LayoutB> b[WN / 16];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        const int m = warp_row + i * 16;
        const T* const from = Op::kTransposedA ? &tile_a.element[k][m] : &tile_a.element[m][k];
        wmma::load_matrix_sync(a[i], reinterpret_cast<const Stored*>(from), tile_a.kRow);
      }
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) {
        const int n = warp_col + j * 16;
        const T* const from = Op::kTransposedB ? &tile_b.element[n][k] : &tile_b.element[k][n];
        wmma::load_matrix_sync(b[j], reinterpret_cast<const Stored*>(from), tile_b.kRow);
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
      }
    }
    __syncthreads();
  }

  // Through shared memory, because the layout of a fragment is not specified.
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 16; ++j) {
      wmma::store_matrix_sync(&results[warp][0][0], acc[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane; e < 16 * 16; e += 32) {
        const int row = row0 + warp_row + i * 16 + e / 16, col = col0 + warp_col + j * 16 + e % 16;
        if (row < g.m && col < g.n) {
          g.c[std::int64_t{row} * g.n + col] =
              gemm_tensor::Output<T>(results[warp][e / 16][e % 16]);
        }
      }
      __syncwarp();
    }
  }
#else
  __trap();
#endif
}

template <class Op>
struct Wmma {
  static constexpr ladder::Version version{"nvcuda::wmma from tiles in shared memory"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    ladder::launch(wmma_tiles<Op, T>, dim3(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM)),
                   kThreads, 0, stream, g);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return p.m <= BM * 65535 ? needs_compute_capability(80)
                             : ladder::unsupported("M is over 8388480");
  }
};

using ladder::bfloat16;
using ladder::half;
using ladder::tfloat32;
const ladder::Register<Wmma<gemm_tensor_nn>, gemm_tensor_nn, half, bfloat16, tfloat32> nn;
const ladder::Register<Wmma<gemm_tensor_nt>, gemm_tensor_nt, half, bfloat16, tfloat32> nt;
const ladder::Register<Wmma<gemm_tensor_tn>, gemm_tensor_tn, half, bfloat16, tfloat32> tn;

}  // namespace
