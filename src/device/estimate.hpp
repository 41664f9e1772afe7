// What dispatchers estimate with that choose a kernel for each problem.
#pragma once

#include "device/types.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ladder {

/// About the largest of the times that pass at the same time; a little more where several are
/// nearly as long, as they hinder each other.
template <class... Times>
double at_the_same_time(Times... times) {
  const double sum = ((times * times * times * times) + ...);
  return std::sqrt(std::sqrt(sum));
}

/// At most `most` of the choices, those whose estimates, ns, are the least, in their order.
template <class Choice>
std::vector<Choice> fastest(std::vector<Choice> all, std::size_t most) {
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::partial_sort(all.begin(), end, all.end(),
                    [](const Choice& a, const Choice& b) { return a.ns < b.ns; });
  all.erase(end, all.end());
  return all;
}

}  // namespace ladder
