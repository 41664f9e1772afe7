#include "explain/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace ladder {
namespace {

/// "gemm/v03_smem_tile.cu"
std::string short_path(const std::string& file) {
  const std::filesystem::path path(file);
  return (path.parent_path().filename() / path.filename()).string();
}

/// Which lines of a file are shown: those that have counts with one neighbour on each side, and the
/// heads of their functions. Gaps of up to three lines are closed.
std::set<int> shown_lines(const std::vector<std::string>& source, const std::set<int>& counted) {
  const int n = static_cast<int>(source.size());
  auto at = [&](int line) -> const std::string& {
    return source[static_cast<std::size_t>(line - 1)];
  };
  auto begins_function = [&](int line) {
    return at(line).find("__global__") != std::string::npos ||
           at(line).find("__device__") != std::string::npos;
  };
  std::set<int> shown;
  for (int line : counted) {
    for (int i = std::max(1, line - 1); i <= std::min(n, line + 1); ++i) shown.insert(i);
    int head = std::min(line, n);
    while (head > 0 && !begins_function(head)) --head;
    for (int i = head; i > 0 && i < line; ++i) {
      shown.insert(i);
      if (at(i).find('{') != std::string::npos) break;
    }
  }
  int last = shown.empty() ? 0 : *shown.begin();
  for (int line : std::set<int>(shown)) {
    if (line - last <= 4) {
      for (int i = last + 1; i < line; ++i) shown.insert(i);
    }
    last = line;
  }
  return shown;
}

}  // namespace

std::vector<std::string> read_lines(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string listing(const std::string& file, const std::multimap<int, std::string>& below,
                    std::size_t width, const Paint& paint) {
  if (below.empty()) return "";
  std::set<int> counted;
  for (const auto& [line, text] : below) counted.insert(line);
  const std::vector<std::string> source = read_lines(file);
  std::set<int> shown = shown_lines(source, counted);
  std::string text = "  " + short_path(file) + "\n";
  if (source.empty()) {
    text = fmt::format("  {} cannot be read; its lines by number:\n", file);
    shown = counted;
  }
  int last = 0;
  for (int line : shown) {
    if (!source.empty() && last > 0 && line > last + 1) text += paint.faint("     …") + "\n";
    last = line;
    const auto index = static_cast<std::size_t>(line - 1);
    text += fmt::format("{:>4} │", line);
    if (index < source.size() && !source[index].empty())
      text += " " + cut(source[index], width - 7);
    text += "\n";
    const auto [begin, end] = below.equal_range(line);
    for (auto it = begin; it != end; ++it) text += it->second;
  }
  return text;
}

}  // namespace ladder
