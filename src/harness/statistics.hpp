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

/// A ratio of which each of several processes has an estimate: the mean of the logarithms with Student's t
/// interval over them. How far they are apart is of the spread between processes and of what each does
/// not know, so that it holds the truth in 95 % of cases whichever is larger (Kalibera and Jones, Rigorous
/// Benchmarking in Reasonable Time, 2013, with processes as the highest level; in meta-analysis Hartung
/// and Knapp, 2001). Of a single process its own; NaN of none.
Estimate ratio_of_processes(std::span<const Estimate> own);

/// Student's t: the quantile for a two-sided 95 % interval.
double student_t95(int degrees_of_freedom);

}  // namespace ladder
