// `best` in the place of a version's label: what best_version() takes for a problem.
#pragma once

#include "harness/device.hpp"

#include <string>
#include <string_view>

namespace ladder {

/// Whether a filter, a pattern or a name has the word: others are not held against names with it.
inline bool asks_for_best(std::string_view text) { return text.find("best") != text.npos; }

/// A kernel's or a benchmark's name with the word: "softmax/f32/best/8x100" of
/// "softmax/f32/v05_vec128/8x100".
inline std::string with_best(const Kernel& kernel, const std::string& name) {
  const std::string full = full_name(kernel);
  return full.substr(0, full.rfind('/')) + "/best" + name.substr(full.size());
}

}  // namespace ladder
