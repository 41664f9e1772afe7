// Rows of two matrices of the same size in flight before they are needed, as rows_ahead.hpp has
// them of one, and asked for by warps of their own, the producers. Each team of a block
// (warps_team.hpp) takes row after row, and has stages of its own for those in flight; where rows are
// longer than a block holds, the block is one team, and one of a cluster:
//
//   using Ahead = RowPairsAhead<T, kBlocks, Team, kAligned, kRows>;
//   __shared__ typename Ahead::Storage storage;
//   Ahead ahead(storage, …);
//   Team team(ahead.sums());
//   if (it is a producer warp) ahead.start(warp);
//   cluster_start<kBlocks>();
//   if (it is one thread of a producer warp) ahead.produce(warp, in_step);
//   if (it is a thread of a team) {
//     for (auto row = ahead.first_row(); row < rows; row += ahead.stride()) {
//       const T* const x = ahead.x(ahead.wait(), row);     the part's first column; ahead.y(x) is y's
//       …                                                  to registers
//       ahead.release();                                   a later row may take its stage
//       …
//     }
//   }
//
// Where rows are so short that to wait for each would keep the producers too busy, a stage has kRows of
// them: then `row` above is the first, row + r * ahead.apart() is x(stage, …, r), and there may be fewer at
// the matrix's end. Hopper only; the kernel has __cluster_dims__(kBlocks).
#pragma once

#include "device/in_step.hpp"
#include "device/ptx/cluster.hpp"
#include "device/ptx/elect.hpp"
#include "device/ptx/kept_address.hpp"
#include "device/ptx/tma.hpp"
#include "device/row_partition.hpp"

namespace ladder {

constexpr int kMostPairs = 3;  // in flight to a team; more would only wait longer
constexpr int kProducers = 4;  // warps

template <class T, int kBlocks, class Team, bool kAligned, int kRows>
class RowPairsAhead {
  static_assert(kRows <= 2 && (kRows == 1 || kBlocks == 1), "parts of rows are no neighbours");

 public:
  struct OfTeam {
    ptx::Mbarrier full[kMostPairs], empty[kMostPairs];  // of its stages
    typename Team::Storage sums;
  };
  struct Storage {  // in shared memory
    OfTeam of_team[Team::kTeams];
  };

  /// The matrices start at multiples of 16 bytes, and if kAligned all of their rows; if not, the rows of a
  /// cluster, of which each takes every clusters-th, start alike. In `shared`, which starts at a multiple of
  /// 128 bytes, each team has stages.count stages of kRows pairs.
  __device__ RowPairsAhead(Storage& storage, const T* x, const T* y, int rows, int cols,
                           const RowPartition<T>& part, T* shared, const RowStages& stages)
      : storage_(storage),
        part_(part),
        x_(x),
        y_(y),
        rows_(rows),
        cols_(cols),
        distance_(kAligned ? part.cols : stages.elements / kRows),
        shared_(shared),
        stages_(stages),
        of_team_(ptx::kept_address(&storage.of_team[Team::number()])),
        rows_of_team_(ptx::kept_address(at(Team::number(), 0))) {}

  /// The storage of this thread's team.
  __device__ typename Team::Storage& sums() const { return of_team_->sums; }

