// Idea      any matrix in one launch of as many blocks as run at once. Of rows of up to 32 vectors a
//           warp has several, as v05 has; of few long rows each warp has columns of its own; and rows
//           that start anywhere are loaded in vectors too, two of which make one
// Vs v13    one launch, not up to three: the last block of a tile of columns to finish adds up the
//           parts, of which there are as few as fill the GPU once; where they are many, groups of
//           them first, as in reduction v14. Of 8 columns 1 lane of 32 had a vector, and of 8191
//           columns each load was of one element
// Bound by  DRAM bandwidth; where the matrix is small by the trips to the L2 in the end
// Limits    x starts at a multiple of 16 bytes
// Tile      256 threads: 32 vectors of 8 rows, eight in flight per thread
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "device/sm_count.hpp"
#include "matrix_reduction.hpp"

namespace matrix_reduction {
namespace {

using Four = ladder::Vec128<float>;

constexpr int kBlock = 256, kWarps = kBlock / 32;
/// Two, for all registers that their loads want. Rows that start anywhere have half as many vectors
/// in flight in a thread, and need more threads.
template <bool kAligned>
constexpr int kBlocksOfSm = kAligned ? 2 : 4;
constexpr int kSteps = 8;                // rows of a thread in flight
constexpr int kFewRows = 32;             // for which no warps share columns
constexpr std::int64_t kLeastRows = 64;  // of a part
constexpr int kMostSms = 512;            // that a launch fills, more than there are

/// Columns of a tile.
template <class T>
constexpr int kTile = 32 * ladder::Vec128<T>::size;

constexpr int kGroup = 32;  // parts that are added up by themselves where there are more

/// How many groups the parts of a tile are in.
__host__ __device__ constexpr unsigned groups_of(unsigned parts) {
  return ladder::ceil_div(parts, unsigned{kGroup});
}

/// Adds up partials[parts][kColumns] to out[columns], if this block is the last of those that have
/// stored theirs; whether it is. By all threads.
template <int kColumns>
__device__ bool add_up(const float* partials, unsigned parts, unsigned* done, float* out,
                       int columns) {
  constexpr int kFours = kColumns / 4, kAtOnce = kBlock / kFours > 0 ? kBlock / kFours : 1;
  __shared__ bool is_last;
  alignas(16) __shared__ float sums[kAtOnce][kColumns];
  __threadfence();  // whoever sees the count sees this thread's partial sums
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(done, parts - 1) == parts - 1;
  __syncthreads();
  if (!is_last) return false;
  __threadfence();  // this thread, having seen the count, sees the partial sums
  const int four = threadIdx.x % kFours;
  Four sum;
#pragma unroll
  for (int e = 0; e < 4; ++e) sum[e] = 0;
#pragma unroll 8
  for (unsigned part = threadIdx.x / kFours; part < parts; part += kAtOnce) {
    const Four more = Four::load(partials + std::int64_t{part} * kColumns + four * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[e] += more[e];
  }
  sum.store(&sums[threadIdx.x / kFours][four * 4]);
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += kBlock) {
    float total = sums[0][c];
#pragma unroll
    for (int i = 1; i < kAtOnce; ++i) total += sums[i][c];
    out[c] = total;
  }
  return true;
}

/// By all threads of a block that has stored its part of a tile: the last of them to do so adds up
/// all to out[columns]. partials: the tile's, [parts and behind them groups][kColumns]; done: of each
/// tile, how many parts of each group, and behind them how many groups
template <int kColumns>
__device__ void finish(float* partials, unsigned* done, unsigned part, unsigned parts,
                       unsigned tile, float* out, int columns) {
  const unsigned groups = groups_of(parts), group = part / kGroup, first = group * kGroup;
  float* const of_groups = partials + std::int64_t{parts} * kColumns;
  float* const sums = groups > 1 ? of_groups + std::int64_t{group} * kColumns : out;
  unsigned* const of_tile = done + tile * (groups + 1);
  const unsigned of_group = min(unsigned{kGroup}, parts - first);
  const bool is_last = add_up<kColumns>(partials + std::int64_t{first} * kColumns, of_group,
                                        &of_tile[group], sums, columns);
  if (groups > 1 && is_last) {
    __syncthreads();  // its shared memory is free
    add_up<kColumns>(of_groups, groups, &of_tile[groups], out, columns);
  }
}

// --- Rows of up to 32 vectors ---------------------------------------------------------------------

template <class Rows, class T>
__global__ void __launch_bounds__(kBlock, kBlocksOfSm<true>) short_rows(Args<T> a, unsigned* done) {
  using Vec = ladder::Vec128<T>;
  constexpr int kPart = Rows::kLanes * Vec::size;
  static_assert(Rows::kBlock == kBlock);
  __shared__ typename Rows::Tile tile;
  __shared__ float of_warp[kWarps][kPart];
  const Rows rows(a.rows, static_cast<int>(a.cols));
  float sum[Vec::size] = {};
  for (std::int64_t n = blockIdx.x; n < rows.tiles(); n += gridDim.x) {
    Vec in_flight[Rows::kVectors], x[Rows::kSteps];
    rows.fetch(a.x, n, in_flight);
    rows.arrange(in_flight, n, tile, T(0.0f), x);
#pragma unroll
    for (int step = 0; step < Rows::kSteps; step += 2) {
      ladder::stay_packed(x[step]);
      ladder::stay_packed(x[step + 1]);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        sum[e] += static_cast<float>(x[step][e]) + static_cast<float>(x[step + 1][e]);
      }
    }
    if constexpr (!std::is_same_v<typename Rows::Tile, typename Rows::InRegisters>) __syncthreads();
  }
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) {
#pragma unroll
    for (int distance = Rows::kLanes; distance < 32; distance *= 2) {
      sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], distance);
    }
    if (threadIdx.x % 32 < Rows::kLanes && rows.has_column(e)) {
      of_warp[threadIdx.x / 32][rows.column(e)] = sum[e];
    }
  }
  __syncthreads();
  float* const partials = static_cast<float*>(a.workspace);
  for (int c = threadIdx.x; c < a.cols; c += kBlock) {
    float total = of_warp[0][c];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) total += of_warp[w][c];
    (gridDim.x > 1 ? partials + std::int64_t{blockIdx.x} * kPart : a.y)[c] = total;
  }
  if (gridDim.x > 1) {
    finish<kPart>(partials, done, blockIdx.x, gridDim.x, 0, a.y, static_cast<int>(a.cols));
  }
}

