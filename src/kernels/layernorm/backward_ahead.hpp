// The backward kernel of LayerNorm and RMSNorm with the next rows on their way
// (device/row_pairs_ahead.hpp): a block stays on its multiprocessor, and its teams take row after
// row of x and dy out of shared memory. Norm is layernorm_backward or rmsnorm_backward. For
// *.sm90a.cu.
#pragma once

#include "backward_cluster.hpp"
#include "device/cluster_exchange.hpp"
#include "device/floats.hpp"
#include "device/row_pairs_ahead.hpp"
#include "device/warps_team.hpp"

namespace layernorm_rows {

constexpr int kBackwardBlock = 512;    // threads of a block, alone on its multiprocessor
constexpr int kBackwardElements = 16;  // of a row, in a thread

/// How a row is held: by a team of kThreads threads of each of kBlocks blocks, which has its share
/// of the columns (device/row_share.hpp).
template <class T, class Vec, int kBlocks_, int kThreads>
struct HeldAhead {
  using Share = ladder::RowShare<T>;
  using OfBlock = Held<ladder::WarpsTeam<kThreads, kBackwardBlock>, Vec, kBackwardElements>;
  static constexpr int kBlocks = kBlocks_;
  static constexpr int kPart = kBlocks * OfBlock::kPart;  // floats that hold a row's sums

