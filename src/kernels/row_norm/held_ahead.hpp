// How the backward kernels with rows ahead (device/row_pairs_ahead.hpp) hold a row, which team of
// threads they choose by its length, and how a block's teams add their sums over rows. For
// *.sm90a.cu.
#pragma once

#include "column_sums.hpp"
#include "device/row_pairs_ahead.hpp"
#include "device/row_partition.hpp"
#include "device/row_span.hpp"
#include "device/warps_team.hpp"

#include <numeric>
#include <type_traits>

namespace row_norm {

constexpr int kAheadBlock = 512;  // threads of a block's teams; it is alone on its SM
constexpr int kAheadThreads = kAheadBlock + 128;  // and the producers' warpgroup
constexpr int kAheadElements = 16;                // of a row, in a thread

/// How a row is held: by a team of kThreads threads of each of kBlocks blocks, which has its share
/// of the columns (device/row_partition.hpp). kAligned: all rows start at multiples of a vector. Of
/// other rows the vectors are those that lie in memory as vectors, and the columns before and behind
/// them are singles (device/row_span.hpp), which the team's last threads have besides.
template <class T, class Vec, bool kAligned_, int kBlocks_, int kThreads>
struct HeldAhead {
  using OfBlock = Held<ladder::WarpsTeam<kThreads, kAheadBlock>, Vec, kAheadElements>;
  using Span = ladder::RowSpan<T, kAligned_, Vec>;
  static constexpr bool kAligned = kAligned_;
  static constexpr int kBlocks = kBlocks_;
  /// Of a stage, which has 1 KB at least, if neighbouring rows start alike.
  static constexpr int kRows = kAligned && kThreads == 32 && sizeof(T) == 2 ? 2 : 1;
  static constexpr int kPart = kBlocks * OfBlock::kPart;  // floats that hold a row's sums
  /// Of the partial sums: by column where the rows of clusters start differently.
  static constexpr PartLayout kLayout{kAligned ? Vec::size : 1, kAligned ? OfBlock::Four::size : 1,
                                      kThreads, OfBlock::kPart, kBlocks};

  /// As many as run at once, or fewer where the rows are few. A cluster takes every clusters-th row:
  /// all of its rows start alike if that is a multiple of the rows after which starts repeat.
  static int clusters(int at_once, int rows, int cols) {
    const int period = kAligned ? 1 : Vec::size / std::gcd(Vec::size, cols);
    return min(rows,
               max(period, at_once / period * period));  // if none can run, the launch says so
  }
  /// Of the block's part of the cluster's rows.
  __device__ static Span span(int cols, const ladder::RowPartition<T>& part) {
    return Span(std::int64_t{blockIdx.x / kBlocks} * cols + part.first, part.cols);
  }
};

/// What a thread holds of a row: vectors t, t + kThreads, … of its block's columns, and perhaps a
/// single.
template <class T, class Held>
struct OfThread {
  using Vec = typename Held::OfBlock::Vec;
  static constexpr int kThreads = Held::OfBlock::Team::kThreads;
  static constexpr int kVectors = Held::OfBlock::kVectors;
  static constexpr int kElements = Held::OfBlock::kElements + !Held::kAligned;

  Vec vectors[kVectors];
  ladder::Vec1<T> single;

  /// use(element, column, vector…) for each, by thread t of the team: the numbers of its first element
  /// among the thread's and of its first column among the block's, and that vector of each of the rows.
  template <class Use, class... Rows>
  __device__ static void for_each(const typename Held::Span& span, int t, Use use, Rows&... rows) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= span.vectors) break;
      use(k * Vec::size, span.column(v), rows.vectors[k]...);
    }
    if constexpr (!Held::kAligned) {
      const int column = span.single(kThreads - 1 - t);
      if (column >= 0) use(kVectors * Vec::size, column, rows.single...);
    }
  }
};

