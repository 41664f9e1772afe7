// Regular expressions that choose benchmarks by their names.
#pragma once

#include <regex.h>

#include <memory>
#include <optional>
#include <string>

namespace ladder {

/// A POSIX extended regular expression. Not std::regex, for which a typing error like .** can be
/// the work of hours.
class Pattern {
 public:
  /// Empty if the text is no regular expression.
  static std::optional<Pattern> parse(const std::string& text) {
    auto compiled = std::make_unique<regex_t>();
    if (regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return std::nullopt;
    Pattern pattern;
    pattern.compiled_ = {compiled.release(), [](regex_t* regex) {
                           regfree(regex);
                           delete regex;
                         }};
    return pattern;
  }

  /// Whether it matches some part of a name.
  bool matches(const std::string& name) const {
    return regexec(compiled_.get(), name.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  Pattern() = default;
  std::shared_ptr<regex_t> compiled_;
};

}  // namespace ladder
