// Idea      narrow matrices, of few columns or few rows: a tile has all of them, and as many of the
//           others as fit
// Vs v07    on one side the tile is one piece of memory, on the other a few long rows: lanes are not
//           left without an element, and where rows start anywhere few of their vectors are cut
// Bound by  DRAM bandwidth
// Limits    at most 128 rows or at most 128 columns. in and out start at multiples of 32 bytes
// Tile      16 KiB, of more than 32 rows or columns 32 KiB; 512 threads. f32 and 8 columns: 512 rows,
//           64 columns: 128 rows
//
// One of the two matrices is tall, n columns of m elements; the other has those columns as rows. A
// tile has some elements of every column, and lies in shared memory as in the tall matrix, from or
// to which it is moved as one piece. V of its rows are n vectors; where n is even, a vector of
// padding follows them, so that V rows further is an odd number of vectors further.
//
//   access                           word, modulo 32, that lane 8y + x touches    (f32)
//   element e of a column's vector   4 odd x + e n + y: all 32
//
// Columns start anywhere, as rows do in v07; then the lanes' e differ, and some y share their banks.
#include "device/row_span.hpp"
#include "device/vector.hpp"
#include "launchers.hpp"

namespace transpose_tiles {
namespace {

constexpr unsigned kThreads = 512, kBlocks = 4;  // of an SM
constexpr unsigned kLoads = 2;                   // vectors of a thread, in flight together

template <class T>
struct Narrow {
  static constexpr int V = ladder::Vec128<T>::size;
  static constexpr int kSector = 2 * V;

  const T* in;
  T* out;
  unsigned n;         // columns of the tall matrix
  std::int64_t m;     // its rows
  unsigned rows = 0;  // of a tile, a multiple of 8 vectors
  unsigned more = 0;  // rows that it has besides, where not all columns start as the first does

  __host__ __device__ unsigned padding() const { return n % 2 == 0 ? V : 0; }  // after V rows
  /// Where a tile has an element.
  __device__ unsigned place(unsigned row, unsigned col) const {
    return row * n + col + row / V * padding();
  }
  /// Where it has vector v of its piece of the tall matrix.
  __device__ unsigned place(unsigned v) const { return (v + v / n * (padding() / V)) * V; }
};

template <Stores kHow, class T>
__device__ void store(const ladder::Vec128<T>& vector, T* to) {
  if constexpr (kHow == Stores::streaming) {
    vector.store_streaming(to);
  } else {
    vector.store_whole(to);
  }
}

/// From the tall matrix to the wide one, by windows as in v07, for which the tile has `more` rows
/// above its own.
template <Stores kHow, class T>
__global__ void __launch_bounds__(kThreads, kBlocks) tall(Narrow<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int V = Vec::size, kSector = Narrow<T>::kSector;
  T* const tile = ladder::dynamic_shared<T>();
  const std::int64_t row0 = blockIdx.x * a.rows, size = a.m * a.n;

  const unsigned loads = (a.rows + a.more) / V * a.n;
  for (unsigned begin = threadIdx.x; begin < loads; begin += kLoads * kThreads) {
    Vec v[kLoads];
    const auto for_each_load = [&](auto f) {
#pragma unroll
      for (unsigned i = 0; i < kLoads; ++i) {
        const unsigned at = begin + i * kThreads;
        const std::int64_t from = (row0 - a.more) * a.n + at * V;
        if (at < loads && from >= 0 && from < size) f(v[i], at, from);
      }
    };
    for_each_load([&](Vec& vector, unsigned, std::int64_t from) {
      if (from + V <= size) {
        vector = Vec::load(a.in + from);
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) vector[e] = from + e < size ? a.in[from + e] : T(0.0f);
      }
    });
    for (Vec& vector : v) ladder::stay_packed(vector);
    for_each_load(
        [&](const Vec& vector, unsigned at, std::int64_t) { vector.store(&tile[a.place(at)]); });
  }
  __syncthreads();

#pragma unroll 2
  for (unsigned at = threadIdx.x; at < a.rows / V * a.n; at += kThreads) {
    const unsigned group = at / 8;  // 8 lanes share a column
    const unsigned col = group % a.n, first = (group / a.n * 8 + at % 8) * V;
    const std::int64_t start = col * a.m;
    const unsigned shift = start & (kSector - 1), row_of_tile = a.more + first - shift;
    const std::int64_t row = row0 + first - shift;
    const auto element = [&](int e) { return tile[a.place(row_of_tile + e, col)]; };
    if (row >= 0 && row + V <= a.m) {
      Vec window;
#pragma unroll
      for (int e = 0; e < V; ++e) window[e] = element(e);
      store<kHow>(window, a.out + start + row);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        if (row + e >= 0 && row + e < a.m) a.out[start + row + e] = element(e);
      }
    }
  }
}

