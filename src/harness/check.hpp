// The check every kernel must pass before it is timed, and again after.
#pragma once

#include "device/kernel.hpp"
#include "host_executor/counts.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>

namespace ladder {

class Device;
class Workload;

/// How far a result may be from the exact one: relative * |expected| + scaled * magnitude + absolute,
/// where the magnitude of an element is the family's measure of what was summed up to it; absolute
/// is for results so small that their type has fewer digits for them.
struct Tolerance {
  double relative = 0;
  double scaled = 0;
  double absolute = 0;
};

/// The right answer in fp64 and the magnitudes, in device memory, to be written.
struct AnswerOnGpu {
  double *values, *magnitude;
};

/// What a comparison of n values found. A NaN is wrong unless a NaN was expected.
struct Comparison {
  std::size_t wrong = 0;    ///< elements outside their limit
  std::size_t worst = 0;    ///< the element with the largest error / limit
  double worst_ratio = -1;  ///< its error / limit
  double actual = 0, expected = 0, error = 0, limit = 0;  ///< of that element
};

/// The value of an element of any type; of 64-bit integers exact up to 2^53, as are the answers.
template <class T>
__host__ __device__ double widen(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<float>(value);
  }
}

/// The value of element i of an array.
template <class T>
__host__ __device__ double value_at(const T* array, std::size_t i) {
  if constexpr (Packed<T>) {
    return widen(array[i / 2][i % 2]);
  } else {
    return widen(array[i]);
  }
}

/// Adds element i to a comparison. Used by both backends.
__host__ __device__ inline void compare_element(Comparison& total, std::size_t i, double actual,
                                                double expected, double magnitude,
                                                Tolerance tolerance) {
  const bool same = actual == expected || (actual != actual && expected != expected);
  const double difference = fabs(actual - expected);
  const double error = same ? 0 : difference == difference ? difference : INFINITY;
  const double limit =
      tolerance.relative * fabs(expected) + tolerance.scaled * magnitude + tolerance.absolute;
  const double ratio = same ? 0 : limit > 0 ? error / limit : INFINITY;
  total.wrong += !(ratio <= 1);
  if (ratio > total.worst_ratio) {
    total.worst = i;
    total.worst_ratio = ratio;
    total.actual = actual;
    total.expected = expected;
    total.error = error;
    total.limit = limit;
  }
}

/// Adds the elements of another comparison.
__host__ __device__ inline void merge(Comparison& total, const Comparison& part) {
  const std::size_t wrong = total.wrong + part.wrong;
  if (part.worst_ratio > total.worst_ratio) total = part;
  total.wrong = wrong;
}

enum class Verdict { passed, incorrect, failed, unsupported };
const char* to_string(Verdict verdict);

struct CheckResult {
  Verdict verdict = Verdict::passed;
  std::string reason{};  ///< empty when passed
  /// |actual - expected| and its limit, of the element that came nearest to its limit, or furthest over
  double error = 0, tolerance = 0;
};

/// Compares what is in a workload's results with its answers, each element by its limit, or by the family's
/// own judgement.
CheckResult judge(Workload& workload);

/// Runs the kernel on the workload with poisoned output, and accepts the result only if every
/// element is within its limit, the inputs are unchanged and no canary was touched. It runs once, or
/// where an output's type has no NaN twice: any poison could be the right answer there, but not two. Where
/// the device can count what the first run does to memory, it is put into *counters.
CheckResult check(const Kernel& kernel, Workload& workload, Device& device,
                  std::optional<Counters>* counters = nullptr);

}  // namespace ladder