/// Stages of shared memory: one for the block's weights, and of each team two for every kRows rows on
/// their way, x and dy. Three of those have room at least: one is summed up, the mean of the next one
/// is needed by then, and another is being copied.
template <class T, class Held>
ladder::RowStages stages_ahead(int cols) {
  constexpr int kTeams = Held::OfBlock::Team::kTeams;
  auto stages = ladder::row_stages<T>(Held::kRows * cols, Held::kBlocks, 0);
  const auto bytes = stages.elements * sizeof(T);
  const auto all = static_cast<int>(ladder::RowStages::kBytes / bytes);
  stages.count = min(ladder::kMostPairs, (all - 1) / (2 * kTeams));
  return stages;
}

constexpr int kAllTeams = 15;  // the named barrier of a block's teams; each has one of its own

/// A thread's accumulators of kSums sums over the rows, for each element that it holds of one.
template <class Held, int kSums>
struct SumsAhead {
  using Four = typename Held::OfBlock::Four;
  static constexpr int kElements = Held::OfBlock::kElements;

  ColumnSums<typename Held::OfBlock> of_vectors[kSums];
  float of_single[kSums];

  __device__ SumsAhead() {
#pragma unroll
    for (int i = 0; i < kSums * kElements; ++i) of(i / kElements, i % kElements) = 0;
#pragma unroll
    for (float& sum : of_single) sum = 0;
  }
  __device__ float& of(int which, int element) {
    if (element == kElements) return of_single[which];
    return of_vectors[which][element / Four::size][element % Four::size];
  }
};

/// Adds the sums of a block's teams and stores them as the block's part of its cluster's partial
/// sums. By the threads of all teams. team_sums is shared memory, in which the rows have been.
template <class T, class Held, int kSums>
__device__ void store_block_partial(SumsAhead<Held, kSums>& sums, const typename Held::Span& span,
                                    int cols, float* team_sums, float* partials) {
  using OfBlock = typename Held::OfBlock;
  using Team = typename OfBlock::Team;
  using Four = typename OfBlock::Four;
  const int t = Team::rank();
  float* const partial = partials + std::int64_t{blockIdx.x / Held::kBlocks} * kSums * Held::kPart +
                         ladder::ptx::cluster_rank() * OfBlock::kPart;
  auto for_each_four = [&](auto use) {
#pragma unroll
    for (int i = 0; i < kSums * OfBlock::kFours; ++i) {
      const int which = i / OfBlock::kFours, four = i % OfBlock::kFours;
      use(sums.of_vectors[which][four], which, OfBlock::place(four, t));
    }
  };
  if constexpr (Held::kAligned && Team::kTeams == 1) {
    for_each_four([&](const Four& sum, int which, int place) {
      sum.store_whole(partial + which * Held::kPart + place);
    });
    return;
  }
  ladder::ptx::named_barrier_sync<kAheadBlock>(kAllTeams);  // all rows have been used
  if constexpr (Held::kAligned) {
    constexpr int kOfTeam = kSums * OfBlock::kPart;
    for_each_four([&](const Four& sum, int which, int place) {
      sum.store(team_sums + Team::number() * kOfTeam + which * OfBlock::kPart + place);
    });
    ladder::ptx::named_barrier_sync<kAheadBlock>(kAllTeams);
#pragma unroll 1  // done once: not worth the instructions
    for (unsigned at = threadIdx.x * Four::size; at < kOfTeam; at += kAheadBlock * Four::size) {
      Four sum = Four::load(team_sums + at);
#pragma unroll
      for (int other = 1; other < Team::kTeams; ++other) {
        const Four other_sum = Four::load(team_sums + other * kOfTeam + at);
#pragma unroll
        for (int e = 0; e < Four::size; ++e) sum[e] += other_sum[e];
      }
      sum.store_whole(partial + at / OfBlock::kPart * Held::kPart + at % OfBlock::kPart);
    }
  } else {
    constexpr int kOfSum = OfBlock::kPart + OfBlock::Vec::size, kOfTeam = kSums * kOfSum;
    team_sums += OfBlock::Vec::size - span.head;  // of column 0: fours are whole ones
    float* const of_team = team_sums + Team::number() * kOfTeam;
    OfThread<T, Held> row;
    row.for_each(
        span, t,
        [&]<class Vec>(int first, int column, const Vec&) {
#pragma unroll
          for (int which = 0; which < kSums; ++which) {
            float* const to = of_team + which * kOfSum + column;
            if constexpr (Vec::size == 1) {
              *to = sums.of_single[which];
            } else {
#pragma unroll
              for (int e = 0; e < Vec::size; e += Four::size) {
                sums.of_vectors[which][(first + e) / Four::size].store(to + e);
              }
            }
          }
        },
        row);
    ladder::ptx::named_barrier_sync<kAheadBlock>(kAllTeams);
#pragma unroll 1
    for (int which = 0; which < kSums; ++which) {
#pragma unroll 1
      for (int column = threadIdx.x; column < cols; column += kAheadBlock) {
        float sum = 0;
#pragma unroll
        for (int team = 0; team < Team::kTeams; ++team) {
          sum += team_sums[team * kOfTeam + which * kOfSum + column];
        }
        partial[which * Held::kPart + column] = sum;
      }
    }
  }
}

