#include "harness/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ladder {
namespace {

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<double> x{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median(x), 2.5);
  EXPECT_DOUBLE_EQ(quantile(x, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(x, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(x, 0.95), 3.85);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, DeviationIsRelative) {
  EXPECT_NEAR(relative_stdev(std::vector<double>{9, 10, 11, 10}), std::sqrt(2.0 / 3) / 10, 1e-12);
  EXPECT_EQ(relative_stdev(std::vector<double>{1}), 0);
}

TEST(Statistics, StudentsQuantiles) {  // of any table
  EXPECT_NEAR(student_t95(1), 12.706, 1e-3);
  EXPECT_NEAR(student_t95(6), 2.447, 1e-3);
  EXPECT_NEAR(student_t95(7), 2.3646, 1e-3);
  EXPECT_NEAR(student_t95(30), 2.042, 1e-3);
  EXPECT_NEAR(student_t95(1000), 1.962, 1e-3);
  EXPECT_TRUE(std::isinf(student_t95(0)));
}

TEST(Statistics, RatiosArePaired) {
  const std::vector<double> baseline{10, 20, 30}, kernel{5, 10, 15, 99};
  const Estimate e = paired_ratio(baseline, kernel);
  EXPECT_DOUBLE_EQ(e.value, 2);
  EXPECT_DOUBLE_EQ(e.low, 2);
  EXPECT_DOUBLE_EQ(e.high, 2);
  EXPECT_TRUE(std::isnan(paired_ratio({}, kernel).value));
  const Estimate one = paired_ratio(std::vector<double>{3}, kernel);
  EXPECT_NEAR(one.value, 0.6, 1e-12);
  EXPECT_EQ(one.low, 0);
  EXPECT_TRUE(std::isinf(one.high));
}

TEST(Statistics, AFifthOnEitherSideDoesNotMoveARatio) {
  std::vector<double> kernel(10, 1.0), baseline(10, 1.1);
  baseline[3] = 50;  // an interrupt
  baseline[7] = 0.01;
  EXPECT_NEAR(paired_ratio(baseline, kernel).value, 1.1, 1e-12);
  baseline[1] = baseline[2] = 50;
  EXPECT_GT(paired_ratio(baseline, kernel).value, 1.5) << "three of ten are no outliers any more";
}

// Two contestants of the same speed, under noise that they share and noise of their own, some of it
// far out, in steps of the clock: the interval holds 1 in 95 % of the groups.
TEST(Statistics, IntervalsOfRatiosHoldTheTruth) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  for (const int rounds : {12, 25, 100}) {
    int held = 0;
    constexpr int kTrials = 2000;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> a, b;
      for (int i = 0; i < rounds; ++i) {
        const double shared = 5 * (1 + 0.02 * normal(random));
        for (auto* us : {&a, &b}) {
          const double late = uniform(random) < 0.03 ? 1.5 : 1;
          us->push_back(0.016 * std::round(shared * late * (1 + 0.01 * normal(random)) / 0.016));
        }
      }
      const Estimate e = paired_ratio(a, b);
      held += e.low <= 1 && 1 <= e.high;
    }
    EXPECT_GE(held, 0.93 * kTrials) << rounds;
    EXPECT_LE(held, 0.97 * kTrials) << rounds;
  }
}

// Of a ratio of 1 each process has its own, shifted by what it decides anew, and what is left of the noise
// of its rounds: whichever is larger, the interval holds 1 in 95 % of the groups.
TEST(Statistics, IntervalsOfSeveralProcessesHoldTheTruth) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const double shift : {0.0, 0.005, 0.03}) {
    for (const int processes : {2, 3, 5}) {
      int held = 0;
      constexpr int kTrials = 2000, kRounds = 25;
      for (int trial = 0; trial < kTrials; ++trial) {
        std::vector<Estimate> own;
        for (int process = 0; process < processes; ++process) {
          const double longer = 1 + shift * normal(random);
          std::vector<double> a, b;
          for (int i = 0; i < kRounds; ++i) {
            a.push_back(5 * longer * (1 + 0.01 * normal(random)));
            b.push_back(5 * (1 + 0.01 * normal(random)));
          }
          own.push_back(paired_ratio(a, b));
        }
        const Estimate e = ratio_of_processes(own);
        held += e.low <= 1 && 1 <= e.high;
      }
      EXPECT_GE(held, 0.93 * kTrials) << processes << " processes, shift " << shift;
      EXPECT_LE(held, 0.97 * kTrials) << processes << " processes, shift " << shift;
    }
  }
}

TEST(Statistics, ProcessesCountAlike) {
  const Estimate one{1.1, 1.05, 1.2};
  const Estimate same = ratio_of_processes(std::vector{one});
  EXPECT_EQ(same.value, one.value);
  EXPECT_EQ(same.low, one.low);
  EXPECT_EQ(same.high, one.high);
  const Estimate e = ratio_of_processes(std::vector<Estimate>{{1, 0, 9}, {1.21, 1.2, 1.22}});
  EXPECT_NEAR(e.value, 1.1, 1e-9);
  EXPECT_NEAR(std::log(e.high / e.value), 12.7062 * std::log(1.1), 1e-3);
  EXPECT_NEAR(e.low * e.high, 1.21, 1e-9);
  EXPECT_TRUE(std::isnan(ratio_of_processes({}).value));
}

}  // namespace
}  // namespace ladder