  /// Where a part has column c: the blocks' sums follow each other.
  __device__ static int place_of_column(int c, int cols) {
    const int rank = Share::rank_of(c, cols, kBlocks);
    const int first = Share(cols, rank, kBlocks).first;
    return rank * OfBlock::kPart + OfBlock::place_of_column(c - first, cols);
  }
};

/// Places for what comes to shared memory: one for the block's weights, and of each team two for
/// every row on its way, x and dy. Three rows have room at least: one is summed up, the mean of the
/// next one is needed by then, and another lands.
template <class T, class Held>
ladder::RowPlaces places_ahead(int cols) {
  constexpr int kTeams = Held::OfBlock::Team::kTeams;
  auto places = ladder::row_places<T>(cols, Held::kBlocks, 0);
  const auto bytes = places.elements * sizeof(T);
  const auto all = static_cast<int>(ladder::RowPlaces::kBytes / bytes);
  places.rows = min(ladder::kMostPairs, (all - 1) / (2 * kTeams));
  return places;
}

/// parts: [of the grid's clusters][kSums][Held::kPart]
template <class Norm, class T, class Held>
__global__ void __cluster_dims__(Held::kBlocks) __launch_bounds__(kBackwardBlock, 1)
    backward_ahead(typename Norm::template Args<T> a, float* parts, ladder::RowPlaces places) {
  using namespace ladder::ptx;
  using OfBlock = typename Held::OfBlock;
  using Team = typename OfBlock::Team;
  using Vec = typename OfBlock::Vec;
  using Four = typename OfBlock::Four;
  using Floats = ladder::Floats<Vec>;
  constexpr int kBlocks = Held::kBlocks, kThreads = Team::kThreads, kVectors = OfBlock::kVectors;
  constexpr bool kAligned = Vec::size > 1;
  constexpr int kWhole = 16 / sizeof(T);  // elements of 16 bytes
  __shared__ Mbarrier weight_there;
  T* const weight = ladder::dynamic_shared<T>();
  const ladder::RowShare<T> share(a.cols, static_cast<int>(cluster_rank()), kBlocks);
  const int t = Team::rank(), vectors = share.cols / Vec::size;
  ladder::RowPairsAhead<T, kBlocks, Team, kAligned> ahead(a.x, a.dy, a.rows, a.cols, share,
                                                          weight + places.elements, places);
  ladder::ClusterExchange<kBlocks> exchange;
  Team team;
  ahead.start();
  if (threadIdx.x == 0) {
    exchange.init();
    mbarrier_init(&weight_there, 1);
    fence_proxy_async();
    const unsigned bytes = share.cols / kWhole * 16;
    mbarrier_arrive_expect_tx(&weight_there, bytes);
    if (bytes > 0) bulk_load(weight, a.weight + share.first, bytes, &weight_there);
  }
  const int last = share.cols / kWhole * kWhole + threadIdx.x;  // of what is no whole 16 bytes
  if (!kAligned && last < share.cols) weight[last] = a.weight[share.first + last];
  cluster_sync();  // all blocks have started, and their barriers exist

  SumsOfColumns<OfBlock> of_columns[kSums<Norm>];  // dweight, dbias
  auto sum_of = [&](int which, int element) -> float& {
    return of_columns[which][element / Four::size][element % Four::size];
  };
#pragma unroll
  for (int i = 0; i < kSums<Norm> * kBackwardElements; ++i) {
    sum_of(i / kBackwardElements, i % kBackwardElements) = 0;
  }

  // Thread t of a team takes vectors t, t + kThreads, … of the block's share.
  auto for_each_vector = [&](auto use) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      use(k, v * Vec::size);
    }
  };
  auto sum_of_x = [&](const T* x) {
    float sum = 0;
    for_each_vector([&](int, int column) {
      const Floats of_x(Vec::load(x + column));
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum += of_x[e];
    });
    return sum;
  };
  auto sum_over_row = [&](auto& values) {  // all blocks add the same numbers in the same order
    team.sum(values);
    if constexpr (kBlocks > 1) {
      float4 of_block{};
      std::memcpy(&of_block, values, sizeof values);
      of_block = exchange.tell(of_block);
      std::memcpy(values, &of_block, sizeof values);
#pragma unroll
      for (float& value : values) value = ladder::lane_sum<kBlocks>(value);
    }
  };

  const float of_a_column = 1.0f / a.cols;
  auto row = ahead.first_row();
  typename decltype(ahead)::Pair here{}, next{};
  float mean = 0;
  if (Norm::kCentred && row < a.rows) {
    next = ahead.wait(row);
    float sum[] = {sum_of_x(next.x)};
    sum_over_row(sum);
    mean = sum[0] * of_a_column;
  }
  mbarrier_wait(&weight_there, 0);
  for (; row < a.rows; row += ahead.stride()) {
    if constexpr (Norm::kCentred) {
      here = next;
    } else {
      here = ahead.wait(row);
    }
    // One exchange for all sums: with d = x - mean, g * z is g * d times the scale, which is not
    // known yet; and the mean of the next row is needed when this one is done.
    float d[kBackwardElements], dy[kBackwardElements], g[kBackwardElements];
    float squares = 0, of_g = 0, of_gd = 0, of_next = 0;
    for_each_vector([&](int k, int column) {
      const Floats of_x(Vec::load(here.x + column)), of_y(Vec::load(here.y + column));
      const Floats of_weight(Vec::load(weight + column));
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const int i = k * Vec::size + e;
        d[i] = of_x[e] - mean;
        dy[i] = of_y[e];
        g[i] = of_y[e] * of_weight[e];
        squares += d[i] * d[i];
        if constexpr (Norm::kCentred) of_g += g[i];
        of_gd += g[i] * d[i];
      }
    });
    if (Norm::kCentred && row + ahead.stride() < a.rows) {
      next = ahead.wait(row + ahead.stride());
      of_next = sum_of_x(next.x);
    }
    float sums[Norm::kCentred ? 4 : 2] = {squares, of_gd};
    if constexpr (Norm::kCentred) {
      sums[2] = of_g;
      sums[3] = of_next;
    }
    sum_over_row(sums);
    ahead.release(row);

    // dx = (g - mean_of_g - z * mean_of_gz) * scale
    const float scale = rsqrtf(sums[0] * of_a_column + Norm::kEpsilon);
    const float of_z = sums[1] * of_a_column * scale * scale;
    float subtracted = 0;
    if constexpr (Norm::kCentred) subtracted = sums[2] * of_a_column * scale;
    T* const dx = a.dx + row * a.cols + share.first;
    for_each_vector([&](int k, int column) {
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        const int i = k * Vec::size + e;
        const float z = d[i] * scale;
        out[e] = T(g[i] * scale - (z * of_z + subtracted));
        sum_of(0, i) += dy[i] * z;
        if constexpr (Norm::kCentred) sum_of(1, i) += dy[i];
      }
      out.store(dx + column);
    });
    if constexpr (Norm::kCentred) mean = sums[3] * of_a_column;
  }

  // The teams' sums of columns meet in shared memory, where all rows have been used.
  __syncthreads();
  constexpr int kOfTeam = kSums<Norm> * OfBlock::kPart;
  float* const of_teams = ladder::dynamic_shared<float>();  // [teams][kSums][OfBlock::kPart]
