// What two runs of a kernel on the same inputs must have in common.
#pragma once

#include "harness/family.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ladder {

/// Checksums of the arrays that the kernel has written, of each the elements that are valid; but for one
/// that it adds up in any order.
inline std::vector<std::uint64_t> result_bits(const Kernel& kernel, Workload& workload) {
  std::vector<std::uint64_t> all;
  for (const Workload::Result& result : workload.results()) {
    if (kernel.version.unordered_sum == std::string_view(result.array.name)) continue;
    const auto valid = static_cast<std::size_t>(
        std::clamp(valid_elements(result), 0.0, static_cast<double>(result.array.size)));
    const Buffer& written = *result.written;
    all.push_back(written.device().checksum(written.data(), bytes_of(result.array.dtype, valid)));
  }
  return all;
}

}  // namespace ladder
