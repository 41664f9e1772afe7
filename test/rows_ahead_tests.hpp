// Rows that are on their way to shared memory, and what the blocks of a cluster send each other:
// many rows for few clusters, which the kernels see only where rows are long. On both backends.
#pragma once

#include "gpu.hpp"

#include "arrays.hpp"
#include "device/cluster_all_gather.hpp"
#include "device/row_team.hpp"
#include "device/rows_ahead.hpp"

namespace {

using ladder::half;
using ladder::RowStages;

class RowsAheadOnHopper : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Order, RowsAheadOnHopper, LADDER_ORDERS);

constexpr int kBlock = 128, kHeld = 8;  // threads, and columns of a thread

struct alignas(16) Message {
  float sum;
  unsigned next_row;
  unsigned no_matter[2] = {};
};

/// y = x + the sum of its row.
template <class T, int kBlocks>
__global__ void __launch_bounds__(kBlock) __cluster_dims__(kBlocks)
    add_row_sums(const T* x, float* y, int rows, int cols, RowStages stages,
                 ladder::RowCounters* counters) {
  using Ahead = ladder::RowsAhead<T, kBlocks>;
  using AllGather = ladder::ClusterAllGather<Message, kBlocks>;
  using Team = ladder::BlockTeam<kBlock>;
  __shared__ typename Ahead::Storage pipeline;
  __shared__ typename AllGather::Storage messages;
  __shared__ ladder::SumStorage<Team> of_sum;
  Ahead ahead(pipeline, counters, x, rows, cols, ladder::dynamic_shared<T>(), stages);
  AllGather all_gather(messages);
  const int t = threadIdx.x;
  if (t == 0) {
    ahead.start();
    all_gather.init();
  }
  ladder::ptx::cluster_sync();
  for (auto row = ahead.wait(); row < static_cast<unsigned>(rows); row = ahead.wait()) {
    const T* const from = ahead.part_of(row);
    float held[kHeld], sum = 0;
    for (int k = 0; k < kHeld; ++k) {
      const int c = k * kBlock + t;
      held[k] = c < ahead.part.cols ? static_cast<float>(ahead.single(row, from, c)) : 0.0f;
      sum += held[k];
    }
    ahead.release();
    sum = ladder::team_sum<Team>(sum, of_sum);
    const Message of_rank = all_gather.gather({sum, ahead.scheduler.to_broadcast()});
    sum = ladder::warp_sum<kBlocks>(of_rank.sum);
    ahead.scheduler.receive(of_rank.next_row);
    for (int k = 0; k < kHeld; ++k) {
      const int c = k * kBlock + t;
      if (c < ahead.part.cols) y[row * cols + ahead.part.first + c] = held[k] + sum;
    }
  }
  ahead.scheduler.leave();
}

template <class T, int kBlocks>
void check(int rows, int cols, int clusters, int rows_ahead) {
  RowStages stages = ladder::row_stages<T>(cols, kBlocks, 0);
  stages.count = rows_ahead;
  const auto in = random_integers<T>(static_cast<std::size_t>(rows) * cols, 8);  // sums are exact
  Array<T> x(in);
  Array<float> y(in.size());
  Array<ladder::RowCounters> counters(1);
  ladder::launch(add_row_sums<T, kBlocks>, clusters * kBlocks, kBlock, RowStages::kBytes, nullptr,
                 x, y, rows, cols, stages, counters);
  ASSERT_EQ(counters.read()[0].drawn, 0u);
  ASSERT_EQ(counters.read()[0].left, 0u);
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
    for (const int rows_ahead : {1, 2, RowStages::kMost}) {
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
