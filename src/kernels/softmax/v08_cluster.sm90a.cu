// Idea      several blocks per row, a cluster: all of a long row is in registers, spread over up to
//           eight SMs, whose maxima and sums meet through distributed shared memory
// Vs v07    rows of more than 32768 elements are read from memory once, not twice: in fp32 1.37
//           times as fast at 1024x131072 on an H200, in 16-bit types within 1 %. What crosses
//           between the SMs is one pair of numbers per block, and takes one barrier of the cluster;
//           another at the end keeps shared memory alive until it is read, and the stores go on
//           meanwhile
// Bound by  DRAM bandwidth; of 132 SMs some are left over, because the blocks of a cluster are in
//           one GPC, of 16 or 18 SMs
// Limits    compute capability 9.0; rows of more than 16384 elements, which keep two blocks busy;
//           matrices start at multiples of 32 bytes. What of a row is beyond 262144 elements, the
//           registers of eight times 1024 threads, is read twice
// Tile      32 elements per thread and 512 threads per block, two blocks to an SM; 2, 4 or 8
//           blocks per row, by its length; from 131073 elements on 8 blocks of 1024 threads
#include "cluster.hpp"
#include "launchers.hpp"
#include "online.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

template <class Row, int kBlocks, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) __cluster_dims__(kBlocks)
    cluster(softmax::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads * kBlocks;  // of the cluster
  constexpr int kElements = Row::kElements, kVectors = Row::kVectors, kWarps = Row::kThreads / 32;
  __shared__ Online of_warp[kWarps];
  __shared__ ClusterSlot slot;
  const std::int64_t row = blockIdx.x / kBlocks;
  const int t = ladder::ptx::cluster_rank() * Row::kThreads + threadIdx.x;

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

  // … then to the block's, and to the row's.
  total = merge<32>(total);
  total = merge_warps(total, of_warp);
  total = merge<kBlocks>(gather<kBlocks>(total, slot));
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
  ladder::ptx::cluster_wait();  // all blocks have read this one's slot
}

struct Cluster {
  static constexpr ladder::Version version{"a cluster of blocks per row"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    launch_cluster(a, stream);
  }
  static ladder::Support supports(const softmax::Problem& p) {
    if (p.cols > kLongestOfBlock / 2) return ladder::supported();
    return ladder::unsupported("rows of 16384 elements or fewer are too short for a cluster");
  }
};

const ladder::Register<Cluster, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
void launch_cluster(const softmax::Args<T>& a, cudaStream_t stream) {
  launch_smallest_cluster<T, 32>(
      a.cols, [&]<class Row, int kBlocks>(Row, std::integral_constant<int, kBlocks>) {
        ladder::launch(cluster<Row, kBlocks, T>, a.rows * kBlocks, Row::kBlock, 0, stream, a);
      });
}

// Other versions call it too.
template void launch_cluster(const softmax::Args<float>&, cudaStream_t);
template void launch_cluster(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_cluster(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
