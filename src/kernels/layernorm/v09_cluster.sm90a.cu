// Idea      rows that are too long for the registers of one block are held by a cluster of 2, 4 or
//           8, whose blocks read each other's sums from distributed shared memory. Shorter rows are
//           v08's, so that the rule for any length is: the smallest team of threads that holds the
//           row, 128 bytes in each, from 16 lanes to 8 blocks
// Vs v08    rows of up to 1 MiB are read once, where v08 reads what is beyond 128 KiB three times
// Bound by  DRAM bandwidth; while a cluster waits for its sums nothing else runs on its SMs
// Limits    Hopper. x and y start at multiples of 16 bytes. What of a row is beyond 1 MiB is read
//           three times.
// Tile      as v07
#include "device/cluster_team.hpp"
#include "device/ptx/prefetch.hpp"
#include "device/row_span.hpp"
#include "kernels/row_norm/columns_of.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

constexpr int kVectors = 8;  // that a thread holds

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
template <class Norm, class T, class Team, bool kAligned>
__global__ void __launch_bounds__(Team::kBlock, 1024 / Team::kBlock) __cluster_dims__(Team::kBlocks)
    cluster(typename Norm::template Args<T> a) {
  __shared__ ladder::SumStorage<Team> of_sum, of_m2;
  using Vec = ladder::Vec128<T>;
  constexpr int kThreads = Team::kThreads;
  // The first threads of the grid prefetch weight and bias, a cache line each.
  constexpr int kLine = ladder::ptx::kLineBytes / static_cast<int>(sizeof(T));
  const std::int64_t line_at = (std::int64_t{blockIdx.x} * Team::kBlock + threadIdx.x) * kLine;
  if (line_at < a.cols) {
    ladder::ptx::prefetch_l2(a.weight + line_at);
    if constexpr (Norm::kCentred) ladder::ptx::prefetch_l2(a.bias + line_at);
  }
  const int t = Team::rank();
  const std::int64_t row = Team::row(), start = row * a.cols;
  const ladder::RowSpan<T, kAligned> span(start, row_norm::columns_of(a, row));
  const int single_at = span.single(t);
  const T* const x = a.x + start;

  // Thread t holds vectors t, t + kThreads, … of the row, and at most one single.
  Vec held[kVectors];
  T single = T(0.0f);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) held[k][e] = T(0.0f);  // beyond the row
    if (v >= span.vectors) continue;
    held[k] = Vec::load(x + span.column(v));
  }
  if (single_at >= 0) single = x[single_at];

  // Vectors that registers do not hold: each pass reads them again.
  auto for_rest = [&](auto use) {
    if constexpr (!Team::kHoldsAll) {
      for (int v = kVectors * kThreads + t; v < span.vectors; v += kThreads) use(span.column(v));
    }
  };
  auto for_each = [&](auto use) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      ladder::stay_packed(held[k]);
      if (k * kThreads + t >= span.vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(held[k][e]));
    }
    for_rest([&](int c) {
      const Vec rest = Vec::load(x + c);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(rest[e]));
    });
    if (single_at >= 0) use(static_cast<float>(single));
  };
  float mean = 0;
  if constexpr (Norm::kCentred) {
    float sum = 0;
    for_each([&](float value) { sum += value; });
    mean = ladder::team_sum<Team>(sum, of_sum) / a.cols;
  }
  float m2 = 0;  // the sum of squared deviations
  for_each([&](float value) { m2 += (value - mean) * (value - mean); });
  const float variance = ladder::team_sum<Team>(m2, of_m2) / a.cols;
  const float scale = rsqrtf(variance + a.epsilon);
  Team::leave();

  auto result = [&](T value, T weight, T bias) {
    const float z = (static_cast<float>(value) - mean) * scale;
    const float product = z * static_cast<float>(weight);
    return T(Norm::kCentred ? product + static_cast<float>(bias) : product);
  };
  T* const y = a.y + start;
  auto store_results = [&](int c, const Vec& values) {
    const Vec weight = ladder::load_anywhere<kAligned>(a.weight, c, a.cols);
    Vec bias{};
    if constexpr (Norm::kCentred) bias = ladder::load_anywhere<kAligned>(a.bias, c, a.cols);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = result(values[e], weight[e], bias[e]);
    out.store(y + c);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= span.vectors) break;
    ladder::stay_packed(held[k]);
    store_results(span.column(v), held[k]);
  }
  for_rest([&](int c) { store_results(c, Vec::load(x + c)); });
  if (single_at >= 0) {
    T bias = T(0.0f);
    if constexpr (Norm::kCentred) bias = a.bias[single_at];
    y[single_at] = result(single, a.weight[single_at], bias);
  }
}

}  // namespace

namespace row_norm {

template <class Norm, class T>
void launch_cluster(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  constexpr int kBlock = 1024, kSize = ladder::Vec128<T>::size;
  constexpr int kOfBlock = kBlock * kVectors;  // vectors
  const int vectors = a.cols / kSize;
  auto by_cluster = [&]<class Team>(Team) {
    auto* const kernel =
        a.cols % kSize == 0 ? cluster<Norm, T, Team, true> : cluster<Norm, T, Team, false>;
    ladder::launch(kernel, Team::blocks(a.rows), Team::kBlock, 0, stream, a);
  };
  if (vectors <= kOfBlock) return launch_prefetch<Norm>(a, stream);
  if (vectors <= 2 * kOfBlock) return by_cluster(ladder::ClusterTeam<2, kBlock>{});
  if (vectors <= 4 * kOfBlock) return by_cluster(ladder::ClusterTeam<4, kBlock>{});
  if (vectors <= 8 * kOfBlock) return by_cluster(ladder::ClusterTeam<8, kBlock>{});
  by_cluster(ladder::ClusterTeam<8, kBlock, false>{});
}

#define INSTANTIATE(Norm, T) template void launch_cluster<Norm>(const Norm::Args<T>&, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, )

}  // namespace row_norm

namespace {

struct Cluster {
  static constexpr ladder::Version version{"long rows held by clusters of blocks"};
  // More than a cluster holds, of 32 bits and of 16
  static constexpr layernorm::Problem test_problems[] = {{1, 262'219}, {1, 524'363}};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_cluster<layernorm>(a, stream);
  }
};

const ladder::Register<Cluster, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
