// Rows in flight before they are needed: a multistage pipeline of persistent clusters. As many run as
// fit the GPU at once, and take row after row of a matrix; each block has the same columns of every
// row, its part (row_partition.hpp). Bulk copies bring the parts of the next rows to the stages in its
// shared memory while the row before is summed up and stored:
//
//   __shared__ typename RowsAhead<T, kBlocks>::Storage storage;
//   RowsAhead<T, kBlocks> ahead(storage, counters, x, rows, cols, shared, stages);
//   if (threadIdx.x == 0) ahead.start();
//   cluster_start<kBlocks>();
//   for (auto row = ahead.wait(); row < unsigned(rows); row = ahead.wait()) {
//     const T* const from = ahead.part_of(row);              the part's first column
//     …                                                      to registers
//     ahead.release();                                       a later row may take its stage
//     …                                                      once a row: ahead.scheduler's broadcast
//   }
//   ahead.scheduler.leave();
//
// Hopper only; the kernel has __cluster_dims__(kBlocks).
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/ptx/tma.hpp"
#include "device/row_partition.hpp"
#include "device/row_scheduler.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"

#include <type_traits>

namespace ladder {

template <class T, int kBlocks>
class RowsAhead {
 public:
  struct Storage {  // in shared memory
    ptx::Mbarrier full[RowStages::kMost];
    unsigned row[RowStages::kMost];  // who has waited for the barrier sees it
  };

  const RowPartition<T> part;
  RowScheduler<kBlocks> scheduler;

  /// x starts at a multiple of 16 bytes, `shared` at one of 128.
  __device__ RowsAhead(Storage& storage, RowCounters* counters, const T* x, int rows, int cols,
                       T* shared, RowStages stages)
      : part(cols, static_cast<int>(ptx::cluster_rank()), kBlocks),
        scheduler(counters, stages.count),
        storage_(storage),
        x_(x),
        rows_(rows),
        cols_(cols),
        shared_(shared),
        stages_(stages) {}

  /// By one thread: makes the barriers, and issues the copies of the first rows.
  __device__ void start() const {
#pragma unroll 1  // here and below: done once, not worth the instructions
    for (int stage = 0; stage < stages_.count; ++stage) {
      ptx::mbarrier_init(&storage_.full[stage], 1);
    }
    ptx::fence_proxy_async();
#pragma unroll 1
    for (int stage = 0; stage < stages_.count; ++stage) issue(scheduler.static_row(stage), stage);
  }

  /// The number of the next row, when its copy is complete; if there is none, one beyond the matrix.
  __device__ unsigned wait() const {
    ptx::mbarrier_wait(&storage_.full[stage_], parity_);
    return storage_.row[stage_];
  }

  /// Where the part of the row last waited for is: its first column.
  __device__ const T* part_of(unsigned row) const {
    return shared_ + stage_ * stages_.elements + RowWindow<T>::offset_of(first_element(row));
  }

  /// Column c of the part of this row, which is `from` in shared memory, but for the array's last
  /// elements: they may be in no window.
  __device__ T single(unsigned row, const T* from, int c) const {
    const std::int64_t at = first_element(row) + c, all = std::int64_t{rows_} * cols_;
    return at < all / Vec128<T>::size * Vec128<T>::size ? from[c] : x_[at];
  }

  /// By all threads, when they have read the row: another takes its stage.
  __device__ void release() {
    __syncthreads();
    if (threadIdx.x == 0) issue(scheduler.next(), stage_);
    if (++stage_ == stages_.count) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ std::int64_t first_element(std::int64_t row) const { return row * cols_ + part.first; }
  __device__ void issue(unsigned row, int stage) const {
    ptx::Mbarrier* const full = &storage_.full[stage];
    storage_.row[stage] = row;
    if (row >= rows_) return ptx::mbarrier_arrive(full);
    const RowWindow<T> window(first_element(row), part.cols, std::int64_t{rows_} * cols_);
    const auto bytes = static_cast<unsigned>(window.elements * sizeof(T));
    ptx::mbarrier_arrive_expect_tx(full, bytes);
    if (bytes == 0) return;
    ptx::bulk_load(shared_ + stage * stages_.elements, x_ + window.begin, bytes, full);
  }

  Storage& storage_;
  const T* x_;
  unsigned rows_;
  int cols_;
  T* shared_;
  RowStages stages_;
  int stage_ = 0;
  unsigned parity_ = 0;
};

/// Calls launch(std::integral_constant<int, blocks>{}) for the plan's cluster.
template <class Launch>
void with_blocks(const RowPlan& plan, Launch launch) {
  if (plan.blocks == 1) return launch(std::integral_constant<int, 1>{});
  if (plan.blocks == 2) return launch(std::integral_constant<int, 2>{});
  if (plan.blocks == 4) return launch(std::integral_constant<int, 4>{});
  launch(std::integral_constant<int, 8>{});
}

/// Launches kernel(args, stages, more…) in clusters of kBlocks: as many as run at once, but no more
/// than there are rows. `more` begins with the RowCounters of the launch, where the kernel has them.
template <auto kernel, int kBlocks, class Args, class... More>
void launch_rows_ahead(const Args& a, int threads, const RowStages& stages, cudaStream_t stream,
                       const More&... more) {
  const int at_once = blocks_at_once(kernel, kBlocks, threads, RowStages::kBytes);
  const auto wanted = std::int64_t{a.rows} * kBlocks;
  launch(kernel, static_cast<unsigned>(min(wanted, std::int64_t{at_once})), threads,
         RowStages::kBytes, stream, a, stages, more...);
}

}  // namespace ladder
