// Statistics over timing samples.
#pragma once

#include <span>

namespace ladder {

/// A value with a 95 % confidence interval.
struct Estimate {
  double value, low, high;
};

/// The q-quantile (0 <= q <= 1) by linear interpolation; NaN of no samples.
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

/// Sample standard deviation over the mean; 0 of fewer than two samples.
double relative_stdev(std::span<const double> samples);

/// Standard error of the mean over the mean; infinite of fewer than two samples.
double relative_standard_error(std::span<const double> samples);

/// The median with its distribution-free interval from order statistics (the binomial distribution
/// of how many samples fall below the true median). With fewer than six samples no such interval
/// reaches 95 %; then it spans all samples.
Estimate median_interval(std::span<const double> samples);

/// The median of numerator[i] / denominator[i] over the indices both have.
Estimate median_ratio(std::span<const double> numerator, std::span<const double> denominator);

}  // namespace ladder