/// From the wide matrix, by the aligned vectors that touch a tile, to the tall one. Half of `more`
/// are rows above the tile's own, half below them.
template <Stores kHow, class T>
__global__ void __launch_bounds__(kThreads, kBlocks) wide(Narrow<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int V = Vec::size;
  T* const tile = ladder::dynamic_shared<T>();
  const std::int64_t row0 = blockIdx.x * a.rows, size = a.m * a.n;

  // Of the tile, a vector's row may be before its first.
  const auto load = [&](int row, unsigned col, Vec& to) {
    if (row0 + row >= a.m) return;
    const std::int64_t from = col * a.m + row0 + row;
    if (from + V <= size) {
      to = Vec::load(a.in + from);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) to[e] = from + e < size ? a.in[from + e] : T(0.0f);
    }
  };
  const auto put = [&](int row, unsigned col, const Vec& from) {
    if (row0 + row >= a.m) return;
#pragma unroll
    for (int e = 0; e < V; ++e) tile[a.place(a.more / 2 + row + e, col)] = from[e];
  };
  const auto shift = [&](unsigned col) { return static_cast<unsigned>(col * a.m & (V - 1)); };

  const unsigned vectors = a.rows / V * a.n;
  const unsigned loads = a.more == 0 ? vectors : vectors + a.n;  // with the last of each column
  for (unsigned begin = threadIdx.x; begin < loads; begin += kLoads * kThreads) {
    Vec v[kLoads];
    const auto for_each = [&](auto f) {
#pragma unroll
      for (unsigned i = 0; i < kLoads; ++i) {
        const unsigned at = begin + i * kThreads, group = at / 8;  // 8 lanes share a column
        if (at >= loads) continue;
        const bool is_last = at >= vectors;
        const unsigned col = is_last ? at - vectors : group % a.n;
        const int row = (is_last ? a.rows : (group / a.n * 8 + at % 8) * V) - shift(col);
        if (row < static_cast<int>(a.rows)) f(row, col, v[i]);
      }
    };
    for_each(load);
    for (Vec& vector : v) ladder::stay_packed(vector);
    for_each(put);
  }
  __syncthreads();

#pragma unroll 2
  for (unsigned at = threadIdx.x; at < vectors; at += kThreads) {
    const std::int64_t to = row0 * a.n + at * V;
    if (to >= size) break;
    const Vec vector = Vec::load_some(&tile[a.place(a.more / 2 / V * a.n + at)]);
    if (to + V <= size) {
      store<kHow>(vector, a.out + to);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        if (to + e < size) a.out[to + e] = vector[e];
      }
    }
  }
}

struct NarrowTiles {
  // Several tiles, tall and wide, of an odd and an even number of columns, whole vectors or not.
  static constexpr transpose::Problem test_problems[] = {
      {5000, 3}, {3, 5000}, {2051, 8}, {8, 2051},  {64, 333},
      {333, 64}, {9001, 2}, {2, 9001}, {128, 401}, {401, 127}};
  static constexpr ladder::Version version{"narrow matrices: tiles of all columns or all rows"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    launch_narrow<Stores::ordinary>(a, stream);
  }
  static ladder::Support supports(const transpose::Problem& p) { return supports_narrow(p); }
};

const ladder::Register<NarrowTiles, transpose, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <Stores kHow, class T>
void launch_narrow(const transpose::Args<T>& a, cudaStream_t stream) {
  constexpr unsigned V = ladder::Vec128<T>::size, kSector = 2 * V;
  const bool is_tall = a.cols <= a.rows;
  const int n = min(a.rows, a.cols), m = a.rows + a.cols - n;
  if (n == 0) return;
  Narrow<T> b{.in = a.in, .out = a.out, .n = static_cast<unsigned>(n), .m = m};
  if (n > 1 && m % (is_tall ? kSector : V) != 0) b.more = kSector;
  const unsigned loads = (n <= 32 ? 1 : 2) * kThreads * kLoads / b.n;  // of a column
  b.rows = (is_tall ? loads - b.more / V : loads) / 8 * 8 * V;
  const std::int64_t windows = is_tall && b.more > 0 ? m + kSector - 1 : m;
  const std::size_t shared = (b.rows + b.more) / V * (b.n * V + b.padding()) * sizeof(T);
  ladder::launch(is_tall ? tall<kHow, T> : wide<kHow, T>,
                 static_cast<unsigned>(ladder::ceil_div(windows, std::int64_t{b.rows})), kThreads,
                 shared, stream, b);
}

// Other versions call it too.
template void launch_narrow<Stores::ordinary>(const transpose::Args<float>&, cudaStream_t);
template void launch_narrow<Stores::ordinary>(const transpose::Args<ladder::half>&, cudaStream_t);
template void launch_narrow<Stores::ordinary>(const transpose::Args<ladder::bfloat16>&,
                                              cudaStream_t);
template void launch_narrow<Stores::streaming>(const transpose::Args<float>&, cudaStream_t);
template void launch_narrow<Stores::streaming>(const transpose::Args<ladder::half>&, cudaStream_t);
template void launch_narrow<Stores::streaming>(const transpose::Args<ladder::bfloat16>&,
                                               cudaStream_t);

}  // namespace transpose_tiles