// --- Longer rows ----------------------------------------------------------------------------------

/// The elements of columns col … of a row; those beyond it are any.
template <bool kAligned, class T>
__device__ ladder::Vec128<T> load_columns(const Args<T>& a, std::int64_t row, std::int64_t col) {
  using Vec = ladder::Vec128<T>;
  const std::int64_t at = row * a.cols + col;
  if constexpr (kAligned) return Vec::load(a.x + at);
  const int shift = static_cast<int>(at % Vec::size);  // of all lanes
  const T* const aligned = a.x + (at - shift);
  if (at - shift + 2 * Vec::size <= a.rows * a.cols) {
    return ladder::shifted(Vec::load(aligned), Vec::load(aligned + Vec::size), shift);
  }
  Vec v;
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) v[e] = col + e < a.cols ? a.x[at + e] : T(0.0f);
  return v;
}

/// kSharers warps share the columns of a tile. partials: [tiles][parts and groups][kTile<T>]
template <int kSharers, bool kAligned, class T>
__global__ void __launch_bounds__(kBlock, kBlocksOfSm<kAligned>) tiles(Args<T> a, unsigned* done) {
  using Vec = ladder::Vec128<T>;
  constexpr int kRows = kAligned ? kSteps : kSteps / 2;  // two vectors make one
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned tile = blockIdx.x * (kWarps / kSharers) + warp / kSharers, parts = gridDim.y;
  const std::int64_t first = std::int64_t{tile} * kTile<T>;  // column of the tile
  const std::int64_t col = first + lane * Vec::size;
  const std::int64_t end = a.rows * (blockIdx.y + 1) / parts;

  float sum[Vec::size] = {};
  if (col < a.cols) {
    std::int64_t r = a.rows * blockIdx.y / parts + warp % kSharers;
    for (; r + (kRows - 1) * kSharers < end; r += kRows * kSharers) {
      Vec v[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) v[i] = load_columns<kAligned>(a, r + i * kSharers, col);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {  // with each other first, so that all are awaited
        float of_rows[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) of_rows[i] = static_cast<float>(v[i][e]);
#pragma unroll
        for (int half = kRows / 2; half > 0; half /= 2) {
#pragma unroll
          for (int i = 0; i < half; ++i) of_rows[i] += of_rows[i + half];
        }
        sum[e] += of_rows[0];
      }
    }
#pragma unroll 4
    for (; r < end; r += kSharers) {
      const Vec v = load_columns<kAligned>(a, r, col);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum[e] += static_cast<float>(v[e]);
    }
  }

  if constexpr (kSharers == 1) {
    if constexpr (kAligned) {
      if (col >= a.cols) return;
#pragma unroll
      for (int i = 0; i < Vec::size / 4; ++i) {
        Four four;
#pragma unroll
        for (int e = 0; e < 4; ++e) four[e] = sum[i * 4 + e];
        four.store_whole(a.y + col + i * 4);
      }
    } else {
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        if (col + e < a.cols) a.y[col + e] = sum[e];
      }
    }
  } else {
    // Four columns of a lane are a plane, and planes lie half a row of banks apart: see v13.
    constexpr int kPlane = 32 * 4 + (Vec::size > 4 ? 16 : 0);
    alignas(16) __shared__ float of_warp[kWarps][Vec::size / 4 * kPlane];
#pragma unroll
    for (int p = 0; p < Vec::size / 4; ++p) {
      Four four;
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] = sum[p * 4 + e];
      four.store(&of_warp[warp][p * kPlane + lane * 4]);
    }
    __syncthreads();
    const int columns = static_cast<int>(min(std::int64_t{kTile<T>}, a.cols - first));
    const std::int64_t before = std::int64_t{tile} * (parts + groups_of(parts));
    float* const partials = static_cast<float*>(a.workspace) + before * kTile<T>;
    const int c = threadIdx.x;  // of the tile
    if (c < columns) {
      const int at = c % Vec::size / 4 * kPlane + c / Vec::size * 4 + c % 4;
      float total = of_warp[0][at];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) total += of_warp[w][at];
      (parts > 1 ? partials + blockIdx.y * kTile<T> : a.y + first)[c] = total;
    }
    if (parts > 1) finish<kTile<T>>(partials, done, blockIdx.y, parts, tile, a.y + first, columns);
  }
}

