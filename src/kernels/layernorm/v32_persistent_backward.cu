// Idea      persistent blocks: as many as run at once take row after row and hold it in registers,
//           with accumulators of their columns' dweight and dbias; a second launch adds the blocks'
//           partial sums
// Vs v31    x and dy are read once, 3n; and all in 128-bit vectors
// Bound by  DRAM bandwidth; the accumulators' registers leave room for 512 threads on an SM. The
//           partial sums, 8 MB, stay in L2
// Limits    rows of up to 8192 elements, as many as 512 threads hold. x, dy and dx start at
//           multiples of 16 bytes. Where the columns are no multiple of the vector, each "vector"
//           is one element: shifted vectors would shift the columns that a thread accumulates.
// Tile      a row per warp, 32 elements in a lane, or per block, 16 in a thread
//
// The order of the additions depends on the number of SMs only: the same bits in every run.
#include "device/row_length.hpp"
#include "device/row_team.hpp"
#include "device/sm_count.hpp"
#include "kernels/row_norm/column_sums.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

/// Of an SM: with 128 registers each they have room for the accumulators.
constexpr int kThreadsAtOnce = 512;

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
/// partials: [of the grid's blocks][sums][Held::kPart]
template <class Norm, class T, class Held>
__global__ void __launch_bounds__(Held::Team::kBlock, kThreadsAtOnce / Held::Team::kBlock)
    persistent(typename Norm::template Args<T> a, float* partials) {
  using Vec = typename Held::Vec;
  using Team = typename Held::Team;
  using Four = typename Held::Four;
  constexpr int kThreads = Team::kThreads, kVectors = Held::kVectors;
  constexpr int kSums = row_norm::kSums<Norm>;
  __shared__ ladder::SumStorage<Team> of_sum, of_m2;
  __shared__ ladder::SumStorage<Team, kSums> of_sums;
  const int t = Team::rank(), vectors = a.cols / Vec::size;

  row_norm::ColumnSums<Held> sums_over_rows[kSums];  // dweight, dbias
  auto sum_of = [&](int which, int element) -> float& {
    return sums_over_rows[which][element / Four::size][element % Four::size];
  };
#pragma unroll
  for (int i = 0; i < kSums * Held::kElements; ++i)
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

    float mean = 0;
    if constexpr (Norm::kCentred) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < Held::kElements; ++i) {
        sum += static_cast<float>(x[i / Vec::size][i % Vec::size]);
      }
      mean = ladder::team_sum<Team>(sum, of_sum) / a.cols;
    }
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
    float sums[kSums] = {};  // of g, if there is a mean, and of g * z
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float g_e = g(dy[k][e], weight[e]);
        if constexpr (Norm::kCentred) sums[0] += g_e;
        sums[kSums - 1] += g_e * z(x[k][e]);
      }
    }
    Team::sum(sums, of_sums);
    const float mean_g = Norm::kCentred ? sums[0] / a.cols : 0, mean_gz = sums[kSums - 1] / a.cols;
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
        if constexpr (Norm::kCentred) {
          sum_of(1, k * Vec::size + e) += static_cast<float>(dy[k][e]);
        }
      }
      dx.store(a.dx + start + v * Vec::size);
    }
  }

  // The teams of a block add up one after the other; the last one stores the block's sums.
  if constexpr (Team::kTeams > 1) {
    alignas(16) __shared__ float so_far[kSums][Held::kPart];
    row_norm::add_teams<Held>(sums_over_rows, so_far);
    if (threadIdx.x / kThreads != Team::kTeams - 1) return;
  }
  row_norm::store_partial<Held>(sums_over_rows, partials, t, vectors);
}

/// Calls f(Held<…>{}) for rows of up to kLongestPersistent elements: up to 1024 belong to a warp with
/// 32 elements in each lane, longer ones to a block with 16 in each thread.
template <class T, class F>
auto by_columns(int cols, F f) {
  using row_norm::Held;
  auto with = [&]<class Vec>(Vec) {
    if (cols <= 1024) return f(Held<ladder::LaneTeam<32, 384>, Vec, 32>{});
    if (cols <= 2048) return f(Held<ladder::BlockTeam<128>, Vec, 16>{});
    if (cols <= 4096) return f(Held<ladder::BlockTeam<256>, Vec, 16>{});
    return f(Held<ladder::BlockTeam<512>, Vec, 16>{});
  };
  return cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

/// The blocks that run at once, or fewer where the rows are few.
template <class Held>
int blocks_of(int rows) {
  using Team = typename Held::Team;
  const int at_once = ladder::sm_count() * (kThreadsAtOnce / Team::kBlock);
  return min(ladder::ceil_div(rows, Team::kTeams), at_once);
}

}  // namespace

namespace row_norm {

template <class Norm, class T>
std::size_t workspace_of_persistent_backward(const typename Norm::template Args<T>& a) {
  return by_columns<T>(a.cols, [&]<class Held>(Held) {
    return bytes_of_partials<Norm, Held>(blocks_of<Held>(a.rows));
  });
}

template <class Norm, class T>
void launch_persistent_backward(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  by_columns<T>(a.cols, [&]<class Held>(Held) {
    const int blocks = blocks_of<Held>(a.rows);
    ladder::launch(persistent<Norm, T, Held>, blocks, Held::Team::kBlock, 0, stream, a,
                   static_cast<float*>(a.workspace));
    launch_add_partials<Norm, T, Held>(a, blocks, stream);
  });
}

#define INSTANTIATE(Norm, T)                                                         \
  template std::size_t workspace_of_persistent_backward<Norm>(const Norm::Args<T>&); \
  template void launch_persistent_backward<Norm>(const Norm::Args<T>&, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, _backward)

}  // namespace row_norm

namespace {

struct PersistentBackward {
  static constexpr ladder::Version version{"rows and columns in one pass, persistent blocks"};

  static ladder::Support supports(const layernorm::Problem& p) {
    if (p.cols <= row_norm::kLongestPersistent) return ladder::supported();
    return ladder::unsupported("a row of more than 8192 elements does not fit a block's registers");
  }
  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return row_norm::workspace_of_persistent_backward<layernorm_backward>(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_persistent_backward<layernorm_backward>(a, stream);
  }
};

const ladder::Register<PersistentBackward, layernorm_backward, float, ladder::half,
                       ladder::bfloat16>
    registration;

}  // namespace
