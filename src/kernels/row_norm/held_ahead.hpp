// How the backward kernels with rows ahead (device/row_pairs_ahead.hpp) hold a row, which team of
// threads they choose by its length, and how a block's teams add their sums over rows. For
// *.sm90a.cu.
#pragma once

#include "column_sums.hpp"
#include "device/row_pairs_ahead.hpp"
#include "device/row_partition.hpp"
#include "device/warps_team.hpp"

namespace row_norm {

constexpr int kAheadBlock = 512;  // threads of a block's teams; it is alone on its SM
constexpr int kAheadThreads = kAheadBlock + 128;  // and the producers' warpgroup
constexpr int kAheadElements = 16;                // of a row, in a thread

/// How a row is held: by a team of kThreads threads of each of kBlocks blocks, which has its share
/// of the columns (device/row_partition.hpp).
template <class T, class Vec, int kBlocks_, int kThreads>
struct HeldAhead {
  using OfBlock = Held<ladder::WarpsTeam<kThreads, kAheadBlock>, Vec, kAheadElements>;
  static constexpr int kBlocks = kBlocks_;
  /// Of a stage, which has 1 KB at least.
  static constexpr int kRows = kThreads == 32 && sizeof(T) == 2 ? 2 : 1;
  static constexpr int kPart = kBlocks * OfBlock::kPart;  // floats that hold a row's sums
  static constexpr PartLayout kLayout{Vec::size, OfBlock::Four::size, kThreads, OfBlock::kPart,
                                      kBlocks};
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

/// Adds the sums of a block's teams and stores them as the block's part of its cluster's partial
/// sums. By the threads of all teams. team_sums is shared memory, in which the rows have been:
/// [teams][kSums][OfBlock::kPart].
template <class Held, int kSums>
__device__ void store_block_partial(const ColumnSums<typename Held::OfBlock> (&sums)[kSums],
                                    float* team_sums, float* partials) {
  using OfBlock = typename Held::OfBlock;
  using Team = typename OfBlock::Team;
  using Four = typename OfBlock::Four;
  constexpr int kOfTeam = kSums * OfBlock::kPart;
  auto for_each_four = [&](auto use) {
#pragma unroll
    for (int i = 0; i < kSums * OfBlock::kFours; ++i) {
      const int which = i / OfBlock::kFours, four = i % OfBlock::kFours;
      use(sums[which][four], which, OfBlock::place(four, Team::rank()));
    }
  };
  float* const partial = partials + std::int64_t{blockIdx.x / Held::kBlocks} * kSums * Held::kPart +
                         ladder::ptx::cluster_rank() * OfBlock::kPart;
  if constexpr (Team::kTeams == 1) {
    for_each_four([&](const Four& sum, int which, int place) {
      sum.store_whole(partial + which * Held::kPart + place);
    });
    return;
  }
  ladder::ptx::named_barrier_sync<kAheadBlock>(kAllTeams);  // all rows have been used
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
    return ladder::RowPartition<T>(cols, blocks - 1, blocks).cols <= kAheadBlock * kAheadElements;
  };
  auto with = [&]<class Vec>(Vec) {
    if (cols <= 32 * kAheadElements) return f(HeldAhead<T, Vec, 1, 32>{});
    if (cols <= 64 * kAheadElements) return f(HeldAhead<T, Vec, 1, 64>{});
    if (cols <= 128 * kAheadElements) return f(HeldAhead<T, Vec, 1, 128>{});
    if (cols <= 256 * kAheadElements) return f(HeldAhead<T, Vec, 1, 256>{});
    if (holds(1)) return f(HeldAhead<T, Vec, 1, kAheadBlock>{});
    if (holds(2)) return f(HeldAhead<T, Vec, 2, kAheadBlock>{});
    if (holds(4)) return f(HeldAhead<T, Vec, 4, kAheadBlock>{});
    return f(HeldAhead<T, Vec, 8, kAheadBlock>{});
  };
  if (cols < kShortestAhead || !holds(8)) return otherwise();
  if constexpr (sizeof(T) == 2) {
    // Of wider vectors a warp has a second round for a few lanes only.
    const bool has_idle_lanes = cols <= 32 * kAheadElements * 3 / 4;
    if (has_idle_lanes && cols % ladder::Vec128<T>::size == 0) {
      return f(HeldAhead<T, ladder::Vec64<T>, 1, 32>{});
    }
  }
  return cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

}  // namespace row_norm
