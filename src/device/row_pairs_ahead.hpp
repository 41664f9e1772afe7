// Rows of two matrices of the same size in flight before they are needed, as rows_ahead.hpp has
// them of one. Each team of a block (warps_team.hpp) takes row after row, and has stages of its own
// for those in flight; where rows are longer than a block holds, the block is one team, and one of a
// cluster:
//
//   __shared__ typename RowPairsAhead<T, kBlocks, Team, kAligned>::Storage storage;
//   RowPairsAhead<T, kBlocks, Team, kAligned> ahead(storage, …);
//   ahead.start();
//   cluster_start<kBlocks>();
//   for (auto row = ahead.first_row(); row < rows; row += ahead.stride()) {
//     const auto [x, y] = ahead.wait(row);                   the parts' first columns
//     …                                                      to registers
//     barrier of the team
//     ahead.release(row);                                    a later row may take its stage
//     …
//   }
//
// The next row may be waited for before this one is released. Hopper only; the kernel has
// __cluster_dims__(kBlocks).
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/ptx/tma.hpp"
#include "device/row_partition.hpp"

namespace ladder {

constexpr int kMostPairs = 4;  // in flight to a team; more would only wait longer

template <class T, int kBlocks, class Team, bool kAligned>
class RowPairsAhead {
 public:
  struct Storage {  // in shared memory
    ptx::Mbarrier full[Team::kTeams][kMostPairs];
  };
  struct Pair {
    const T *x, *y;
  };

  /// The matrices start at multiples of 16 bytes, and if kAligned all of their rows. In `shared`,
  /// which starts at one of 128, each team has stages.count stages of a pair.
  __device__ RowPairsAhead(Storage& storage, const T* x, const T* y, int rows, int cols,
                           const RowPartition<T>& part, T* shared, const RowStages& stages)
      : storage_(storage),
        part_(part),
        x_(x),
        y_(y),
        rows_(rows),
        cols_(cols),
        shared_(shared + Team::number() * stages.count * 2 * stages.elements),
        stages_(stages) {}

  /// Makes the team's barriers, and issues the copies of its first rows.
  __device__ void start() const {
    if (Team::rank() != 0) return;
#pragma unroll 1  // here and below: done once, not worth the instructions
    for (int stage = 0; stage < stages_.count; ++stage) ptx::mbarrier_init(full(stage), 1);
    ptx::fence_proxy_async();
#pragma unroll 1
    for (int stage = 0; stage < stages_.count; ++stage) {
      issue(first_row() + stage * stride(), stage);
    }
  }

  /// Few rows are spread over the clusters, not over the teams of the first of them.
  __device__ static std::int64_t first_row() {
    return std::int64_t{gridDim.x / kBlocks} * Team::number() + blockIdx.x / kBlocks;
  }
  __device__ static std::int64_t stride() {
    return std::int64_t{gridDim.x / kBlocks} * Team::kTeams;
  }

  /// Where the parts of this row are, the first that has not been waited for.
  __device__ Pair wait(std::int64_t row) {
    ptx::mbarrier_wait(full(next_), parity_);
    const T* x = stage(next_);
    if constexpr (!kAligned) x += RowWindow<T>::offset_of(first_element(row));
    const Pair pair{x, x + stages_.elements};
    if (++next_ == stages_.count) {
      next_ = 0;
      parity_ ^= 1;
    }
    return pair;
  }

  /// By all threads, which have met since they read this row, the oldest not released: another
  /// takes its stage.
  __device__ void release(std::int64_t row) {
    if (Team::rank() == 0) issue(row + stages_.count * stride(), oldest_);
    if (++oldest_ == stages_.count) oldest_ = 0;
  }

 private:
  __device__ ptx::Mbarrier* full(int i) const { return &storage_.full[Team::number()][i]; }
  __device__ T* stage(int i) const { return shared_ + i * 2 * stages_.elements; }

  __device__ std::int64_t first_element(std::int64_t row) const {
    return row * cols_ + part_.first;
  }

  __device__ void issue(std::int64_t row, int i) const {
    if (row >= rows_) return;
    const std::int64_t from = first_element(row);
    std::int64_t begin = from, end = from + part_.cols;
    T* const x = stage(i);
    T* const y = x + stages_.elements;
    if constexpr (!kAligned) {
      const RowWindow<T> window(from, part_.cols, std::int64_t{rows_} * cols_);
#pragma unroll 1
      for (auto at = window.end; at < end; ++at) {  // the matrix's last bytes
        x[at - window.begin] = x_[at];
        y[at - window.begin] = y_[at];
      }
      begin = window.begin;
      end = window.end;
    }
    const auto bytes = static_cast<unsigned>((end - begin) * sizeof(T));
    ptx::mbarrier_arrive_expect_tx(full(i), 2 * bytes);
    if (!kAligned && bytes == 0) return;
    ptx::bulk_load(x, x_ + begin, bytes, full(i));
    ptx::bulk_load(y, y_ + begin, bytes, full(i));
  }

  Storage& storage_;
  const RowPartition<T> part_;
  const T *x_, *y_;
  int rows_, cols_;
  T* shared_;
  RowStages stages_;
  int next_ = 0, oldest_ = 0;  // stages: to be waited for, to be released
  unsigned parity_ = 0;
};

}  // namespace ladder
