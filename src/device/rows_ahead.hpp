// Rows on their way before they are needed. Clusters stay, as many as run at once, and take row
// after row of a matrix; each block has the same columns of every row, its share (row_share.hpp).
// Bulk copies bring the shares of the next rows to its shared memory while the row before is summed
// up and stored:
//
//   RowsAhead<T, kBlocks> ahead(x, rows, cols, shared, places);
//   if (threadIdx.x == 0) ahead.start();
//   cluster_sync();                                          also: its barriers exist
//   for (auto row = ahead.wait(); row < rows; row = ahead.wait()) {
//     const T* const from = ahead.share_of(row);             the share's first column
//     …                                                      to registers
//     ahead.release();                                       a later row may take its place
//     …                                                      once a row: tell ahead.tickets
//   }
//   ahead.tickets.leave();
//
// Hopper only; the kernel has __cluster_dims__(kBlocks).
#pragma once

#include "device/multiprocessors.hpp"
#include "device/ptx/cluster.hpp"
#include "device/ptx/tma.hpp"
#include "device/row_share.hpp"
#include "device/row_tickets.hpp"
#include "device/vector.hpp"

#include <type_traits>

namespace ladder {

template <class T, int kBlocks>
class RowsAhead {
 public:
  const RowShare<T> share;
  RowTickets<kBlocks> tickets;

  /// x starts at a multiple of 16 bytes, `shared` at one of 128.
  __device__ RowsAhead(const T* x, int rows, int cols, T* shared, RowPlaces places)
      : share(cols, static_cast<int>(ptx::cluster_rank()), kBlocks),
        tickets(places.rows),
        x_(x),
        rows_(rows),
        cols_(cols),
        shared_(shared),
        places_(places) {}

  /// By one thread: makes the barriers, and asks for the first rows.
  __device__ void start() const {
#pragma unroll 1  // here and below: done once, not worth the instructions
    for (int place = 0; place < places_.rows; ++place) ptx::mbarrier_init(&here().landed[place], 1);
    ptx::fence_proxy_async();
#pragma unroll 1
    for (int place = 0; place < places_.rows; ++place) ask(tickets.settled(place), place);
  }

  /// The number of the next row, when it has landed; if there is none, one beyond the matrix.
  __device__ unsigned wait() const {
    ptx::mbarrier_wait(&here().landed[place_], parity_);
    return here().row[place_];
  }

  /// Where the share of the row last waited for is: its first column.
  __device__ const T* share_of(unsigned row) const {
    return shared_ + place_ * places_.elements + RowWindow<T>::place_of(first_element(row));
  }

  /// Column c of the share of this row, which is `from` in shared memory, but for the array's last
  /// elements: they may be in no window.
  __device__ T single(unsigned row, const T* from, int c) const {
    const std::int64_t at = first_element(row) + c, all = std::int64_t{rows_} * cols_;
    return at < all / Vec128<T>::size * Vec128<T>::size ? from[c] : x_[at];
  }

  /// By all threads, when they have read the row: another takes its place.
  __device__ void release() {
    __syncthreads();
    if (threadIdx.x == 0) ask(tickets.take(), place_);
    if (++place_ == places_.rows) {
      place_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  struct Places {
    ptx::Mbarrier landed[RowPlaces::kMost];
    unsigned row[RowPlaces::kMost];  // who has waited for the barrier sees it
  };
  __device__ static Places& here() {
    __shared__ Places places;
    return places;
  }

  __device__ std::int64_t first_element(std::int64_t row) const {
    return row * cols_ + share.first;
  }
  __device__ void ask(unsigned row, int place) const {
    ptx::Mbarrier* const landed = &here().landed[place];
    here().row[place] = row;
    if (row >= rows_) return ptx::mbarrier_arrive(landed);
    const RowWindow<T> window(first_element(row), share.cols, std::int64_t{rows_} * cols_);
    const auto bytes = static_cast<unsigned>((window.end - window.begin) * sizeof(T));
    ptx::mbarrier_arrive_expect_tx(landed, bytes);
    if (bytes == 0) return;
    ptx::bulk_load(shared_ + place * places_.elements, x_ + window.begin, bytes, landed);
  }

  const T* x_;
  unsigned rows_;
  int cols_;
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
  launch(kernel, static_cast<unsigned>(min(wanted, std::int64_t{at_once})), threads,
         RowPlaces::kBytes, stream, a, places);
}

}  // namespace ladder
