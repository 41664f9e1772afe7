// Idea      a multistage pipeline: cp.async fills three stages, two K-tiles are in flight while one
//           is multiplied. Fragments of the next step are loaded while those of this one are
//           multiplied
// Vs v02    twice the tile, with 64 x 64 of it for a warp: half as many bytes of shared memory per
//           product. K-tiles are as deep as a cache line, 128 bytes: the hardware carries out
//           copies one line at a time. C is stored through shared memory in chunks of 16 bytes.
//           Blocks go over C in bands, so that those that run at once share their operands in the
//           L2
// Bound by  the tensor cores as mma.sync drives them, which on Hopper is two thirds of what they
//           can do; at that rate shared memory is busy for nearly all the time, too
// Limits    rows of A and B start at multiples of 16 bytes; compute capability 8.0, for e4m3 9.0
//           and CUDA 12.4; 144 KiB of shared memory, which 8.6 and 8.9 lack, for tf32 96 KiB, for
//           e4m3 72 KiB
// Tile      128 x 256 x 128 bytes, 8 warps of 64 x 64, four by eight fragments of 16 x 8, 128
//           accumulators per thread; three stages of 48 KiB; one block per SM. Of tf32 half as
//           wide, of e4m3 a quarter: tf32 needs registers for the addresses of its words, e4m3 to
//           become halves, as which Hopper's mma.sync multiplies it
//
//   iteration i   stage i % 3          (i + 1) % 3             (i + 2) % 3
//   first step    multiplied           in flight               free: K-tile i + 2
//   last step     in registers         waited for; barrier     in flight
//
// Chunk c (16 bytes) of row r of a K-tile is stored as chunk c ^ (r % 8), so that a chunk of each
// of eight rows is all 32 banks once; of tf32 across K as chunk c ^ (2 r % 8), for 8 words of each
// of 4 rows.
//
// All types are alike in bytes: a step is 32 bytes of K. Only what lies across K is not:
// ldmatrix_trans transposes elements of 2 bytes. Those of 4 bytes are loaded one by one; for those
// of one byte there is nothing, so e4m3 is multiplied where both operands lie along K, in nt.
#include "device/ptx/cp_async.hpp"
#include "device/ptx/ldmatrix.hpp"
#include "device/ptx/mma.hpp"
#include "device/vector.hpp"
#include "limits.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kWarpsM = 2, kWarpsN = 4, kThreads = kWarpsM * kWarpsN * 32;
constexpr int WM = 64, BM = kWarpsM * WM;
template <class T>
constexpr int kWarpColumns = sizeof(T) == 2   ? 64
                             : sizeof(T) == 4 ? 32
                                              : 16;
template <class T>
constexpr int kBlockColumns = kWarpsN*(kWarpColumns<T>);
constexpr int kStages = 3;
constexpr int kStep = 32;                    // bytes of K in an mma
constexpr int kKTileDepth = 128;             // bytes of K
constexpr int kSteps = kKTileDepth / kStep;  // in a K-tile
static_assert(kSteps % 2 == 0, "the first step of a K-tile follows on the last of the one before");

/// d += a * b.
template <class T>
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
  if constexpr (sizeof(T) == 2) {
    mma_m16n8k16<T>(d, a, b, d);
  } else if constexpr (sizeof(T) == 4) {
    mma_m16n8k8_tf32(d, a, b, d);
  } else {
    mma_m16n8k32_e4m3(d, a, b, d);
  }
}

/// Rows in shared memory, swizzled so that a chunk of each of eight rows, or with kShift = 2 two
/// chunks of each of four, is all 32 banks once.
template <class T, int Rows, int Columns, int kShift = 1>
struct Swizzled {
  static constexpr int kChunk = 16 / sizeof(T);                       // elements
  static constexpr int kChunks = Columns / kChunk;                    // of a row
  static constexpr int kRowsPerLine = kChunks < 8 ? 8 / kChunks : 1;  // a line is 128 bytes

