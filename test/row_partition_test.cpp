// How a cluster partitions rows that are in flight to shared memory.
#include "device/row_partition.hpp"

#include <gtest/gtest.h>

namespace ladder {
namespace {

constexpr int kBlocks[] = {1, 2, 4, 8};
constexpr int kLengths[] = {0,    1,    7,     16,    27,    33,     55,    1000,
                            4097, 8191, 32768, 50257, 50264, 131071, 131079};

template <class T>
class RowPartitions : public testing::Test {};
using Types = testing::Types<float, half>;
TYPED_TEST_SUITE(RowPartitions, Types);

TYPED_TEST(RowPartitions, CoverARow) {
  for (const int cols : kLengths) {
    for (const int blocks : kBlocks) {
      int end = 0;
      for (int rank = 0; rank < blocks; ++rank) {
        const RowPartition<TypeParam> part(cols, rank, blocks);
        EXPECT_EQ(part.first, end);
        EXPECT_EQ(part.first * sizeof(TypeParam) % 32, 0);
        end = part.first + part.cols;
      }
      EXPECT_EQ(end, cols);
    }
  }
}

TYPED_TEST(RowPartitions, KnowWhoseAColumnIs) {
  for (const int cols : kLengths) {
    for (const int blocks : kBlocks) {
      for (int c = 0; c < cols; c += 1 + cols / 1000) {
        const int rank = RowPartition<TypeParam>::rank_of(c, cols, blocks);
        const RowPartition<TypeParam> part(cols, rank, blocks);
        EXPECT_TRUE(part.first <= c && c < part.first + part.cols) << c << " of " << cols;
      }
    }
  }
}

TYPED_TEST(RowPartitions, AreAboutEqual) {
  constexpr int kSector = 32 / sizeof(TypeParam);
  for (const int cols : kLengths) {
    for (const int blocks : kBlocks) {
      const int most = RowPartition<TypeParam>::most(cols, blocks);
      int largest = 0;
      for (int rank = 0; rank < blocks; ++rank) {
        const RowPartition<TypeParam> part(cols, rank, blocks);
        EXPECT_GE(part.cols, most - (2 * kSector - 1));
        largest = std::max(largest, part.cols);
      }
      EXPECT_LE(largest, most);
      EXPECT_GT(largest, most - kSector);
    }
  }
}

TYPED_TEST(RowPartitions, WindowsHoldThemAndFitTheirStages) {
  constexpr int kVector = 16 / sizeof(TypeParam), kRows = 5;
  for (const int cols : kLengths) {
    for (const int blocks : kBlocks) {
      const int place = row_stages<TypeParam>(cols, blocks, 0).elements;
      EXPECT_EQ(place * sizeof(TypeParam) % 128, 0);
      const std::int64_t all = std::int64_t{kRows} * cols;
      for (int row = 0; row < kRows; ++row) {
        for (int rank = 0; rank < blocks; ++rank) {
          const RowPartition<TypeParam> part(cols, rank, blocks);
          const std::int64_t from = std::int64_t{row} * cols + part.first;
          const RowWindow<TypeParam> window(from, part.cols, all);
          const std::int64_t end = window.begin + window.elements;
          EXPECT_EQ(window.begin * sizeof(TypeParam) % 32, 0);
          EXPECT_EQ(end * sizeof(TypeParam) % 16, 0);
          EXPECT_LE(end, all / kVector * kVector);
          EXPECT_LE(window.begin, from);
          EXPECT_EQ(window.begin + RowWindow<TypeParam>::offset_of(from), from);
          EXPECT_LE(window.elements, place);
          const bool is_whole = end >= from + part.cols;
          EXPECT_TRUE(is_whole || end > all - kVector);  // but for the array's last bytes
        }
      }
    }
  }
}

// What a block of 512 threads holds: 8 vectors in each.
constexpr int kHeld = 512 * 8;

TEST(RowPlan, TakesTheSmallestClusterWithRoomForTwoRows) {
  EXPECT_EQ(plan_rows_ahead<float>(4096, kHeld, 0).blocks, 1);
  EXPECT_EQ(plan_rows_ahead<float>(16384, kHeld, 0).blocks, 1);
  EXPECT_EQ(plan_rows_ahead<float>(16385 + 8, kHeld, 0).blocks, 2);
  EXPECT_EQ(plan_rows_ahead<float>(50257, kHeld, 0).blocks, 4);
  EXPECT_EQ(plan_rows_ahead<float>(131072, kHeld, 0).blocks, 8);
  EXPECT_EQ(plan_rows_ahead<float>(131072, kHeld, 0).stages.count, 3);
  // Two parameters of 64 KiB leave room for one row of 64 KiB, of 32 KiB for more.
  EXPECT_EQ(plan_rows_ahead<float>(32768, kHeld, 2).blocks, 4);
  EXPECT_EQ(plan_rows_ahead<half>(131072, kHeld, 2).blocks, 8);
}

TEST(RowPlan, HasNoMoreRowsAheadThanAreOfUse) {  // of 32 KiB there is room for 7
  EXPECT_EQ(plan_rows_ahead<half>(16384, kHeld, 0).stages.count, RowStages::kMost);
}

TEST(RowPlan, MakesDoWithOneRow) {
  const RowPlan plan = plan_rows_ahead<float>(131072, kHeld, 2);
  EXPECT_EQ(plan.blocks, 8);
  EXPECT_EQ(plan.stages.count, 1);
}

TEST(RowPlan, RefusesWhatNoClusterHolds) {
  EXPECT_EQ(plan_rows_ahead<float>(131072 + 16, kHeld, 0).blocks, 0);
  EXPECT_EQ(plan_rows_ahead<half>(262144 + 16, kHeld, 0).blocks, 0);
  EXPECT_EQ(plan_rows_ahead<float>(1 << 30, kHeld, 2).blocks, 0);
}

}  // namespace
}  // namespace ladder
