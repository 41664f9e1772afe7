// Rows of two matrices of the same size on their way before they are needed, as rows_ahead.hpp has
// them of one. Each team of a block (warps_team.hpp) takes row after row, and has places of its own
// for those on their way; where rows are longer than a block holds, the block is one team, and one
// of a cluster:
//
//   RowPairsAhead<T, kBlocks, Team, kAligned> ahead(…);
//   ahead.start();
//   cluster_sync();                                          also: its barriers exist
//   for (auto row = ahead.first_row(); row < rows; row += ahead.stride()) {
//     const auto [x, y] = ahead.wait(row);                   the shares' first columns
//     …                                                      to registers
//     barrier of the team
//     ahead.release(row);                                    a later row may take its place
//     …
//   }
//
// The next row may be waited for before this one is released. Hopper only; the kernel has
// __cluster_dims__(kBlocks).
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/ptx/tma.hpp"
#include "device/row_share.hpp"

namespace ladder {

constexpr int kMostPairs = 4;  // on their way to a team; more would only wait longer

template <class T, int kBlocks, class Team, bool kAligned>
class RowPairsAhead {
 public:
  struct Pair {
    const T *x, *y;
  };

  /// The matrices start at multiples of 16 bytes, and if kAligned all of their rows. In `shared`,
  /// which starts at one of 128, each team has 2 * places.rows places.
  __device__ RowPairsAhead(const T* x, const T* y, int rows, int cols, const RowShare<T>& share,
                           T* shared, const RowPlaces& places)
      : share_(share),
        x_(x),
        y_(y),
        rows_(rows),
        cols_(cols),
        shared_(shared + Team::number() * places.rows * 2 * places.elements),
        places_(places) {}

  /// Makes the team's barriers, and asks for its first rows.
  __device__ void start() const {
    if (Team::rank() != 0) return;
#pragma unroll 1  // here and below: done once, not worth the instructions
    for (int place = 0; place < places_.rows; ++place) ptx::mbarrier_init(landed(place), 1);
    ptx::fence_proxy_async();
#pragma unroll 1
    for (int place = 0; place < places_.rows; ++place) ask(first_row() + place * stride(), place);
  }

  /// Few rows are spread over the clusters, not over the teams of the first of them.
  __device__ static std::int64_t first_row() {
    return std::int64_t{gridDim.x / kBlocks} * Team::number() + blockIdx.x / kBlocks;
  }
  __device__ static std::int64_t stride() {
    return std::int64_t{gridDim.x / kBlocks} * Team::kTeams;
  }

  /// Where the shares of this row are, the first that has not been waited for.
  __device__ Pair wait(std::int64_t row) {
    ptx::mbarrier_wait(landed(next_), parity_);
    const T* x = place(next_);
    if constexpr (!kAligned) x += RowWindow<T>::place_of(first_element(row));
    const Pair pair{x, x + places_.elements};
    if (++next_ == places_.rows) {
      next_ = 0;
      parity_ ^= 1;
    }
    return pair;
  }

  /// By all threads, which have met since they read this row, the oldest not released: another
  /// takes its place.
  __device__ void release(std::int64_t row) {
    if (Team::rank() == 0) ask(row + places_.rows * stride(), oldest_);
    if (++oldest_ == places_.rows) oldest_ = 0;
  }

 private:
  __device__ static ptx::Mbarrier* landed(int place) {
    __shared__ ptx::Mbarrier barriers[Team::kTeams][kMostPairs];
    return &barriers[Team::number()][place];
  }
  __device__ T* place(int i) const { return shared_ + i * 2 * places_.elements; }

  __device__ std::int64_t first_element(std::int64_t row) const {
    return row * cols_ + share_.first;
  }

  __device__ void ask(std::int64_t row, int i) const {
    if (row >= rows_) return;
    const std::int64_t from = first_element(row);
    std::int64_t begin = from, end = from + share_.cols;
    T* const x = place(i);
    T* const y = x + places_.elements;
    if constexpr (!kAligned) {
      const RowWindow<T> window(from, share_.cols, std::int64_t{rows_} * cols_);
#pragma unroll 1
      for (auto at = window.end; at < end; ++at) {  // the matrix's last bytes
        x[at - window.begin] = x_[at];
        y[at - window.begin] = y_[at];
      }
      begin = window.begin;
      end = window.end;
    }
    const auto bytes = static_cast<unsigned>((end - begin) * sizeof(T));
    ptx::mbarrier_arrive_expect_tx(landed(i), 2 * bytes);
    if (!kAligned && bytes == 0) return;
    ptx::bulk_load(x, x_ + begin, bytes, landed(i));
    ptx::bulk_load(y, y_ + begin, bytes, landed(i));
  }

  const RowShare<T> share_;
  const T *x_, *y_;
  int rows_, cols_;
  T* shared_;
  RowPlaces places_;
  int next_ = 0, oldest_ = 0;  // places: to be waited for, to be released
  unsigned parity_ = 0;
};

}  // namespace ladder
