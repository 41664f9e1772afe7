// A source file with something said below its lines.
#pragma once

#include "cli/text.hpp"

#include <map>
#include <string>
#include <vector>

namespace ladder {

/// The lines of a file; none if it cannot be read.
std::vector<std::string> read_lines(const std::string& file);

/// The lines that have something `below` them, with their neighbours and the heads of their functions,
/// in `width` columns; the file's name first. Nothing if nothing is below any.
std::string listing(const std::string& file, const std::multimap<int, std::string>& below,
                    std::size_t width, const Paint& paint);

}  // namespace ladder