  alignas(128) T element[Rows * Columns];

  __device__ T* chunk(int row, int c) {
    const int swizzled = c ^ (row / kRowsPerLine * kShift % (kChunks < 8 ? kChunks : 8));
    return &element[(row * kChunks + swizzled) * kChunk];
  }
};

template <class T>
constexpr int BK = kKTileDepth / sizeof(T);

/// A K-tile of A or B, `Span` rows or columns of it, with rows across K or along it. Chunks are
/// numbered by ^ where + would be the same: it merges with the swizzle's, and saves registers.
template <class T, int Span, bool kAcross>
struct KTile : Swizzled<T, kAcross ? BK<T> : Span, kAcross ? Span : BK<T>,
                        kAcross && sizeof(T) == 4 ? 2 : 1> {
  static constexpr int kRows = kAcross ? BK<T> : Span;
  using KTile::Swizzled::chunk;
  using KTile::Swizzled::kChunk;

  /// The 16 x 32 bytes from row m and step `step` of K on, as mma wants A.
  __device__ void fragment_a(std::uint32_t (&a)[4], int m, int step, int lane) {
    if constexpr (!kAcross) {
      ldmatrix(a, chunk(m + lane % 16, step * 2 ^ lane / 16));
    } else if constexpr (sizeof(T) == 2) {
      ldmatrix_trans(a, chunk(step * 16 + lane % 8 + lane / 16 * 8, m / kChunk ^ lane / 8 % 2));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = word(step * 8 + i / 2 * 4, m + i % 2 * 8, lane);
    }
  }

  /// The same of B for 16 columns from column n on: two fragments, one behind the other.
  __device__ void fragments_b(std::uint32_t (&b)[4], int n, int step, int lane) {
    if constexpr (!kAcross) {
      ldmatrix(b, chunk(n + lane % 8 + lane / 16 * 8, step * 2 ^ lane / 8 % 2));
    } else if constexpr (sizeof(T) == 2) {
      ldmatrix_trans(b, chunk(step * 16 + lane % 16, n / kChunk ^ lane / 16));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = word(step * 8 + i % 2 * 4, n + i / 2 * 8, lane);
    }
  }

 private:
  /// This lane's word of the 4 rows from k on and the 8 columns from m on.
  __device__ std::uint32_t word(int k, int m, int lane) {
    const T* const from = chunk(k + lane % 4, m / kChunk ^ lane / 4 / kChunk) + lane / 4 % kChunk;
    return *reinterpret_cast<const std::uint32_t*>(from);
  }
};

/// Copies K-tiles of an operand, one after the other along K. What lies beyond M, N or K is zero.
template <class T, int Span, bool kAcross>
class Copies {
 public:
  using To = KTile<T, Span, kAcross>;

  /// `size` is M or N, `first` where the tile begins in it.
  __device__ Copies(const T* matrix, int size, int depth, int first)
      : row_(static_cast<int>(threadIdx.x) / To::kChunks),
        chunk_(static_cast<int>(threadIdx.x) % To::kChunks),
        pitch_(kAcross ? size : depth) {
    const int column = chunk_ * To::kChunk;
    rows_left_ = kAcross ? depth - row_ : size - first - row_;
    columns_left_ = kAcross ? size - first - column : depth - column;
    from_ = matrix + std::int64_t{kAcross ? row_ : first + row_} * pitch_ +
            (kAcross ? first + column : column);
  }

  /// Starts to copy the next K-tile.
  __device__ void start(To& to) {
    const T* from = from_;
#pragma unroll
    for (int v = 0; v < To::kRows / kRowsAtOnce; ++v) {
      const bool exists = columns_left_ > 0 && rows_left_ > v * kRowsAtOnce;
      cp_async<16>(to.chunk(row_ + v * kRowsAtOnce, chunk_), from, exists ? 16 : 0);
      from += std::int64_t{kRowsAtOnce} * pitch_;
    }
    from_ += kAcross ? std::int64_t{BK<T>} * pitch_ : BK<T>;
    (kAcross ? rows_left_ : columns_left_) -= BK<T>;
  }

