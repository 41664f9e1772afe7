// Idea      rows of any length in 128-bit vectors: they lie where memory has 16-byte boundaries,
//           and the few elements before the first and after the last are loaded and stored one by
//           one
// Vs v06    rows that are no whole number of vectors, whose starts lie between the boundaries. The
//           vectors start at a sector of 32 bytes, so that requests of neighbouring warps share no
//           sector
// Bound by  DRAM bandwidth
// Limits    none; matrices start at multiples of 32 bytes. What of a row is beyond 32768 elements,
//           the registers of 1024 threads, is read twice
// Tile      a row is spread over kThreads threads of kElements elements each, by its length: see
//           device/row_length.hpp
//
// Rows of 513 to 1024 16-bit elements have a kernel of their own. A warp keeps its row packed, as it
// was loaded, so that more warps fit the registers; half a warp holds a row of about 1024 elements,
// so that more rows are in flight.
#include "device/row_length.hpp"
#include "device/row_span.hpp"
#include "launchers.hpp"
#include "online.hpp"

#include <cfloat>
#include <cmath>
#include <type_traits>

namespace softmax_rows {
namespace {

template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) unaligned(softmax::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kElements = Row::kElements, kVectors = Row::kVectors;
  constexpr int kWarps = kThreads / 32;
  __shared__ Online of_warp[kWarps];
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
  if (row >= a.rows) return;  // a whole warp
  const int t = threadIdx.x % kThreads;

  // Thread t takes vectors t, t + kThreads, … of the row; the first threads each also handle one
  // edge element.
  const Cut<T> cut(row * a.cols, a.cols);
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  auto load_more = [&](int v, float(&more)[Vec::size]) {
    const int column = cut.head + v * Vec::size;
    const Vec vector = Vec::load(x + column);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) more[e] = static_cast<float>(vector[e]);
  };

  Vec loaded[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(-INFINITY);  // beyond the row
    if (cut.has_vector(v)) loaded[k] = load_held<Row>(x + cut.head + v * Vec::size);
  }
  const bool has_edge = cut.has_edge(t);
  const int edge_column = cut.edge_column(t);
  T loaded_edge = T(-INFINITY);
  if (has_edge) loaded_edge = x[edge_column];

  // First relative to the largest element of this thread …
  const float edge = static_cast<float>(loaded_edge);
  float held[kElements];
  float max = fmaxf(edge, -FLT_MAX);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = static_cast<float>(loaded[i / Vec::size][i % Vec::size]);
    max = fmaxf(max, held[i]);
  }
  Online total{max, fast_exp(edge - max)};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = fast_exp(held[i] - max);
    total.sum += held[i];
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && cut.has_vector(v); v += kThreads) {
    float more[Vec::size];
    load_more(v, more);
    const float before = total.max;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.max = fmaxf(total.max, more[e]);
    total.sum *= fast_exp(before - total.max);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      total.sum += fast_exp(more[e] - total.max);
    }
  }

  // … then to the row's.
  total = merge<32>(total);
  if constexpr (kWarps > 1) total = merge_warps(total, of_warp);
  const float scale = 1.0f / total.sum;
  const float scale_held = fast_exp(max - total.max) * scale;
  auto result = [&](float element) { return fast_exp(element - total.max) * scale; };

  if (has_edge) y[edge_column] = T(result(edge));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t, column = cut.head + v * Vec::size;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(held[k * Vec::size + e] * scale_held);
    if (cut.has_vector(v)) store_held<Row>(out, y + column);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    const int column = cut.head + v * Vec::size;
    float more[Vec::size];
    load_more(v, more);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(result(more[e]));
    }
    store_held<Row>(out, y + column);
  }
}

/// The larger element of two at each position.
template <class T>
__device__ ladder::Vec128<T> larger(const ladder::Vec128<T>& a, const ladder::Vec128<T>& b) {
  ladder::Vec128<T> out;
#if __CUDA_ARCH__ >= 800
  using Pair = std::conditional_t<std::is_same_v<T, ladder::half>, __half2, __nv_bfloat162>;
  Pair of_a[4], of_b[4];
  std::memcpy(static_cast<void*>(of_a), &a, 16);
  std::memcpy(static_cast<void*>(of_b), &b, 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) of_a[i] = __hmax2(of_a[i], of_b[i]);
  std::memcpy(&out, of_a, 16);
#else  // there is no instruction, and in CUDA 12.0 no function for all of these types
#pragma unroll
  for (int i = 0; i < out.size; ++i) {
    out[i] = static_cast<T>(fmaxf(static_cast<float>(a[i]), static_cast<float>(b[i])));
  }
#endif
  return out;
}

