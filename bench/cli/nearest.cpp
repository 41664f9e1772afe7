#include "cli/nearest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string_view>
#include <tuple>
#include <vector>

namespace ladder {
namespace {

/// How many letters must be added, removed or replaced to make one text of the other (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char letter : a) {
    std::size_t before = row[0]++;
    for (std::size_t i = 1; i < row.size(); ++i) {
      const std::size_t replaced = before + (letter != b[i - 1]);
      before = row[i];
      row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
    }
  }
  return row.back();
}

/// Adds "a", "a/b", "a/b/c", "b", … of "a/b/c".
void add_parts(std::set<std::string>& parts, const std::string& name) {
  std::vector<std::size_t> slashes{0};  // behind them
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '/') slashes.push_back(i + 1);
  }
  slashes.push_back(name.size() + 1);
  for (std::size_t first = 0; first + 1 < slashes.size(); ++first) {
    for (std::size_t last = first + 1; last < slashes.size(); ++last) {
      parts.insert(name.substr(slashes[first], slashes[last] - slashes[first] - 1));
    }
  }
}

}  // namespace

std::string near_to(const std::string& text, const std::set<std::string>& names) {
  constexpr std::size_t kMost = 4;
  std::string plain;
  for (const unsigned char c : text) {
    if (std::isalnum(c) || c == '_' || c == '/') plain += static_cast<char>(std::tolower(c));
  }
  std::set<std::string> parts;
  for (const std::string& name : names) add_parts(parts, name);
  std::vector<std::tuple<std::size_t, std::string>> near;
  for (const std::string& part : parts) {
    const std::size_t apart = distance(plain, part);
    if (2 * apart <= plain.size()) near.emplace_back(apart, part);
  }
  std::ranges::sort(near);
  std::vector<std::string> nearest;
  for (const auto& [apart, part] : near) {
    if (nearest.size() == kMost || apart > std::get<0>(near.front()) + 1) break;
    nearest.push_back(part);
  }
  if (nearest.empty()) return "";
  return fmt::format("; near it {} {}", nearest.size() == 1 ? "is" : "are",
                     fmt::join(nearest, ", "));
}

std::string near_flag(const std::string& flag, const std::vector<std::string>& flags) {
  const auto plain = [](const std::string& of) {
    std::string letters;
    for (const unsigned char c : of) {
      if (std::isalnum(c)) letters += static_cast<char>(std::tolower(c));
    }
    return letters.substr(letters.starts_with("benchmark") ? std::string_view("benchmark").size()
                                                           : 0);
  };
  const std::string wanted = plain(flag);
  std::tuple<std::size_t, std::string> nearest{wanted.size() / 2 + 1, ""};
  for (const std::string& one : flags)
    nearest = std::min(nearest, {distance(wanted, plain(one)), one});
  const std::string& name = std::get<1>(nearest);
  return name.empty() ? "" : "; near it is " + name;
}

}  // namespace ladder