#pragma unroll
  for (int i = 0; i < kSums<Norm> * OfBlock::kFours; ++i) {
    const int which = i / OfBlock::kFours, four = i % OfBlock::kFours;
    of_columns[which][four].store(of_teams + Team::number() * kOfTeam + which * OfBlock::kPart +
                                  OfBlock::place(four, t));
  }
  __syncthreads();
  float* const part = parts + std::int64_t{blockIdx.x / kBlocks} * kSums<Norm> * Held::kPart +
                      cluster_rank() * OfBlock::kPart;
  for (int at = threadIdx.x * Four::size; at < kOfTeam; at += kBackwardBlock * Four::size) {
    Four sum = Four::load(of_teams + at);
#pragma unroll
    for (int other = 1; other < Team::kTeams; ++other) {
      const Four of_other = Four::load(of_teams + other * kOfTeam + at);
#pragma unroll
      for (int e = 0; e < Four::size; ++e) sum[e] += of_other[e];
    }
    sum.store(part + at / OfBlock::kPart * Held::kPart + at % OfBlock::kPart);
  }
}

/// The shortest rows, in elements, that are a team's: of 64 threads at least.
constexpr int kShortestAheadBackward = 512;

/// Calls f(HeldAhead<…>{}) with the smallest team, or cluster, that holds a row; otherwise(), where
/// none does.
template <class T, class F, class G>
auto by_columns_ahead(int cols, F f, G otherwise) {
  auto holds = [&](int blocks) {
    return ladder::RowShare<T>(cols, blocks - 1, blocks).cols <= kBackwardBlock * kBackwardElements;
  };
  auto with = [&]<class Vec>(Vec) {
    if (cols <= 64 * kBackwardElements) return f(HeldAhead<T, Vec, 1, 64>{});
    if (cols <= 128 * kBackwardElements) return f(HeldAhead<T, Vec, 1, 128>{});
    if (cols <= 256 * kBackwardElements) return f(HeldAhead<T, Vec, 1, 256>{});
    if (holds(1)) return f(HeldAhead<T, Vec, 1, kBackwardBlock>{});
    if (holds(2)) return f(HeldAhead<T, Vec, 2, kBackwardBlock>{});
    if (holds(4)) return f(HeldAhead<T, Vec, 4, kBackwardBlock>{});
    return f(HeldAhead<T, Vec, 8, kBackwardBlock>{});
  };
  if (cols < kShortestAheadBackward || !holds(8)) return otherwise();
  return cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

/// The parts that are left: of the clusters that run at once, or fewer where the rows are few.
template <class Norm, class T, class Held>
int parts_ahead(int rows) {
  static const int at_once = ladder::blocks_at_once(backward_ahead<Norm, T, Held>, Held::kBlocks,
                                                    kBackwardBlock, ladder::RowPlaces::kBytes) /
                             Held::kBlocks;
  return min(rows, max(1, at_once));  // where none can run, the launch says so
}

template <class Norm, class T>
std::size_t workspace_ahead(const typename Norm::template Args<T>& a) {
  return by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        return bytes_of_parts<Norm, Held>(parts_ahead<Norm, T, Held>(a.rows));
      },
      [&] { return workspace_on_hopper<Norm, T>(a); });
}

template <class Norm, class T>
void launch_backward_ahead(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        const int parts = parts_ahead<Norm, T, Held>(a.rows);
        ladder::launch(backward_ahead<Norm, T, Held>, parts * Held::kBlocks, kBackwardBlock,
                       ladder::RowPlaces::kBytes, stream, a, static_cast<float*>(a.workspace),
                       places_ahead<T, Held>(a.cols));
        launch_add_parts<Norm, T, Held>(a, parts, stream);
      },
      [&] { launch_backward_on_hopper<Norm, T>(a, stream); });
}

}  // namespace layernorm_rows
