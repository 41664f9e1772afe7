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
double mean(std::span<const double> samples);  ///< NaN of no samples

/// The 20 % trimmed mean: of the samples without the smallest and the largest fifth. A median jumps
/// where samples come in two heaps; NaN of no samples.
double middle_mean(std::span<const double> samples);

/// Sample standard deviation over the mean; 0 of fewer than two samples.
double relative_stdev(std::span<const double> samples);

/// The ratio numerator / denominator over the indices both have: the middle mean of the logarithms
/// of their pairs' ratios, with Tukey and McLaughlin's interval (Less Vulnerable
/// Confidence and Significance Procedures for Location Based on a Single Sample, 1963): Student's t
/// over the winsorised deviation. NaN of no pairs; of a single one the interval is all numbers.
Estimate paired_ratio(std::span<const double> numerator, std::span<const double> denominator);

/// Student's t: the quantile for a two-sided 95 % interval.
double student_t95(int degrees_of_freedom);

}  // namespace ladder