 private:
  static constexpr int kRowsAtOnce = kThreads / To::kChunks;
  static_assert(To::kRows % kRowsAtOnce == 0, "threads copy equally many");

  int row_, chunk_;               // in the K-tile, of this thread's first chunk
  int pitch_;                     // from a row to the next, in elements
  int rows_left_, columns_left_;  // of the matrix, from that chunk on
  const T* from_;
};

/// Where a block's tile is, in tiles. Bands of tiles are kBand high and as wide as C; within them
/// blocks go down the columns. The 132 tiles that run on an H100 at once form about a square, and
/// so read the fewest different rows and columns.
struct TileOrder {
  static constexpr int kBand = 16;
  int row, column;

  __device__ TileOrder(int block, int rows, int columns) {
    const int band = block / (kBand * columns), within = block % (kBand * columns);
    const int height = min(kBand, rows - band * kBand);
    row = band * kBand + within % height;
    column = within / height;
  }
};

template <class Op, class T>
struct Stage {
  KTile<T, BM, Op::kTransposedA> a;
  KTile<T, kBlockColumns<T>, !Op::kTransposedB> b;
};

template <class Op, class T, class Out>
__global__ void __launch_bounds__(kThreads, 1) multistage(gemm_tensor::Args<T, Out> g) {
  constexpr int WN = kWarpColumns<T>, BN = kBlockColumns<T>;
  auto* const stages = ladder::dynamic_shared<Stage<Op, T>>();
  auto* const last_stage = stages + kStages - 1;
  const TileOrder tile(static_cast<int>(blockIdx.x), ladder::ceil_div(g.m, BM),
                       ladder::ceil_div(g.n, BN));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / kWarpsN * WM, warp_col = warp % kWarpsN * WN;

  Copies<T, BM, Op::kTransposedA> copies_a(g.a, g.m, g.k, tile.row * BM);
  Copies<T, BN, !Op::kTransposedB> copies_b(g.b, g.n, g.k, tile.column * BN);
  auto copy = [&](Stage<Op, T>* to) {
    copies_a.start(to->a);
    copies_b.start(to->b);
    cp_async_commit_group();
  };

  // The fragments of two steps: one is multiplied while the other is loaded.
  std::uint32_t a[2][WM / 16][4], b[2][WN / 16][4];
  auto fragments = [&](Stage<Op, T>* from, int step) {
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
      from->a.fragment_a(a[step % 2][i], warp_row + i * 16, step, lane);
    }
#pragma unroll
    for (int j = 0; j < WN / 16; ++j) {
      from->b.fragments_b(b[step % 2][j], warp_col + j * 16, step, lane);
    }
  };

  float acc[WM / 16][WN / 8][4] = {};
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) copy(&stages[s]);
  cp_async_wait_group<kStages - 2>();
  __syncthreads();
  auto* now = stages;       // the K-tile in hand
  auto* free = last_stage;  // to be overwritten
  fragments(now, 0);
  for (int k = 0; k < g.k; k += BK<T>) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step == kSteps - 1) {  // everything of this K-tile is in registers: on to the next
        cp_async_wait_group<kStages - 2>();
        __syncthreads();
        now = now == last_stage ? stages : now + 1;
      }
      fragments(now, (step + 1) % kSteps);  // after the last K-tile zeros, unused
      if (step == 0) {
        copy(free);
        free = free == last_stage ? stages : free + 1;
      }
      // Along one row and back along the next: neighbours share a fragment.
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int at = 0; at < WN / 8; ++at) {
          const int j = i % 2 == 0 ? at : WN / 8 - 1 - at;
          const auto& pair = b[step % 2][j / 2];
          multiply_add<T>(acc[i][j], a[step % 2][i], {pair[j % 2 * 2], pair[j % 2 * 2 + 1]});
        }
      }
    }
  }
  cp_async_wait_all();
  __syncthreads();

  // C is stored through shared memory, in parts of 8 KiB per warp.
  using Vec = ladder::Vec128<Out>;
  using Pair = std::conditional_t<sizeof(Out) == 2, std::uint32_t, std::uint64_t>;
  constexpr int kRows = 8192 / (WN * int{sizeof(Out)}) < WM ? 8192 / (WN * int{sizeof(Out)}) : WM;
  using Part = Swizzled<Out, kRows, WN, sizeof(Out) / 2>;
  Part& part = reinterpret_cast<Part*>(stages)[warp];
  const bool c_aligned = g.n % Vec::size == 0;
