#include "harness/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace ladder {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> out(samples.begin(), samples.end());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

double mean(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double quantile(std::span<const double> samples, double q) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> s = sorted(samples);
  const double at = q * static_cast<double>(s.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, s.size() - 1);
  return std::lerp(s[low], s[high], at - static_cast<double>(low));
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

double middle_mean(std::span<const double> samples) {
  const std::vector<double> s = sorted(samples);
  const std::size_t cut = s.size() / 5;
  return mean(std::span(s).subspan(cut, s.size() - 2 * cut));
}

double relative_stdev(std::span<const double> samples) {
  if (samples.size() < 2) return 0;
  const double m = mean(samples);
  double squares = 0;
  for (double x : samples) squares += (x - m) * (x - m);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1)) / m;
}

double student_t95(int degrees_of_freedom) {
  // Exact up to six; then Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5).
  constexpr std::array exact{12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691};
  if (degrees_of_freedom < 1) return std::numeric_limits<double>::infinity();
  const auto index = static_cast<std::size_t>(degrees_of_freedom - 1);
  if (index < exact.size()) return exact[index];
  constexpr double x = 1.959964, x3 = x * x * x, x5 = x3 * x * x, x7 = x5 * x * x;
  const double n = degrees_of_freedom;
  return x + (x3 + x) / 4 / n + (5 * x5 + 16 * x3 + 3 * x) / 96 / (n * n) +
         (3 * x7 + 19 * x5 + 17 * x3 - 15 * x) / 384 / (n * n * n);
}

Estimate paired_ratio(std::span<const double> numerator, std::span<const double> denominator) {
  std::vector<double> logs(std::min(numerator.size(), denominator.size()));
  if (logs.empty()) return {median({}), median({}), median({})};
  for (std::size_t i = 0; i < logs.size(); ++i) logs[i] = std::log(numerator[i] / denominator[i]);
  const double value = middle_mean(logs);
  std::sort(logs.begin(), logs.end());
  const std::size_t n = logs.size(), cut = n / 5, kept = n - 2 * cut;
  std::fill_n(logs.begin(), cut, logs[cut]);
  std::fill_n(logs.rbegin(), cut, logs[n - 1 - cut]);
  const double centre = mean(logs);
  double squares = 0;
  for (double x : logs) squares += (x - centre) * (x - centre);
  const auto free = static_cast<double>(kept) - 1;
  if (free < 1) return {std::exp(value), 0, std::numeric_limits<double>::infinity()};
  const double within = student_t95(static_cast<int>(kept) - 1) *
                        std::sqrt(squares / free / static_cast<double>(kept));
  return {std::exp(value), std::exp(value - within), std::exp(value + within)};
}

Estimate ratio_of_processes(std::span<const Estimate> own) {
  if (own.size() == 1) return own.front();
  std::vector<double> logs;
  for (const Estimate& one : own) logs.push_back(std::log(one.value));
  const double centre = mean(logs);
  double squares = 0;
  for (double x : logs) squares += (x - centre) * (x - centre);
  const auto n = static_cast<double>(own.size());
  const double reach =
      student_t95(static_cast<int>(own.size()) - 1) * std::sqrt(squares / (n - 1) / n);
  return {std::exp(centre), std::exp(centre - reach), std::exp(centre + reach)};
}

}  // namespace ladder