  /// By each producer warp: makes the barriers of every kProducers-th team, and issues the copies of its
  /// first rows.
  __device__ void start(int warp) const {
    const int lane = threadIdx.x % 32;
    const int team = warp + lane / kMostPairs * kProducers, stage = lane % kMostPairs;
    static_assert(ceil_div(Team::kTeams, kProducers) * kMostPairs <= 32);
    if (team < Team::kTeams) {
      ptx::mbarrier_init(&storage_.of_team[team].full[stage], 1);
      ptx::mbarrier_init(&storage_.of_team[team].empty[stage], Team::kThreads / 32);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    if (!ptx::elect_one()) return;
#pragma unroll 1  // done once, not worth the instructions
    for (int round = 0; round < first_rounds(); ++round) {
      issue_round(row_of(warp) + round * stride(), warp, round, 1);
    }
  }

  /// By one thread of each: issues the copies of all other rows, as stages become empty. It waits for
  /// its first row before, which they would hold up.
  __device__ void produce(int warp, InStep& in_step) const {
    if (warp >= Team::kTeams) return;
    if (row_of(warp) < rows_) ptx::mbarrier_wait(storage_.of_team[warp].full, 0);
    int stage = first_rounds() % stages_.count;
    unsigned parity = first_rounds() < stages_.count;
    for (auto first = row_of(warp) + first_rounds() * stride(); first < rows_; first += stride()) {
      in_step.next(warp == 0);
      issue_round(first, warp, stage, parity);
      if (++stage == stages_.count) {
        stage = 0;
        parity ^= 1;
      }
    }
    if (warp == 0) in_step.leave();
  }

  /// Of the team: few rows are spread over the clusters, not over the teams of the first of them.
  __device__ static unsigned first_row() { return row_of(Team::number()); }
  __device__ static unsigned stride() { return clusters() * Team::kTeams * kRows; }
  __device__ static unsigned apart() { return kAligned ? 1 : clusters(); }

  /// The team's first stage of those that have not been released, when its rows are there.
  __device__ const T* wait() const {
    ptx::mbarrier_wait(&of_team_->full[stage_], parity_);
    return rows_of_team_ + stage_ * 2 * stages_.elements;
  }
  /// Where the part of this row of x is, the stage's r-th.
  __device__ const T* x(const T* stage, unsigned row, int r = 0) const {
    stage += r * distance_;
    if constexpr (!kAligned) stage += RowWindow<T>::offset_of(first_element(row));
    return stage;
  }
  /// And that of y.
  __device__ const T* y(const T* x) const { return x + stages_.elements; }

  /// By all threads of a warp, when it has read its part of that row.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&of_team_->empty[stage_]);
    if (++stage_ == stages_.count) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  static constexpr int kFirstRounds = 2;

  __device__ static unsigned clusters() { return gridDim.x / kBlocks; }
  __device__ static unsigned row_of(int team) {  // its first
    return clusters() * kRows * team + blockIdx.x / kBlocks * (kAligned ? kRows : 1);
  }
  __device__ int rows_of_stage(unsigned first) const {
    return kRows == 2 && first + apart() < rows_ ? 2 : 1;
  }
  __device__ int first_rounds() const { return min(kFirstRounds, stages_.count); }
  __device__ T* at(int team, int stage) const {
    return shared_ + (team * stages_.count + stage) * 2 * stages_.elements;
  }
  __device__ std::int64_t first_element(unsigned row) const {
    return std::int64_t{row} * cols_ + part_.first;
  }

  /// For each team of a producer warp a stage's rows, the first of them `row`. parity: of the stage's
  /// phase in which it becomes empty
  __device__ void issue_round(unsigned row, int warp, int stage, unsigned parity) const {
#pragma unroll 1
    for (int team = warp; team < Team::kTeams && row < rows_; team += kProducers) {
      ptx::mbarrier_wait(&storage_.of_team[team].empty[stage], parity);
      issue(row, team, stage);
      row += clusters() * kProducers * kRows;
    }
  }

  __device__ void issue(unsigned row, int team, int stage) const {
    T* const x = at(team, stage);
    ptx::Mbarrier* const full = &storage_.of_team[team].full[stage];
    const int rows = rows_of_stage(row);
    if constexpr (kAligned) {
      const auto bytes = static_cast<unsigned>(rows * part_.cols * sizeof(T));
      ptx::mbarrier_arrive_expect_tx(full, 2 * bytes);
      load(x, first_element(row), bytes, full);
    } else {
      std::int64_t begin[kRows];
      unsigned bytes[kRows], all = 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r == rows) break;
        const auto row_of_r = row + r * apart();
        RowWindow<T> window(first_element(row_of_r), part_.cols);
        if (row_of_r + 1 == rows_) window = end_of_matrix(x + r * distance_, row_of_r);
        begin[r] = window.begin;
        bytes[r] = static_cast<unsigned>(window.elements * sizeof(T));
        all += bytes[r];
      }
      ptx::mbarrier_arrive_expect_tx(full, 2 * all);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r == rows) break;
        load(x + r * distance_, begin[r], bytes[r], full);
      }
    }
  }

  __device__ void load(T* x, std::int64_t begin, unsigned bytes, ptx::Mbarrier* full) const {
    ptx::bulk_load(x, x_ + begin, bytes, full);
    ptx::bulk_load(x + stages_.elements, y_ + begin, bytes, full);
  }

  /// The window of the matrix's last row. The elements behind it are copied.
  __device__ RowWindow<T> end_of_matrix(T* x, unsigned row) const {
    const auto from = first_element(row), end = from + part_.cols;
    const RowWindow<T> window(from, part_.cols, std::int64_t{rows_} * cols_);
#pragma unroll 1
    for (auto at = window.begin + window.elements; at < end; ++at) {
      x[at - window.begin] = x_[at];
      x[stages_.elements + at - window.begin] = y_[at];
    }
    return window;
  }

  Storage& storage_;
  const RowPartition<T> part_;
  const T *x_, *y_;
  unsigned rows_;
  int cols_;
  int distance_;  // of one row of a stage to the next, elements
  T* shared_;
  RowStages stages_;
  OfTeam* of_team_;  // this thread's, and where its rows are
  const T* rows_of_team_;
  int stage_ = 0;  // of the team's next row
  unsigned parity_ = 0;
};

}  // namespace ladder