/// Rows of 513 to 1024 16-bit elements, a warp's. They stay packed, in half the registers of as many
/// floats: 48 rows are in flight on an SM (12 blocks), not 32.
template <class Row>
struct WarpRow : Row {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
  static constexpr int kLeastBlocks = 8;  // all that its SMs take
#else
  static constexpr int kLeastBlocks = 12;
#endif
  static constexpr int kLeast = 0;  // columns
  static constexpr bool kHasEdges = true;
};

/// Rows of 896 to 1024 of them in whole sectors, half a warp's. An SM has 64 such rows in flight, an
/// H100 all of 8192.
template <class T>
struct HalfWarpRow : ladder::Row<ladder::Vec128<T>, 16, 64> {
  static constexpr int kLeast = 896;
  static constexpr bool kHasEdges = false;  // every row starts and ends with a sector
  static bool holds(int cols) {
    constexpr int kMost = HalfWarpRow::kThreads * HalfWarpRow::kElements;
    return cols >= kLeast && cols <= kMost && cols % Cut<T>::kSector == 0;
  }
};

/// The elements stay as they were loaded, and their exponentials are taken twice.
template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) packed(softmax::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kVectors = Row::kVectors;
  constexpr int kSureVectors = Row::kLeast / (kThreads * Vec::size);  // these need no predicate
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
  if (row >= a.rows) return;  // a whole warp, or half of one, which the other half does not need
  const int t = threadIdx.x % kThreads;

  const Cut<T> cut(row * a.cols, a.cols);
  const int head = Row::kHasEdges ? cut.head : 0;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;
  auto load = [&](int v) { return load_held<Row>(x + head + v * Vec::size); };

  Vec held[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) held[k][e] = T(-INFINITY);  // beyond the row
    if (k < kSureVectors || cut.has_vector(v)) held[k] = load(v);
  }
  const bool has_edge = Row::kHasEdges && cut.has_edge(t);
  const int edge_column = cut.edge_column(t);
  T loaded_edge = T(-INFINITY);
  if (has_edge) loaded_edge = x[edge_column];

  const float edge = static_cast<float>(loaded_edge);
  float max = fmaxf(edge, -FLT_MAX);
  Vec largest = held[0];
#pragma unroll
  for (int k = 1; k < kVectors; ++k) largest = larger(largest, held[k]);
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) max = fmaxf(max, static_cast<float>(largest[e]));
  Online total{max, fast_exp(edge - max)};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    ladder::stay_packed(held[k]);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      total.sum += fast_exp(static_cast<float>(held[k][e]) - max);
    }
  }

  total = merge<kThreads>(total);
  const float scale = 1.0f / total.sum;
  auto result = [&](float element) { return fast_exp(element - total.max) * scale; };

  if (has_edge) y[edge_column] = T(result(edge));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t, column = head + v * Vec::size;
    ladder::stay_packed(held[k]);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(result(static_cast<float>(held[k][e])));
    if (v < cut.vectors) store_held<Row>(out, y + column);
  }
}

struct Unaligned {
  static constexpr ladder::Version version{"vectors in rows that start anywhere"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    launch_unaligned(a, stream);
  }
};

const ladder::Register<Unaligned, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
void launch_unaligned(const softmax::Args<T>& a, cudaStream_t stream) {
  using Vec = ladder::Vec128<T>;
  auto launch = [&]<class Row>(void (*kernel)(softmax::Args<T>), Row) {
    ladder::launch(kernel, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0, stream, a);
  };
  if constexpr (sizeof(T) == 2) {
    if (HalfWarpRow<T>::holds(a.cols)) return launch(packed<HalfWarpRow<T>, T>, HalfWarpRow<T>{});
  }
  ladder::launch_smallest_row<Vec>(a.cols, [&]<class Row>(Row row) {
    if constexpr (sizeof(T) == 2 && std::is_same_v<Row, ladder::Row<Vec, 32, 32>>) {
      launch(packed<WarpRow<Row>, T>, WarpRow<Row>{});
    } else {
      launch(unaligned<Row, T>, row);
    }
  });
}

// Other versions call it too.
template void launch_unaligned(const softmax::Args<float>&, cudaStream_t);
template void launch_unaligned(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_unaligned(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
