#include "harness/roof.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace ladder {
namespace {

constexpr std::string_view kRoofs[] = {
    "dram",   "l2",           "shared",     "shared atomics", "gather",
    "link",   "latency dram", "latency l2", "latency l1",     "latency shared",
    "launch", "h2d",          "d2h",        "overlap"};

}  // namespace

Roof::Roof(const char* name) : name_(name) {
  if (std::ranges::find(kRoofs, name_) != std::end(kRoofs)) return;
  if (is_arithmetic() && parse_dtype(name_.substr(name_.find(' ') + 1))) return;
  throw std::invalid_argument(
      fmt::format("no roof is called \"{}\": there are {}, and fma and tensor of a type", name_,
                  fmt::join(kRoofs, ", ")));
}

Roof::Roof(const char* unit, DType dtype)
    : Roof(fmt::format("{} {}", unit, to_string(dtype)).c_str()) {}

double Measurement::amount(const Cost& cost) const {
  return unit == std::string_view("B") ? cost.bytes() : cost.flops;
}

}  // namespace ladder
