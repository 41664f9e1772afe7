// The backward kernel of the higher rungs of LayerNorm and RMSNorm: as many teams of threads as run
// at once take row after row. A thread always has the same columns, so it keeps their sums over the
// rows, dweight and dbias, in registers; a second launch adds what the teams have. Norm is
// layernorm_backward or rmsnorm_backward.
#pragma once

#include "device/multiprocessors.hpp"
#include "device/row_length.hpp"
#include "device/row_team.hpp"

namespace layernorm_rows {

/// How a row is held: by a team, kElements elements in each thread. Thread t has vectors t,
/// t + kThreads, … of the row.
template <class Team_, class Vec_, int kElements_>
struct Held {
  using Team = Team_;
  using Vec = Vec_;
  static constexpr int kElements = kElements_;
  static constexpr int kVectors = kElements / Vec::size;    // of a thread
  static constexpr int kPart = kElements * Team::kThreads;  // floats that hold a row's sums

  /// Partial sums are moved by fours, or one by one where the vectors have one element.
  using Four = std::conditional_t<Vec::size == 1, ladder::Vec1<float>, ladder::Vec128<float>>;
  static constexpr int kFours = kElements / Four::size;  // of a thread

  /// Where a part has four number i of thread t: neighbouring threads' lie side by side.
  __device__ static int place(int i, int t) { return (i * Team::kThreads + t) * Four::size; }
  /// Where it has column c of a row, whatever the row's length.
  __device__ static int place_of_column(int c, [[maybe_unused]] int cols) {
    const int v = c / Vec::size, e = c % Vec::size;
    const int four = v / Team::kThreads * (Vec::size / Four::size) + e / Four::size;
    return place(four, v % Team::kThreads) + e % Four::size;
  }
};

/// Of a multiprocessor: with 128 registers each they have room for the sums.
constexpr int kThreadsAtOnce = 512;

/// The sums over rows that there are: of dy * z, and of dy.
template <class Norm>
constexpr int kSums = Norm::kCentred ? 2 : 1;

template <class Held>
using SumsOfColumns = typename Held::Four[Held::kFours];

/// Adds what the teams of a block have, one after the other; the last team gets all of it.
template <class Held, int kNumber>
__device__ void add_teams(SumsOfColumns<Held> (&sums)[kNumber]) {
  using Team = typename Held::Team;
  using Four = typename Held::Four;
  if constexpr (Team::kTeams > 1) {
    alignas(16) __shared__ float so_far[kNumber][Held::kPart];
    const int mine = threadIdx.x / Team::kThreads;
    for (int team = 0; team < Team::kTeams; ++team) {
      if (team == mine) {
#pragma unroll
        for (int i = 0; i < kNumber * Held::kFours; ++i) {
          Four& sum = sums[i / Held::kFours][i % Held::kFours];
          float* const at = so_far[i / Held::kFours] + Held::place(i % Held::kFours, Team::rank());
          if (team > 0) {
            const Four before = Four::load(at);
#pragma unroll
            for (int e = 0; e < Four::size; ++e) sum[e] += before[e];
          }
          sum.store(at);
        }
      }
      __syncthreads();
    }
  }
}

/// parts: [of the grid's blocks or clusters][kSums][Held::kPart]
template <class Norm, class T, class Held>
__device__ void backward_rows(const typename Norm::template Args<T>& a, float* parts) {
  using Vec = typename Held::Vec;
  using Team = typename Held::Team;
  constexpr int kThreads = Team::kThreads, kVectors = Held::kVectors;
  const int t = Team::rank(), vectors = a.cols / Vec::size;

  SumsOfColumns<Held> of_columns[kSums<Norm>];  // dweight, dbias
#pragma unroll
  for (int i = 0; i < kSums<Norm> * Held::kElements; ++i) {
    of_columns[i / Held::kElements][i % Held::kElements / Held::Four::size][i % Held::Four::size] =
        0;
  }
  auto sum_of = [&](int which, int element) -> float& {
    return of_columns[which][element / Held::Four::size][element % Held::Four::size];
  };

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
      mean = ladder::team_sum<Team, 0>(sum) / a.cols;
    }
    float squares = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (k * kThreads + t >= vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float distance = static_cast<float>(x[k][e]) - mean;
        squares += distance * distance;
      }
    }
    const float scale = rsqrtf(ladder::team_sum<Team, 1>(squares) / a.cols + Norm::kEpsilon);

    auto z = [&](T value) { return (static_cast<float>(value) - mean) * scale; };
    auto g = [](T of_y, T weight) { return static_cast<float>(of_y) * static_cast<float>(weight); };
    float sums[] = {0, 0};  // of g, of g * z
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float of_element = g(dy[k][e], weight[e]);
        if constexpr (Norm::kCentred) sums[0] += of_element;
        sums[1] += of_element * z(x[k][e]);
      }
    }
    Team::template sum<2>(sums);
    const float of_g = sums[0] / a.cols, of_gz = sums[1] / a.cols;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      const Vec weight = Vec::load(a.weight + v * Vec::size);
      Vec dx;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const float of_x = z(x[k][e]);
        dx[e] = T((g(dy[k][e], weight[e]) - of_g - of_x * of_gz) * scale);
        sum_of(0, k * Vec::size + e) += static_cast<float>(dy[k][e]) * of_x;
        if constexpr (Norm::kCentred) sum_of(1, k * Vec::size + e) += static_cast<float>(dy[k][e]);
      }
      dx.store(a.dx + start + v * Vec::size);
    }
  }
  Team::leave();

  add_teams<Held>(of_columns);
  const bool is_last = Team::kTeams == 1 || threadIdx.x / kThreads == Team::kTeams - 1;
  if (!is_last) return;
  float* const part = parts + Team::row() / Team::kTeams * (kSums<Norm> * Held::kPart);
