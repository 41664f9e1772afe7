// Rows on their way before they are needed. Clusters stay, as many as run at once, and take row
// after row of a matrix; each block has the same columns of every row, its share (row_share.hpp).
// Bulk copies bring the shares of the next rows to its shared memory while the row before is summed
// up and stored:
//
//   RowsAhead<T, kBlocks> ahead(x, rows, cols, shared, places);
//   if (threadIdx.x == 0) ahead.start();
//   cluster_sync();                                          also: its barriers exist
//   for (auto row = ahead.first_row(); row < rows; row += ahead.stride()) {
//     const T* const from = ahead.wait(row);                 the share's first column
//     …                                                      to registers
//     ahead.release(row);                                    a later row may take its place
//     …
//   }
//
// Hopper only; the kernel has __cluster_dims__(kBlocks).
#pragma once

#include "harness/multiprocessors.hpp"
#include "harness/ptx/cluster.hpp"
#include "harness/ptx/tma.hpp"
#include "harness/row_share.hpp"
#include "harness/vector.hpp"

#include <type_traits>

namespace ladder {

template <class T, int kBlocks>
class RowsAhead {
 public:
  const RowShare<T> share;

  /// x starts at a multiple of 16 bytes, `shared` at one of 128.
  __device__ RowsAhead(const T* x, int rows, int cols, T* shared, RowPlaces places)
      : share(cols, static_cast<int>(ptx::cluster_rank()), kBlocks),
        x_(x),
        rows_(rows),
        cols_(cols),
        shared_(shared),
        places_(places) {}

  /// By one thread: makes the barriers, and asks for the first rows.
  __device__ void start() const {
#pragma unroll 1  // here and below: done once, not worth the instructions
    for (int place = 0; place < places_.rows; ++place) ptx::mbarrier_init(&landed()[place], 1);
    ptx::fence_proxy_async();
#pragma unroll 1
    for (int place = 0; place < places_.rows; ++place) ask(first_row() + place * stride(), place);
  }

  __device__ static std::int64_t first_row() { return blockIdx.x / kBlocks; }
  __device__ static std::int64_t stride() { return gridDim.x / kBlocks; }

  /// Where the share of this row is: its first column.
  __device__ const T* wait(std::int64_t row) const {
    ptx::mbarrier_wait(&landed()[place_], parity_);
    return shared_ + place_ * places_.elements + RowWindow<T>::place_of(first_element(row));
  }

  /// Column c of the share of this row, which is `from` in shared memory, but for the array's last
  /// elements: they may be in no window.
  __device__ T single(std::int64_t row, const T* from, int c) const {
    const std::int64_t at = first_element(row) + c, all = std::int64_t{rows_} * cols_;
    return at < all / Vec128<T>::size * Vec128<T>::size ? from[c] : x_[at];
  }

  /// By all threads, when they have read this row: another takes its place.
  __device__ void release(std::int64_t row) {
    __syncthreads();
    if (threadIdx.x == 0) ask(row + places_.rows * stride(), place_);
    if (++place_ == places_.rows) {
      place_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ static ptx::Mbarrier* landed() {
    __shared__ ptx::Mbarrier barriers[RowPlaces::kMost];
    return barriers;
  }
  __device__ std::int64_t first_element(std::int64_t row) const {
    return row * cols_ + share.first;
  }
  __device__ void ask(std::int64_t row, int place) const {
    if (row >= rows_) return;
    const RowWindow<T> window(first_element(row), share.cols, std::int64_t{rows_} * cols_);
    const auto bytes = static_cast<unsigned>((window.end - window.begin) * sizeof(T));
    ptx::mbarrier_arrive_expect_tx(&landed()[place], bytes);
    if (bytes == 0) return;
    ptx::bulk_load(shared_ + place * places_.elements, x_ + window.begin, bytes, &landed()[place],
                   ptx::evict_first());
  }

  const T* x_;
  int rows_, cols_;
  T* shared_;
  RowPlaces places_;
  int place_ = 0;
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

/// Launches kernel(args, places) in clusters of kBlocks: as many as run at once, but no more than
/// there are rows. The kernel is a template argument so that the number is asked for once.
template <auto kernel, int kBlocks, class Args>
void launch_rows_ahead(const Args& a, int threads, const RowPlaces& places, cudaStream_t stream) {
  static const int at_once = blocks_at_once(kernel, kBlocks, threads, RowPlaces::kBytes);
  const auto wanted = std::int64_t{a.rows} * kBlocks;
  launch(kernel, static_cast<unsigned>(std::min<std::int64_t>(wanted, at_once)), threads,
         RowPlaces::kBytes, stream, a, places);
}

}  // namespace ladder
