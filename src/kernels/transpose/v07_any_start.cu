// Idea      rows that start anywhere: every row of the output has a window in the tile that begins
//           where a sector does, and only whole vectors are moved
// Vs v06    128-bit accesses for every matrix, not only for those whose rows start at multiples of 16
//           bytes; and no sector is written by two blocks, each of which would leave it to the L2
//           cache to put the halves together. For that a tile has a few rows more, which the block
//           above it loads too
// Bound by  DRAM bandwidth
// Limits    in and out start at multiples of 32 bytes
// Tile      16 x 16 thread tiles; f32 64 x 64, 256 threads, 18 KiB of shared memory; 16-bit 128 x 128,
//           512 threads, 36 KiB. Windows are a sector shorter, where they are shifted
//
// Row c of the output starts at its element c * rows, s elements after a sector's boundary. The
// block stores its elements row0 - s to row0 - s + window, for which the tile has the rows of the
// input from row0 - kSector on:
//
//                     row0 - kSector   row0                     row0 + window
//   tile, column c         |.............|===========================|
//   windows      s = 0                   [===========================]
//                s = 3                [===========================]
//                s = 5              [===========================]
//
// The input is loaded by the aligned vectors that touch a row of the tile, one more than it has
// room for, so that the tile has a vector of columns more at both ends.
//
//   access                     word, modulo 32, that lane 8y + x touches      (f32)
//   store element e            4x + e - t + 8q + q / 4 * 4, in row q = y + …, that starts t elements
//                              after a vector's boundary
//   load element e             4x + y + 8r, of column y + …, in row 4x + r
//
// So 8 lanes never meet in a bank. The 4 groups of a warp never do when they load; when they store,
// where their rows' t are different, as with an odd number of columns. (16-bit types: the rows and
// columns of a warp are a word apart, and the words are the same.)
#include "device/vector.hpp"
#include "launchers.hpp"

namespace transpose_tiles {
namespace {

constexpr int kVectors = 16;  // per side of a tile
template <class T>
constexpr int kTile = kVectors* ladder::Vec128<T>::size;
template <class T>
constexpr int kThreads = 64 * ladder::Vec128<T>::size;

/// The rows of the output's windows in a tile: where the windows are shifted, it has a sector less.
template <class T>
__host__ __device__ int window_of(int rows) {
  constexpr int kSector = 32 / sizeof(T);
  return rows % kSector == 0 ? kTile<T> : kTile<T> - kSector;
}

/// Blocks that start one after the other are neighbours along the matrix's shorter side, so that the
/// lines and rows that they share are still in the L2 cache. kWide: its columns are shorter.
template <bool kWide, class T>
__global__ void __launch_bounds__(kThreads<T>) any_start(transpose::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int V = Vec::size, kSector = 2 * V, kPitch = V + kTile<T> + V;
  alignas(Vec) __shared__ T tile[kTile<T> * (kPitch + 1)];
  const auto place = [](int row, int col) { return row * kPitch + col + row / V * V; };

  const int window = window_of<T>(a.rows);
  const int across = ladder::ceil_div(a.cols, kTile<T>), down = gridDim.x / across;  // tiles
  const int row0 = (kWide ? blockIdx.x % down : blockIdx.x / across) * window;
  const int col0 = (kWide ? blockIdx.x / down : blockIdx.x % across) * kTile<T>;
  const int top = row0 + window - kTile<T>;  // the tile's first row
  const std::int64_t size = std::int64_t{a.rows} * a.cols;

  // A thread takes the same vector of some lines, rows of the input and then of the output: 8 lanes
  // have neighbours, a warp has 4 lines a word apart. The lines of a thread are so far apart that
  // they all start equally far behind a sector's boundary.
  constexpr int kInWord = 4 / sizeof(T);
  const int vector = threadIdx.x / 32 % (kVectors / 8) * 8 + threadIdx.x % 8;
  const int four = threadIdx.x / (4 * kVectors);
  const int line = (four / kInWord * 4 + threadIdx.x / 8 % 4) * kInWord + four % kInWord;
  constexpr int kStep = kThreads<T> / kVectors;  // lines
  constexpr int kLines = kTile<T> / kStep;       // of a thread
  static_assert(kStep % kSector == 0);

  // Column col of the tile may be before its first.
  const auto exists = [&](int row, int col) {
    return row >= 0 && row < a.rows && col0 + col < a.cols;
  };
  const auto load = [&](int row, int col, Vec& to) {
    if (!exists(row, col)) return;
    const std::int64_t from = std::int64_t{row} * a.cols + col0 + col;
    if (from + V <= size) {
      to = Vec::load(a.in + from);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) to[e] = from + e < size ? a.in[from + e] : T(0.0f);
    }
  };
  const auto put = [&](const Vec& from, int row, int col) {
    if (!exists(row, col)) return;
    T* const to = &tile[place(row - top, V + col)];
    if (col % V == 0) {
      from.store(to);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) to[e] = from[e];
    }
  };
  const auto shift = [&](int row) { return (std::int64_t{row} * a.cols + col0) & (V - 1); };
  const int first = top + line, col = vector * V - shift(first);
  const int below = top + threadIdx.x;  // a row of whose pieces the last vector is this thread's
  const int end = threadIdx.x < kTile<T> ? kTile<T> - shift(below) : kTile<T>;
  Vec v[kLines], last;
#pragma unroll
  for (int i = 0; i < kLines; ++i) load(first + i * kStep, col, v[i]);
  if (end < kTile<T>) load(below, end, last);
#pragma unroll
  for (int i = 0; i < kLines; ++i) put(v[i], first + i * kStep, col);
  if (end < kTile<T>) put(last, below, end);
  __syncthreads();

  const std::int64_t start = std::int64_t{col0 + line} * a.rows;
  const int row = row0 + vector * V - (start & (kSector - 1));
  if (vector * V >= window || row >= a.rows) return;
  const auto element = [&](int e, int i) {
    return tile[place(row - top + e, V + line + i * kStep)];
  };
  T* const out = a.out + start + row;
  const std::int64_t step = std::int64_t{kStep} * a.rows;
  const int lines = ladder::ceil_div(a.cols - col0 - line, kStep);  // that the output has
  if (row >= 0 && row + V <= a.rows) {
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      if (i >= lines) break;
      Vec turned;
#pragma unroll
      for (int e = 0; e < V; ++e) turned[e] = element(e, i);
      turned.store(out + i * step);
    }
  } else {
    for (int i = 0; i < min(lines, kLines); ++i) {
      for (int e = max(0, -row); e < min(V, a.rows - row); ++e) out[i * step + e] = element(e, i);
    }
  }
}

struct AnyStart {
  static constexpr ladder::Version version{"rows that start anywhere, in whole sectors"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    launch_any_start(a, stream);
  }
};

const ladder::Register<AnyStart, transpose, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
void launch_any_start(const transpose::Args<T>& a, cudaStream_t stream) {
  if (a.rows == 0) return;
  const int window = window_of<T>(a.rows);
  // Where columns begin behind a sector's boundary, windows before the last one's end.
  const int end = a.rows + kTile<T> - window;
  const int across = ladder::ceil_div(a.cols, kTile<T>), down = ladder::ceil_div(end, window);
  ladder::launch(down < across ? any_start<true, T> : any_start<false, T>, across * down,
                 kThreads<T>, 0, stream, a);
}

// Other versions call it too.
template void launch_any_start(const transpose::Args<float>&, cudaStream_t);
template void launch_any_start(const transpose::Args<ladder::half>&, cudaStream_t);
template void launch_any_start(const transpose::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace transpose_tiles
