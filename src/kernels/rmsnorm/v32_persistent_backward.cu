// Idea      persistent blocks: as many as run at once take row after row and hold it in registers,
//           with accumulators of their columns' dweight; a second launch adds the blocks'
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
#include "launchers.hpp"

namespace {

/// Of an SM: with 128 registers each they have room for the accumulators.
constexpr int kThreadsAtOnce = 512;

/// partials: [of the grid's blocks][sums][Held::kPart]
template <class T, class Held>
__global__ void __launch_bounds__(Held::Team::kBlock, kThreadsAtOnce / Held::Team::kBlock)
    persistent(rmsnorm_backward::Args<T> a, float* partials) {
  using Vec = typename Held::Vec;
  using Team = typename Held::Team;
  __shared__ ladder::SumStorage<Team> of_sum_sq, of_sum_gz;
  using Four = typename Held::Four;
  constexpr int kThreads = Team::kThreads, kVectors = Held::kVectors;
  const int t = Team::rank(), vectors = a.cols / Vec::size;

  row_norm::ColumnSums<Held> sums_over_rows[1];  // dweight
  auto sum_of = [&](int which, int element) -> float& {
    return sums_over_rows[which][element / Four::size][element % Four::size];
  };
#pragma unroll
  for (int i = 0; i < Held::kElements; ++i) sum_of(0, i) = 0;

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

    float sum_sq = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (k * kThreads + t >= vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float value = static_cast<float>(x[k][e]);
        sum_sq += value * value;
      }
    }
    const float scale = rsqrtf(ladder::team_sum<Team>(sum_sq, of_sum_sq) / a.cols + a.epsilon);

    auto z = [&](T value) { return static_cast<float>(value) * scale; };
    auto g = [](T gradient, T weight) {
      return static_cast<float>(gradient) * static_cast<float>(weight);
    };
    float sum_gz = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum_gz += g(dy[k][e], weight[e]) * z(x[k][e]);
    }
    const float mean_gz = ladder::team_sum<Team>(sum_gz, of_sum_gz) / a.cols;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
      Vec dx;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float z_e = z(x[k][e]);
        dx[e] = T((g(dy[k][e], weight[e]) - z_e * mean_gz) * scale);
        sum_of(0, k * Vec::size + e) += static_cast<float>(dy[k][e]) * z_e;
      }
      dx.store(a.dx + start + v * Vec::size);
    }
  }

  // The teams of a block add up one after the other; the last one stores the block's sums.
  if constexpr (Team::kTeams > 1) {
    alignas(16) __shared__ float so_far[1][Held::kPart];
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

namespace rmsnorm_rows {

template <class T>
std::size_t workspace_of_persistent_backward(const rmsnorm_backward::Args<T>& a) {
  return by_columns<T>(a.cols, [&]<class Held>(Held) {
    return row_norm::bytes_of_partials<rmsnorm, Held>(blocks_of<Held>(a.rows));
  });
}
template std::size_t workspace_of_persistent_backward(const rmsnorm_backward::Args<float>&);
template std::size_t workspace_of_persistent_backward(const rmsnorm_backward::Args<ladder::half>&);
template std::size_t workspace_of_persistent_backward(
    const rmsnorm_backward::Args<ladder::bfloat16>&);

template <class T>
void launch_persistent_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  by_columns<T>(a.cols, [&]<class Held>(Held) {
    const int blocks = blocks_of<Held>(a.rows);
    ladder::launch(persistent<T, Held>, blocks, Held::Team::kBlock, 0, stream, a,
                   static_cast<float*>(a.workspace));
    row_norm::launch_add_partials<rmsnorm_backward, T, Held>(a, blocks, stream);
  });
}
template void launch_persistent_backward(const rmsnorm_backward::Args<float>&, cudaStream_t);
template void launch_persistent_backward(const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
template void launch_persistent_backward(const rmsnorm_backward::Args<ladder::bfloat16>&,
                                         cudaStream_t);

}  // namespace rmsnorm_rows

namespace {

struct PersistentBackward {
  static constexpr ladder::Version version{"rows and columns in one pass, persistent blocks"};

  static ladder::Support supports(const rmsnorm::Problem& p) {
    if (p.cols <= ::rmsnorm_rows::kLongestPersistent) return ladder::supported();
    return ladder::unsupported("a row of more than 8192 elements does not fit a block's registers");
  }
  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return rmsnorm_rows::workspace_of_persistent_backward(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    rmsnorm_rows::launch_persistent_backward(a, stream);
  }
};

const ladder::Register<PersistentBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
