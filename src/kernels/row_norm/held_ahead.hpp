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
#include <span>
#include <type_traits>

namespace row_norm {

constexpr int kAheadBlock = 512;  // threads of a block's teams; it is alone on its SM
constexpr int kAheadThreads = kAheadBlock + 128;  // and the producers' warpgroup
constexpr int kAheadElements = 16;                // of a row, in a thread
/// In 16 bits a thread may have these, kept as they come and converted twice: rows a little longer
/// than a team holds with 16 need none of twice the threads, half of them idle.
constexpr int kPackedElements = 24;

/// How a row is held: by a team of kThreads threads of each of kBlocks blocks, which has its share
/// of the columns (device/row_partition.hpp). kAligned: all rows start at multiples of a vector. Of
/// other rows the vectors are those that lie in memory as vectors, and the columns before and behind
/// them are singles (device/row_span.hpp), which the team's last threads have besides.
template <class T, class Vec, bool kAligned_, int kBlocks_, int kThreads,
          int kElements = kAheadElements>
struct HeldAhead {
  using OfBlock = Held<ladder::WarpsTeam<kThreads, kAheadBlock>, Vec, kElements>;
  static constexpr bool kIsPacked = kElements > kAheadElements;
  using Span = ladder::RowSpan<T, kAligned_, Vec>;
  static constexpr bool kAligned = kAligned_;
  static constexpr int kBlocks = kBlocks_;
  /// Of a stage: warps would use up single rows of 16 bits faster than the producers ask for them. Ragged
  /// rows in vectors of 16 bytes, and packed ones, gain nothing.
  static constexpr bool kInPairs = kAligned ? kThreads == 32 && !kIsPacked : Vec::size == 4;
  static constexpr int kRows = sizeof(T) == 2 && kInPairs ? 2 : 1;
  static constexpr int kPart = kBlocks * OfBlock::kPart;  // floats that hold a row's sums
  /// Of the partial sums: by column where the rows of clusters start differently.
  static constexpr PartLayout kLayout{kAligned ? Vec::size : 1, kAligned ? OfBlock::Four::size : 1,
                                      kThreads, OfBlock::kPart, kBlocks};

  /// The elements of a row that a block holds at most. Of packed rows with singles, the threads that may have
  /// one have no last vector.
  static constexpr int kMost =
      OfBlock::kPart - (kIsPacked && !kAligned ? 2 * Vec::size * Vec::size : 0);
  static bool holds(int cols) { return ladder::RowPartition<T>::most(cols, kBlocks) <= kMost; }

  /// As many as run at once, or fewer where the rows are few. A cluster takes every clusters-th row:
  /// all of its rows start alike if that is a multiple of the rows after which starts repeat.
  static int clusters(int at_once, int rows, int cols) {
    const int period = kAligned ? 1 : Vec::size / std::gcd(Vec::size, cols);
    return min(rows,
               max(period, at_once / period * period));  // if none can run, the launch says so
  }
  /// Of the block's part of the cluster's rows.
  __device__ static Span span(int cols, const ladder::RowPartition<T>& part) {
    return Span(start(cols, part), part.cols);
  }
  /// The number of this thread's first vector; negative: it has none in the first round. Warps store whole
  /// sectors then, if the team has room for that and the cluster's rows start alike in sectors, too.
  __device__ static int first_vector(int cols, const ladder::RowPartition<T>& part,
                                     const Span& span) {
    int in_sector = 0;
    if constexpr (!kAligned) {
      in_sector = static_cast<int>((start(cols, part) + span.head) % kSector) / Vec::size;
      if (span.vectors + in_sector > kMost / Vec::size) in_sector = 0;
    }
    return OfBlock::Team::rank() - in_sector;
  }

 private:
  static constexpr int kSector = ladder::RowPartition<T>::kSector;
  __device__ static std::int64_t start(int cols, const ladder::RowPartition<T>& part) {
    return std::int64_t{blockIdx.x / kBlocks} * cols + part.first;
  }
};

/// What a thread holds of a row: every kThreads-th vector of its block's columns from the one that
/// HeldAhead::first_vector() gives, and perhaps a single.
template <class T, class Held>
struct OfThread {
  using Vec = typename Held::OfBlock::Vec;
  static constexpr int kThreads = Held::OfBlock::Team::kThreads;
  static constexpr int kVectors = Held::OfBlock::kVectors;
  static constexpr int kOfVectors = Held::OfBlock::kElements;
  /// The single's element: a packed row's takes the place of the last vector (HeldAhead::kMost).
  static constexpr int kSingle = Held::kIsPacked ? kOfVectors - Vec::size : kOfVectors;
  static constexpr int kElements = kOfVectors + (!Held::kAligned && !Held::kIsPacked);

  Vec vectors[kVectors];
  ladder::Vec1<T> of_no_vector;

  __device__ ladder::Vec1<T>& single() {
    if constexpr (Held::kIsPacked) {
      return reinterpret_cast<ladder::Vec1<T>&>(vectors[kVectors - 1][0]);
    } else {
      return of_no_vector;
    }
  }

