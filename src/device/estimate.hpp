// What dispatchers estimate with that choose a kernel for each problem.
#pragma once

#include "device/types.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

namespace ladder {

/// About the largest of the times that pass at the same time; a little more where several are
/// nearly as long, as they hinder each other.
template <class... Times>
double at_the_same_time(Times... times) {
  const double sum = ((times * times * times * times) + ...);
  return std::sqrt(std::sqrt(sum));
}

/// What choose() says for the product, remembered by each thread: hundreds of estimates take
/// microseconds. `product` is all that the choice depends on.
template <class Choice, std::size_t kNumbers, class Choose>
Choice remembered_choice(const std::array<int, kNumbers>& product, Choose choose) {
  struct Known {
    std::array<int, kNumbers> product;
    std::optional<Choice> choice;
  };
  thread_local std::array<Known, 256> all{};
  unsigned hash = 0;
  for (const int number : product) hash = hash * 31 + static_cast<unsigned>(number);
  Known& known = all[hash % all.size()];
  if (!known.choice || known.product != product) known = {product, choose()};
  return *known.choice;
}

}  // namespace ladder
