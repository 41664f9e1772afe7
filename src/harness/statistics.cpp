#include "harness/statistics.hpp"

#include <algorithm>
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

double mean(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace

double quantile(std::span<const double> samples, double q) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> s = sorted(samples);
  const double at = q * static_cast<double>(s.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, s.size() - 1);
  return std::lerp(s[low], s[high], at - static_cast<double>(low));
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

double relative_stdev(std::span<const double> samples) {
  if (samples.size() < 2) return 0;
  const double m = mean(samples);
  double squares = 0;
  for (double x : samples) squares += (x - m) * (x - m);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1)) / m;
}

double relative_standard_error(std::span<const double> samples) {
  if (samples.size() < 2) return std::numeric_limits<double>::infinity();
  return relative_stdev(samples) / std::sqrt(static_cast<double>(samples.size()));
}

Estimate median_interval(std::span<const double> samples) {
  const double value = median(samples);
  if (samples.empty()) return {value, value, value};
  const std::vector<double> s = sorted(samples);
  const auto n = static_cast<int>(s.size());
  // The largest k with P(Binomial(n, 1/2) < k) <= 2.5 %: the median lies between the k-th sample
  // from below and the k-th from above with at least 95 % probability.
  int k = 0;
  double below = 0;
  for (double log_choose = 0; k < n / 2; ++k) {
    below += std::exp(log_choose - n * std::log(2.0));
    if (below > 0.025) break;
    log_choose += std::log(static_cast<double>(n - k) / (k + 1));
  }
  const auto rank = static_cast<std::size_t>(std::max(k, 1));
  return {value, s[rank - 1], s[s.size() - rank]};
}

Estimate median_ratio(std::span<const double> numerator, std::span<const double> denominator) {
  std::vector<double> ratios(std::min(numerator.size(), denominator.size()));
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = numerator[i] / denominator[i];
  return median_interval(ratios);
}

}  // namespace ladder