#pragma unroll
  for (int i = 0; i < kSums<Norm> * Held::kFours; ++i) {
    const int four = i % Held::kFours;
    const int v = four * Held::Four::size / Vec::size * kThreads + t;
    if (v >= vectors) continue;
    of_columns[i / Held::kFours][four].store(part + i / Held::kFours * Held::kPart +
                                             Held::place(four, t));
  }
}

template <class Norm, class T, class Held>
__global__ void __launch_bounds__(Held::Team::kBlock, kThreadsAtOnce / Held::Team::kBlock)
    backward(typename Norm::template Args<T> a, float* parts) {
  backward_rows<Norm, T, Held>(a, parts);
}

constexpr int kAddColumns = 32, kAddAtOnce = 32;

/// dweight and dbias, from what the teams have: a lane per column, a warp per part of 32.
template <class Norm, class T, class Held>
__global__ void __launch_bounds__(kAddColumns* kAddAtOnce)
    add_parts(typename Norm::template Args<T> a, const float* parts, int number_of_parts) {
  __shared__ float of_warp[kSums<Norm>][kAddAtOnce][kAddColumns];
  const int lane = threadIdx.x % kAddColumns, warp = threadIdx.x / kAddColumns;
  const int c = blockIdx.x * kAddColumns + lane;
  float sums[kSums<Norm>] = {};
  if (c < a.cols) {
    const float* const from = parts + Held::place_of_column(c, a.cols);
#pragma unroll 4
    for (int part = warp; part < number_of_parts; part += kAddAtOnce) {
#pragma unroll
      for (int i = 0; i < kSums<Norm>; ++i) {
        sums[i] += from[(std::int64_t{part} * kSums<Norm> + i) * Held::kPart];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSums<Norm>; ++i) of_warp[i][warp][lane] = sums[i];
  __syncthreads();
  if (warp >= kSums<Norm> || c >= a.cols) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kAddAtOnce; ++w) sum += of_warp[warp][w][lane];
  if constexpr (Norm::kCentred) {
    (warp == 0 ? a.dweight : a.dbias)[c] = T(sum);
  } else {
    a.dweight[c] = T(sum);
  }
}

/// The longest row that a block holds.
constexpr int kMostColumns = 8192;

/// Calls f(Held<…>{}) for rows of up to kMostColumns: up to 1024 belong to a warp with 32 elements
/// in each lane, longer ones to a block with 16 in each thread.
template <class T, class F>
auto by_columns(int cols, F f) {
  auto with = [&]<class Vec>(Vec) {
    if (cols <= 1024) return f(Held<ladder::LaneTeam<32, 384>, Vec, 32>{});
    if (cols <= 2048) return f(Held<ladder::BlockTeam<128>, Vec, 16>{});
    if (cols <= 4096) return f(Held<ladder::BlockTeam<256>, Vec, 16>{});
    return f(Held<ladder::BlockTeam<512>, Vec, 16>{});
  };
  return cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

/// The parts that a launch leaves: of the blocks that run at once, or fewer where the rows are few.
template <class Held>
int number_of_parts(int rows) {
  using Team = typename Held::Team;
  const int at_once = ladder::multiprocessors() * (kThreadsAtOnce / Team::kBlock);
  return min(ladder::ceil_div(rows, Team::kTeams), at_once);
}

template <class Norm, class Held>
std::size_t bytes_of_parts(int parts) {
  return static_cast<std::size_t>(parts) * kSums<Norm> * Held::kPart * sizeof(float);
}

template <class Norm, class T, class Held>
void launch_add_parts(const typename Norm::template Args<T>& a, int parts, cudaStream_t stream) {
  ladder::launch(add_parts<Norm, T, Held>, ladder::ceil_div(a.cols, kAddColumns),
                 kAddColumns * kAddAtOnce, 0, stream, a, static_cast<const float*>(a.workspace),
                 parts);
}

template <class Norm, class T>
std::size_t workspace_of_persistent(const typename Norm::template Args<T>& a) {
  return by_columns<T>(a.cols, [&]<class Held>(Held) {
    return bytes_of_parts<Norm, Held>(number_of_parts<Held>(a.rows));
  });
}

template <class Norm, class T>
void launch_persistent(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  by_columns<T>(a.cols, [&]<class Held>(Held) {
    const int parts = number_of_parts<Held>(a.rows);
    ladder::launch(backward<Norm, T, Held>, parts, Held::Team::kBlock, 0, stream, a,
                   static_cast<float*>(a.workspace));
    launch_add_parts<Norm, T, Held>(a, parts, stream);
  });
}

}  // namespace layernorm_rows
