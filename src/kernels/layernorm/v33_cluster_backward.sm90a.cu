// Idea      longer rows than a block holds are held by clusters of 2, 4 or 8 blocks, whose blocks
//           read each other's sums from distributed shared memory; and so the rule for any length
//           is: v32's kernel, these clusters, and beyond 65536 elements v31's
// Vs v32    rows of 8193 to 65536 elements are read once, where v31 reads them twice
// Bound by  DRAM bandwidth; while a cluster waits for its sums nothing else runs on its SMs
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes. Where the columns are no multiple
//           of the vector, each "vector" is one element.
// Tile      as v32, a row per cluster of blocks of 512 threads, 16 elements in a thread
#include "device/cluster_team.hpp"
#include "device/row_length.hpp"
#include "device/sm_count.hpp"
#include "kernels/row_norm/column_sums.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

/// partials: [of the grid's clusters][sums][Held::kPart]
template <class T, class Held>
__global__ void __launch_bounds__(Held::Team::kBlock, 1) __cluster_dims__(Held::Team::kBlocks)
    cluster_backward(layernorm_backward::Args<T> a, float* partials) {
  using Vec = typename Held::Vec;
  using Team = typename Held::Team;
  __shared__ ladder::SumStorage<Team> of_sum, of_m2;
  __shared__ ladder::SumStorage<Team, 2> of_sums;
  using Four = typename Held::Four;
  constexpr int kThreads = Team::kThreads, kVectors = Held::kVectors;
  const int t = Team::rank(), vectors = a.cols / Vec::size;

  row_norm::ColumnSums<Held> sums_over_rows[2];  // dweight, dbias
  auto sum_of = [&](int which, int element) -> float& {
    return sums_over_rows[which][element / Four::size][element % Four::size];
  };
#pragma unroll
  for (int i = 0; i < 2 * Held::kElements; ++i)
    sum_of(i / Held::kElements, i % Held::kElements) = 0;

  for (std::int64_t row = Team::row(); row < a.rows; row += Team::stride()) {
    const std::int64_t start = row * a.cols;
    Vec x[kVectors], dy[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) x[k][e] = dy[k][e] = T(0.0f);  // beyond the row
      if (v < vectors) {
        x[k] = Vec::load(a.x + start + v * Vec::size);
        dy[k] = Vec::load(a.dy + start + v * Vec::size);
      }
    }

    float sum = 0;
#pragma unroll
    for (int i = 0; i < Held::kElements; ++i) {
      sum += static_cast<float>(x[i / Vec::size][i % Vec::size]);
    }
    const float mean = ladder::team_sum<Team>(sum, of_sum) / a.cols;
    float m2 = 0;  // the sum of squared deviations
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (k * kThreads + t >= vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float distance = static_cast<float>(x[k][e]) - mean;
        m2 += distance * distance;
      }
    }
    const float scale = rsqrtf(ladder::team_sum<Team>(m2, of_m2) / a.cols + a.epsilon);

    auto z = [&](T value) { return (static_cast<float>(value) - mean) * scale; };
    auto g = [](T gradient, T weight) {
      return static_cast<float>(gradient) * static_cast<float>(weight);
    };
    float sums[] = {0, 0};  // of g, of g * z
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float g_e = g(dy[k][e], weight[e]);
        sums[0] += g_e;
        sums[1] += g_e * z(x[k][e]);
      }
    }
    Team::sum(sums, of_sums);
    const float mean_g = sums[0] / a.cols, mean_gz = sums[1] / a.cols;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
      Vec dx;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float z_e = z(x[k][e]);
        dx[e] = T((g(dy[k][e], weight[e]) - mean_g - z_e * mean_gz) * scale);
        sum_of(0, k * Vec::size + e) += static_cast<float>(dy[k][e]) * z_e;
        sum_of(1, k * Vec::size + e) += static_cast<float>(dy[k][e]);
      }
      dx.store(a.dx + start + v * Vec::size);
    }
  }
  Team::leave();

  row_norm::store_partial<Held>(sums_over_rows, partials, t, vectors);
}

using row_norm::kLongestPersistent;

/// Of a row, in elements, that a cluster holds.
constexpr int kLongestOfCluster = 8 * kLongestPersistent;

/// Calls f(Held<…>{}) for longer rows than a block holds: clusters of 2, 4 or 8.
template <class T, class F>
auto by_columns(int cols, F f) {
  using ladder::ClusterTeam, row_norm::Held;
  constexpr int kBlock = 512, kElements = 16;
  auto with = [&]<class Vec>(Vec) {
    if (cols <= 2 * kLongestPersistent) return f(Held<ClusterTeam<2, kBlock>, Vec, kElements>{});
    if (cols <= 4 * kLongestPersistent) return f(Held<ClusterTeam<4, kBlock>, Vec, kElements>{});
    return f(Held<ClusterTeam<8, kBlock>, Vec, kElements>{});
  };
  return cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

/// As many as run at once, a block on each SM, or fewer where the rows are few.
template <class Held>
int clusters_of(int rows) {
  return min(rows, max(1, ladder::sm_count() / Held::Team::kBlocks));
}

struct ClusterBackward {
  static constexpr ladder::Version version{"long rows held by clusters of blocks"};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    using Norm = layernorm_backward;
    if (a.cols <= kLongestPersistent) return row_norm::workspace_of_persistent_backward<Norm>(a);
    if (a.cols > kLongestOfCluster) return row_norm::workspace_of_block_backward<Norm>(a);
    return by_columns<T>(a.cols, [&]<class Held>(Held) {
      return row_norm::bytes_of_partials<Norm, Held>(clusters_of<Held>(a.rows));
    });
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    using Norm = layernorm_backward;
    if (a.cols <= kLongestPersistent) return row_norm::launch_persistent_backward<Norm>(a, stream);
    if (a.cols > kLongestOfCluster) return row_norm::launch_block_backward<Norm>(a, stream);
    by_columns<T>(a.cols, [&]<class Held>(Held) {
      const int clusters = clusters_of<Held>(a.rows);
      ladder::launch(cluster_backward<T, Held>, clusters * Held::Team::kBlocks, Held::Team::kBlock,
                     0, stream, a, static_cast<float*>(a.workspace));
      row_norm::launch_add_partials<Norm, T, Held>(a, clusters, stream);
    });
  }
};

const ladder::Register<ClusterBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