  /// use(element, column, vector…) for each: the numbers of its first element among the thread's and of its
  /// first column among the block's, and that vector of each of the rows.
  template <class Use, class... Rows>
  __device__ static void for_each(const typename Held::Span& span, int first_vector, Use use,
                                  Rows&... rows) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + first_vector;
      if (v >= span.vectors) break;
      if (!Held::kAligned && k == 0 && v < 0) continue;
      use(k * Vec::size, span.column(v), rows.vectors[k]...);
    }
    if constexpr (!Held::kAligned) {
      const int column = span.single(kThreads - 1 - Held::OfBlock::Team::rank());
      if (column >= 0) use(kSingle, column, rows.single()...);
    }
  }
};

/// Stages of shared memory: one for the block's weights, and of each team two for every kRows rows on
/// their way, x and dy. Three of those have room at least: one is summed up, the mean of the next one
/// is needed by then, and another is being copied.
template <class T, class Held>
ladder::RowStages stages_ahead(int cols) {
  constexpr int kTeams = Held::OfBlock::Team::kTeams;
  auto stages = ladder::row_stages<T>(cols, Held::kBlocks, 0);
  stages.elements *= Held::kRows;
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
                                    int first_vector, int cols, float* team_sums, float* partials) {
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
        span, first_vector,
        [&]<class Vec>(int first, int column, const Vec&) {
#pragma unroll
          for (int which = 0; which < kSums; ++which) {
            float* const to = of_team + which * kOfSum + column;
            if constexpr (Vec::size == 1) {
              *to = sums.of(which, first);
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

/// Of a team in each of so many blocks, with so many elements of a row in a thread.
struct ShapeAhead {
  int blocks, threads, elements;
  bool aligned_only = false;  // of other rows one of the next has as many clusters, or more
};

/// In the order in which they are tried.
constexpr ShapeAhead kShapesIn16Bits[] = {
    {1, 32, 16},        {1, 32, 24},  {1, 64, 16},  {1, 64, 24},        {1, 128, 16}, {1, 128, 24},
    {1, 256, 16},       {1, 256, 24}, {1, 512, 16}, {1, 512, 24},       {2, 512, 16}, {2, 512, 24},
    {4, 512, 16, true}, {3, 512, 24}, {4, 512, 24}, {8, 512, 16, true}, {6, 512, 24}, {8, 512, 24}};
constexpr ShapeAhead kShapesIn32Bits[] = {{1, 32, 16},  {1, 64, 16},  {1, 128, 16}, {1, 256, 16},
                                          {1, 512, 16}, {2, 512, 16}, {3, 512, 16}, {4, 512, 16},
                                          {6, 512, 16}, {8, 512, 16}};

/// Calls f(HeldAhead<…>{}) with the first of them that holds a row; otherwise(), where none does.
template <class T, bool kAligned, int kFirst = 0, class F, class G>
auto first_that_holds(int cols, F f, G otherwise) {
  constexpr std::span shapes =
      sizeof(T) == 2 ? std::span<const ShapeAhead>(kShapesIn16Bits) : kShapesIn32Bits;
  if constexpr (kFirst == shapes.size()) {
    return otherwise();
  } else {
    constexpr ShapeAhead shape = shapes[kFirst];
    using Held =
        HeldAhead<T, ladder::Vec128<T>, kAligned, shape.blocks, shape.threads, shape.elements>;
    if constexpr (kAligned || !shape.aligned_only) {
      if (Held::holds(cols)) return f(Held{});
    }
    return first_that_holds<T, kAligned, kFirst + 1>(cols, f, otherwise);
  }
}

/// Calls f(HeldAhead<…>{}) with how a row is held; otherwise(), where that is in no way.
template <class T, class F, class G>
auto by_columns_ahead(int cols, F f, G otherwise) {
  constexpr int kSector = ladder::RowPartition<T>::kSector, kOfWarp = 32 * kAheadElements;
  auto with = [&]<bool kAligned>(std::bool_constant<kAligned>) {
    if constexpr (sizeof(T) == 2) {
      // Of wider vectors a warp has a second round for a few lanes only.
      const bool has_idle_lanes = cols <= kOfWarp * 3 / 4;
      if (has_idle_lanes) return f(HeldAhead<T, ladder::Vec64<T>, kAligned, 1, 32>{});
    }
    return first_that_holds<T, kAligned>(cols, f, otherwise);
  };
  if (cols < kShortestAhead) return otherwise();
  // Rows that start in a sector's middle would be stored in halves of sectors, where warps meet. In 16 bits a
  // warp's rows gain more by coming in pairs, in one copy.
  const int unit = sizeof(T) == 2 && cols <= kOfWarp ? ladder::Vec128<T>::size : kSector;
  return cols % unit == 0 ? with(std::true_type{}) : with(std::false_type{});
}

template <class T>
bool is_held_ahead(int cols) {
  return by_columns_ahead<T>(
      cols, [](auto) { return true; }, [] { return false; });
}

}  // namespace row_norm