/// How many parts the rows are split into: so many that their blocks fill the GPU once.
inline std::int64_t parts_of(std::int64_t rows, std::int64_t tiles, std::int64_t at_once) {
  if (tiles == 0) return 1;
  return max(std::int64_t{1}, min(at_once / tiles, rows / kLeastRows));
}

struct ColAny {
  static constexpr ladder::Version version{"one launch, any aspect"};
  // Parts of narrow and of wide matrices, and both in rows that start anywhere.
  static constexpr Problem test_problems[] = {{5000, 8},   {5001, 3},   {900, 100}, {1100, 24},
                                              {9, 1031},   {300, 1031}, {300, 520}, {8, 3000},
                                              {1000, 256}, {700, 50}};
  // More parts than a group has: of short rows, and of rows that start anywhere.
  static constexpr Problem many_sms_test_problems[] = {{2200, 100}, {2200, 129}};

  template <class T>
  static std::size_t workspace(const Args<T>& a) {
    return by_aspect(a, sms(), [](auto*, dim3, std::int64_t tiles, unsigned parts, int columns) {
      const std::int64_t rows = parts > 1 ? tiles * (parts + groups_of(parts)) : 0;
      return static_cast<std::size_t>(rows * columns) * sizeof(float);
    });
  }
  template <class T>
  static std::size_t state(const Args<T>& a) {
    return by_aspect(a, kMostSms, [](auto*, dim3, std::int64_t tiles, unsigned parts, int) {
      const std::int64_t counters = parts > 1 ? tiles * (groups_of(parts) + 1) : 0;
      return static_cast<std::size_t>(counters) * sizeof(unsigned);
    });
  }
  template <class T>
  static void launch(const Args<T>& a, void* state, cudaStream_t stream) {
    by_aspect(a, sms(), [&](auto* kernel, dim3 grid, std::int64_t, unsigned, int) {
      ladder::launch(kernel, grid, kBlock, 0, stream, a, state);
      return std::size_t{0};
    });
  }

 private:
  static int sms() { return min(ladder::sm_count(), kMostSms); }

  /// Calls f(kernel, grid, tiles, parts of each, columns of a part) for a GPU of so many SMs.
  template <class T, class F>
  static std::size_t by_aspect(const Args<T>& a, std::int64_t sms, F f) {
    using Vec = ladder::Vec128<T>;
    if (a.cols <= ladder::kLongestShortRow<T>) {
      const int cols = static_cast<int>(a.cols);
      return ladder::with_short_rows<T, kSteps>(cols, [&]<class Rows>(std::type_identity<Rows>) {
        const std::int64_t at_once = sms * kBlocksOfSm<true>;
        const auto blocks = static_cast<unsigned>(
            cols == 0 ? 0 : max(std::int64_t{1}, min(Rows::tiles(a.rows), at_once)));
        return f(short_rows<Rows, T>, dim3(blocks), 1, blocks, Rows::kLanes * Vec::size);
      });
    }
    const bool is_aligned = a.cols % Vec::size == 0;
    const std::int64_t count = ladder::ceil_div(a.cols, std::int64_t{kTile<T>});
    if (a.rows <= kFewRows) {
      const auto blocks = static_cast<unsigned>(ladder::ceil_div(count, std::int64_t{kWarps}));
      return f(is_aligned ? tiles<1, true, T> : tiles<1, false, T>, dim3(blocks), count, 1,
               kTile<T>);
    }
    const auto parts = static_cast<unsigned>(
        parts_of(a.rows, count, sms * (is_aligned ? kBlocksOfSm<true> : kBlocksOfSm<false>)));
    return f(is_aligned ? tiles<kWarps, true, T> : tiles<kWarps, false, T>,
             dim3(static_cast<unsigned>(count), parts), count, parts, kTile<T>);
  }
};

const ladder::Register<ColAny, col_sum, float, ladder::half, ladder::bfloat16> columns;

}  // namespace
}  // namespace matrix_reduction