/// How many stages of each team a block may be ahead of the slowest (device/in_step.hpp).
constexpr int kAheadOfSlowest = 2;

/// The shortest rows, in elements, that are a team's.
constexpr int kShortestAhead = 256;

/// Calls f(HeldAhead<…>{}) with the smallest team, or cluster, that holds a row; otherwise(), where
/// none does.
template <class T, class F, class G>
auto by_columns_ahead(int cols, F f, G otherwise) {
  auto holds = [&](int blocks) {
    return ladder::RowPartition<T>::most(cols, blocks) <= kAheadBlock * kAheadElements;
  };
  using Vec = ladder::Vec128<T>;
  auto with = [&]<bool kAligned>(std::bool_constant<kAligned>) {
    if constexpr (sizeof(T) == 2) {
      // Of wider vectors a warp has a second round for a few lanes only.
      const bool has_idle_lanes = cols <= 32 * kAheadElements * 3 / 4;
      if (has_idle_lanes) return f(HeldAhead<T, ladder::Vec64<T>, kAligned, 1, 32>{});
    }
    if (cols <= 32 * kAheadElements) return f(HeldAhead<T, Vec, kAligned, 1, 32>{});
    if (cols <= 64 * kAheadElements) return f(HeldAhead<T, Vec, kAligned, 1, 64>{});
    if (cols <= 128 * kAheadElements) return f(HeldAhead<T, Vec, kAligned, 1, 128>{});
    if (cols <= 256 * kAheadElements) return f(HeldAhead<T, Vec, kAligned, 1, 256>{});
    if (holds(1)) return f(HeldAhead<T, Vec, kAligned, 1, kAheadBlock>{});
    if (holds(2)) return f(HeldAhead<T, Vec, kAligned, 2, kAheadBlock>{});
    if (holds(3)) return f(HeldAhead<T, Vec, kAligned, 3, kAheadBlock>{});
    if (holds(4)) return f(HeldAhead<T, Vec, kAligned, 4, kAheadBlock>{});
    if constexpr (kAligned) {  // others may need as many clusters as there are of 8 blocks
      if (holds(6)) return f(HeldAhead<T, Vec, kAligned, 6, kAheadBlock>{});
    }
    return f(HeldAhead<T, Vec, kAligned, 8, kAheadBlock>{});
  };
  if (cols < kShortestAhead || !holds(8)) return otherwise();
  return cols % Vec::size == 0 ? with(std::true_type{}) : with(std::false_type{});
}

}  // namespace row_norm
