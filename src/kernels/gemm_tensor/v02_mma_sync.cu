// Idea      mma.sync with fragments loaded by ldmatrix: which lane holds what is specified
//           (mma.hpp), so K-tiles need no padding, and accumulators go from registers straight to C
// Vs v01    global memory is read 16 bytes at a time. Chunks of 16 bytes lie swizzled in shared
//           memory: eight rows of a matrix that ldmatrix reads together are all 32 banks once
// Bound by  latency: nothing is multiplied while a K-tile is loaded
// Limits    rows of A and B start at multiples of 16 bytes; compute capability 8.0; M up to 8388480
// Tile      128 x 128 x 32, 8 warps of 64 x 32, four by two fragments; 16 KiB of shared memory
//
//   K-tile           rows              chunk c of row r is stored as chunk
//   along K          64 bytes          c ^ (r / 2 % 4): two rows are 128 bytes, all banks once
//   across K         256 bytes         c ^ (r % 8)
//
// K-tiles lie in shared memory as they do in global memory. An operand whose rows are across K (A
// of tn, B of nn and tn) is transposed by ldmatrix_trans on its way to the registers.
#include "device/ptx/ldmatrix.hpp"
#include "device/ptx/mma.hpp"
#include "device/vector.hpp"
#include "limits.hpp"

namespace {

using namespace ladder::ptx;

constexpr int BM = 128, BN = 128, BK = 32, WM = 64, WN = 32;
constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
constexpr int kChunk = 8;  // elements in 16 bytes

/// A K-tile of A or B, swizzled.
template <class T, int Rows, int Columns>
struct KTile {
  static constexpr int kChunks = Columns / kChunk;                    // in a row
  static constexpr int kRowsPerLine = kChunks < 8 ? 8 / kChunks : 1;  // a line is all 32 banks

  alignas(128) T element[Rows * Columns];

  /// Where a chunk lies.
  __device__ T* chunk(int row, int c) {
    const int swizzled = c ^ (row / kRowsPerLine % (kChunks < 8 ? kChunks : 8));
    return &element[(row * kChunks + swizzled) * kChunk];
  }

  /// Copies it from a matrix; beyond the edge of the matrix it is zero.
  __device__ void load(const T* matrix, int rows, int columns, int row, int column) {
#pragma unroll
    for (int i = 0; i < Rows * kChunks / kThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreads;
      const int r = at / kChunks, c = at % kChunks;
      ladder::Vec128<T> v{};
      if (row + r < rows && column + c * kChunk < columns) {
        v = ladder::Vec128<T>::load(matrix + std::int64_t{row + r} * columns + column + c * kChunk);
      }
      v.store(chunk(r, c));
    }
  }
};

template <class Op, class T, class C>
__global__ void __launch_bounds__(kThreads) mma_tiles(gemm_tensor::Args<T, C> g) {
  __shared__ std::conditional_t<Op::kTransposedA, KTile<T, BK, BM>, KTile<T, BM, BK>> k_tile_a;
  __shared__ std::conditional_t<Op::kTransposedB, KTile<T, BN, BK>, KTile<T, BK, BN>> k_tile_b;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

  float acc[WM / 16][WN / 8][4] = {};
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    if constexpr (Op::kTransposedA) {
      k_tile_a.load(g.a, g.k, g.m, k0, row0);
    } else {
      k_tile_a.load(g.a, g.m, g.k, row0, k0);
    }
    if constexpr (Op::kTransposedB) {
      k_tile_b.load(g.b, g.n, g.k, col0, k0);
    } else {
      k_tile_b.load(g.b, g.k, g.n, k0, col0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      std::uint32_t a[WM / 16][4], b[WN / 8][2];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {  // 16 x 16, four matrices
        const int m = warp_row + i * 16;
        if constexpr (Op::kTransposedA) {
          ldmatrix_trans(a[i],
                         k_tile_a.chunk(k + lane % 8 + lane / 16 * 8, m / kChunk + lane / 8 % 2));
        } else {
          ldmatrix(a[i], k_tile_a.chunk(m + lane % 16, k / kChunk + lane / 16));
        }
      }
#pragma unroll
      for (int j = 0; j < WN / 8;
           ++j) {  // 16 x 8, two matrices; the other lanes' address is unused
        const int n = warp_col + j * 8;
        if constexpr (Op::kTransposedB) {
          ldmatrix(b[j], k_tile_b.chunk(n + lane % 8, k / kChunk + lane / 8 % 2));
        } else {
          ldmatrix_trans(b[j], k_tile_b.chunk(k + lane % 16, n / kChunk));
        }
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) mma_m16n8k16<T>(acc[i][j], a[i], b[j], acc[i][j]);
      }
    }
    __syncthreads();
  }

  // A lane has two neighbours of C. Of 16 bits each they are 4 bytes, and a row of a fragment is
  // half of a sector.
  using Pair = std::conditional_t<sizeof(C) == 2, std::uint32_t, std::uint64_t>;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + warp_row + i * 16 + half * 8 + lane / 4;
        const int col = col0 + warp_col + j * 8 + lane % 4 * 2;
        if (row >= g.m || col >= g.n) continue;
        C* const to = g.c + std::int64_t{row} * g.n + col;
        alignas(Pair) const C pair[] = {C(acc[i][j][half * 2]), C(acc[i][j][half * 2 + 1])};
        if (!Op::kTransposedB || g.n % 2 == 0) {  // rows of N elements of B: N is a multiple of 8
          *reinterpret_cast<Pair*>(to) = *reinterpret_cast<const Pair*>(pair);
        } else {
          to[0] = pair[0];
          if (col + 1 < g.n) to[1] = pair[1];
        }
      }
    }
  }
}

template <class Op>
struct MmaSync {
  static constexpr ladder::Version version{"mma.sync, ldmatrix, swizzled shared memory"};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    ladder::launch(mma_tiles<Op, T, C>, dim3(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM)),
                   kThreads, 0, stream, g);
  }
  template <class T>
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.m > BM * 65535) return ladder::unsupported("M is over 8388480");
    const ladder::Support rows = needs_aligned_rows<Op, T>(p);
    return rows.ok ? needs_compute_capability(80) : rows;
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<MmaSync<gemm_tensor_nn>, gemm_tensor_nn, half> nn;
const ladder::Register<MmaSync<gemm_tensor_nt>, gemm_tensor_nt, half, bfloat16> nt;
const ladder::Register<MmaSync<gemm_tensor_tn>, gemm_tensor_tn, half> tn;

}  // namespace
