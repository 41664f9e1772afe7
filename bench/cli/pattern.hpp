// Regular expressions that choose benchmarks by their names.
#pragma once

#include <regex.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ladder {

/// A POSIX extended regular expression. Not std::regex, for which a typing error like .** can be
/// the work of hours.
class Pattern {
 public:
  /// Empty if the text is no regular expression. Throws std::runtime_error when memory lacks, or when there is
  /// too much in it for glibc, whose stack is as deep as parentheses are, and whose time grows with the cube of
  /// repetitions.
  static std::optional<Pattern> parse(const std::string& text) {
    const auto operators = std::ranges::count_if(
        text, [](char c) { return std::string_view("(*+?{").find(c) != std::string_view::npos; });
    if (operators > kMostOperators) {
      throw std::runtime_error(
          "a regular expression with more than 1000 parentheses and repetitions is not taken; "
          "write a shorter one");
    }
    auto compiled = std::make_unique<regex_t>();
    errno = 0;
    const int error = regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB);
    expect_memory(error);
    if (error != 0) return std::nullopt;
    Pattern pattern;
    pattern.compiled_ = {compiled.release(), [](regex_t* regex) {
                           regfree(regex);
                           delete regex;
                         }};
    return pattern;
  }

  /// Whether it matches some part of a name. Throws std::runtime_error when memory lacks.
  bool matches(const std::string& name) const {
    errno = 0;
    const int error = regexec(compiled_.get(), name.c_str(), 0, nullptr, 0);
    expect_memory(error);
    return error == 0;
  }

 private:
  static constexpr std::ptrdiff_t kMostOperators = 1000;

  Pattern() = default;
  /// To glibc no memory is no match.
  static void expect_memory(int error) {
    if (error != 0 && errno == ENOMEM) {
      throw std::runtime_error("out of memory for a regular expression");
    }
  }

  std::shared_ptr<regex_t> compiled_;
};

}  // namespace ladder
