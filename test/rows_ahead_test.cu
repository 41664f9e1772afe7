// Rows that are on their way to shared memory, and what the blocks of a cluster tell each other:
// many rows for few clusters, which the kernels see only where rows are long. Compiled for sm_90a.
#include "gpu.hpp"

#include "arrays.hpp"
#include "harness/cluster_exchange.hpp"
#include "harness/row_team.hpp"
#include "harness/rows_ahead.hpp"

namespace {

using ladder::half;
using ladder::RowPlaces;

class RowsAheadOnHopper : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Gpu, RowsAheadOnHopper, testing::Values(0u));

constexpr int kBlock = 128, kHeld = 8;  // threads, and columns of a thread

/// y = x + the sum of its row.
template <class T, int kBlocks>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kBlock)
    add_row_sums(const T* x, float* y, unsigned rows, int cols, RowPlaces places) {
  ladder::RowsAhead<T, kBlocks> ahead(x, rows, cols, ladder::dynamic_shared<T>(), places);
  ladder::ClusterExchange<kBlocks> exchange;
  const int t = threadIdx.x;
  if (t == 0) {
    ahead.start();
    exchange.init();
  }
  ladder::ptx::cluster_sync();
  struct Row {
    unsigned number;
    float held[kHeld];
  };
  auto begin = [&] {
    Row row;
    row.number = ahead.wait();
    if (row.number >= rows) return row;
    const T* const from = ahead.share_of(row.number);
    float sum = 0;
    for (int k = 0; k < kHeld; ++k) {
      const int c = k * kBlock + t;
      row.held[k] = 0;
      if (c < ahead.share.cols) row.held[k] = static_cast<float>(ahead.single(row.number, from, c));
      sum += row.held[k];
    }
    ahead.release();
    sum = ladder::team_sum<ladder::BlockTeam<kBlock>, 0>(sum);
    exchange.tell({sum, ahead.tickets.to_tell(), 0, 0});
    return row;
  };
  Row row = begin();
  while (row.number < rows) {
    const Row next = begin();
    const float4 heard = exchange.hear();
    ahead.tickets.heard(heard.y);
    const float sum = ladder::lane_sum<kBlocks>(heard.x);
    float* const to = y + std::int64_t{row.number} * cols + ahead.share.first;
    for (int k = 0; k < kHeld; ++k) {
      const int c = k * kBlock + t;
      if (c < ahead.share.cols) to[c] = row.held[k] + sum;
    }
    row = next;
  }
  ahead.tickets.leave();
}

template <class T, int kBlocks>
void check(int rows, int cols, int clusters, int rows_ahead) {
  RowPlaces places = ladder::row_places<T>(cols, kBlocks, 0);
  places.rows = rows_ahead;
  const auto in = random_integers<T>(static_cast<std::size_t>(rows) * cols, 8);  // sums are exact
  Array<T> x(in);
  Array<float> y(in.size());
  ladder::launch(add_row_sums<T, kBlocks>, clusters * kBlocks, kBlock, RowPlaces::kBytes, nullptr,
                 x, y, rows, cols, places);
  const auto out = y.read();
  for (int row = 0; row < rows; ++row) {
    const T* const of_row = &in[static_cast<std::size_t>(row) * cols];
    float sum = 0;
    for (int c = 0; c < cols; ++c) sum += static_cast<float>(of_row[c]);
    for (int c = 0; c < cols; ++c) {
      ASSERT_EQ(out[static_cast<std::size_t>(row) * cols + c], static_cast<float>(of_row[c]) + sum)
          << rows << " x " << cols << ", " << clusters << " clusters of " << kBlocks << ", "
          << rows_ahead << " rows ahead: row " << row << ", column " << c;
    }
  }
}

template <class T, int kBlocks>
void check_all() {
  constexpr int kLongest = kBlocks * kBlock * kHeld - 32;  // the last block may have a bit more
  for (const int cols : {1, 7, 8, 33, 257, 1000, 5001, kLongest}) {
    for (const int rows_ahead : {1, 2, RowPlaces::kMost}) {
      if (cols <= kLongest) check<T, kBlocks>(13, cols, 2, rows_ahead);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(RowsAheadOnHopper, AllRowsArriveWhole) {
  check_all<float, 1>();
  check_all<float, 2>();
  check_all<float, 4>();
  check_all<float, 8>();
  check_all<half, 1>();
  check_all<half, 2>();
  check_all<half, 4>();
  check_all<half, 8>();
}

}  // namespace
