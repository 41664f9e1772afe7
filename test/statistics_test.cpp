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

TEST(Statistics, StandardErrors) {
  const std::vector<double> x{9, 10, 11, 10};
  EXPECT_NEAR(relative_stdev(x), std::sqrt(2.0 / 3) / 10, 1e-12);
  EXPECT_NEAR(relative_standard_error(x), std::sqrt(2.0 / 3) / 20, 1e-12);
  EXPECT_TRUE(std::isinf(relative_standard_error(std::vector<double>{1})));
}

TEST(Statistics, MedianIntervalUsesTheRightRanks) {
  // For n = 10, P(Binomial(10, 1/2) <= 1) = 1.07 %, <= 2: 5.5 %: the 2nd and the 9th of ten.
  std::vector<double> x;
  for (int i = 1; i <= 10; ++i) x.push_back(i);
  EXPECT_DOUBLE_EQ(median_interval(x).low, 2);
  EXPECT_DOUBLE_EQ(median_interval(x).high, 9);
  EXPECT_DOUBLE_EQ(median_interval(x).value, 5.5);
}

TEST(Statistics, MedianIntervalCoversTheMedian) {
  std::mt19937 random(1);
  std::exponential_distribution<double> skewed(1);
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> x(25);
    for (double& v : x) v = skewed(random);
    const Estimate e = median_interval(x);
    covered += e.low <= std::log(2.0) && std::log(2.0) <= e.high;
  }
  EXPECT_GE(covered, 0.94 * kTrials);
  EXPECT_LE(covered, 0.99 * kTrials);
}

TEST(Statistics, RatiosArePaired) {
  const std::vector<double> baseline{10, 20, 30}, kernel{5, 10, 15, 99};
  EXPECT_DOUBLE_EQ(median_ratio(baseline, kernel).value, 2);
  EXPECT_DOUBLE_EQ(median_ratio(baseline, kernel).low, 2);
  EXPECT_DOUBLE_EQ(median_ratio(baseline, kernel).high, 2);
}

}  // namespace
}  // namespace ladder
