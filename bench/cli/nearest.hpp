// What a user may have meant by a name that there is not.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace ladder {

/// The few parts of names, from slash to slash, that are most like a text, the nearest first, as
/// "; near it are …"; empty if none is. Of a regular expression only what stands for itself counts.
std::string near_to(const std::string& text, const std::set<std::string>& names);

/// The flag that is most like another, as "; near it is --gemm"; empty if none is. Of a flag all counts but dashes,
/// underscores and "benchmark".
std::string near_flag(const std::string& flag, const std::vector<std::string>& flags);

}  // namespace ladder