#pragma unroll
  for (int part_row = 0; part_row < WM; part_row += kRows) {
#pragma unroll
    for (int r = 0; r < kRows; r += 8) {
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        const float(&from)[4] = acc[(part_row + r) / 16][j];
        alignas(Pair) const Out pair[] = {Out(from[r / 8 % 2 * 2]), Out(from[r / 8 % 2 * 2 + 1])};
        const int col = j * 8 + lane % 4 * 2;
        Out* const to = part.chunk(r + lane / 4, col / Vec::size) + col % Vec::size;
        *reinterpret_cast<Pair*>(to) = *reinterpret_cast<const Pair*>(pair);
      }
    }
    __syncwarp();
#pragma unroll
    for (int v = lane; v < kRows * Part::kChunks; v += 32) {
      const int row = tile.row * BM + warp_row + part_row + v / Part::kChunks;
      const int col = tile.column * BN + warp_col + v % Part::kChunks * Vec::size;
      if (row >= g.m || col >= g.n) continue;
      const Vec from = Vec::load(part.chunk(v / Part::kChunks, v % Part::kChunks));
      Out* const to = g.c + std::int64_t{row} * g.n + col;
      if (c_aligned) {
        from.store(to);
      } else {
        for (int e = 0; e < Vec::size && col + e < g.n; ++e) to[e] = from[e];
      }
    }
    __syncwarp();
  }
}

template <class Op>
struct CpAsync {
  static constexpr ladder::Version version{"cp.async, three stages, tiles of 128 x 256"};

  template <class T, class Out>
  static void launch(const gemm_tensor::Args<T, Out>& g, cudaStream_t stream) {
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.m, BM)} * ladder::ceil_div(g.n, kBlockColumns<T>);
    ladder::launch(multistage<Op, T, Out>, static_cast<unsigned>(tiles), kThreads,
                   kStages * sizeof(Stage<Op, T>), stream, g);
  }
  template <class T>
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (sizeof(T) == 1 && !kHasMmaE4m3) return ladder::unsupported("e4m3 needs CUDA 12.4");
    for (const ladder::Support& support :
         {needs_aligned_rows<Op, T>(p), needs_compute_capability(sizeof(T) == 1 ? 90 : 80),
          needs_shared_memory(kStages * sizeof(Stage<Op, T>))}) {
      if (!support.ok) return support;
    }
    return ladder::supported();
  }
};

using ladder::bfloat16;
using ladder::float8_e4m3;
using ladder::half;
using ladder::tfloat32;
const ladder::Register<CpAsync<gemm_tensor_nn>, gemm_tensor_nn, half, bfloat16, tfloat32> nn;
const ladder::Register<CpAsync<gemm_tensor_nt>, gemm_tensor_nt, half, bfloat16, tfloat32,
                       float8_e4m3>
    nt;
const ladder::Register<CpAsync<gemm_tensor_tn>, gemm_tensor_tn, half, bfloat16, tfloat32> tn;
const ladder::Register<CpAsync<gemm_tensor_tn>, gemm_tensor_tn_f32, half, bfloat16> tn_f32;

}  // namespace
