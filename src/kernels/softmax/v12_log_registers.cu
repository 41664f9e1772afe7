// Idea      the row in registers, as in v07; they keep x itself, of which the result is a
//           difference
// Vs v11    x is read once, in 128-bit vectors, and its exponentials by the hardware's ex2
// Bound by  DRAM bandwidth
// Limits    as v07's: matrices start at multiples of 32 bytes; what of a row is beyond 32768
//           elements is read twice
// Tile      v07's
#include "device/row_length.hpp"
#include "launchers.hpp"
#include "online.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    log_registers(softmax::Args<T> a) {
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
  for (int i = 0; i < kElements; ++i) total.sum += fast_exp(held[i] - max);
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
  const float log_sum = logf(total.sum);
  auto result = [&](float element) { return element - total.max - log_sum; };

  if (has_edge) y[edge_column] = T(result(edge));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t, column = cut.head + v * Vec::size;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(result(held[k * Vec::size + e]));
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

struct LogRegisters {
  static constexpr ladder::Version version{"128-bit vectors, the row in registers"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    launch_log_registers(a, stream);
  }
};

const ladder::Register<LogRegisters, log_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

template <class T>
void launch_log_registers(const softmax::Args<T>& a, cudaStream_t stream) {
  ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, [&]<class Row>(Row) {
    ladder::launch(log_registers<Row, T>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0,
                   stream, a);
  });
}

// Other versions call it too.
template void launch_log_registers(const softmax::Args<float>&, cudaStream_t);
template void launch_log_registers(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_log_registers(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
