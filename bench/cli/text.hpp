// Text in columns and colours, as the console shows it, and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

/// How many columns a text takes: its code points, as all of ours are one column wide.
std::size_t width_of(std::string_view text);

std::string spaces(std::size_t n);

/// A text at the left or at the right of a cell that is `width` columns wide.
std::string left(const std::string& text, std::size_t width);
std::string right(const std::string& text, std::size_t width);

/// A text in lines of at most `width` columns; a longer word has a line of its own.
std::vector<std::string> wrap(const std::string& text, std::size_t width);

/// The beginning of a line that is longer than `width` columns, with an ellipsis.
std::string cut(const std::string& line, std::size_t width);

/// Whether a file is a terminal that understands escape sequences.
bool takes_escapes(std::FILE* file);

/// How many columns a terminal has; none of what is no terminal, or doesn't know.
std::optional<std::size_t> columns_of(std::FILE* file);

/// The parts of a list: what is between its commas, but for commas in brackets.
std::vector<std::string> split(std::string_view text);

/// 512, 16k, 4.2M.
std::string count(std::uint64_t n);

/// 1.5, 4, 32: a decimal where it is not 0 and the number is small.
std::string quotient(double value);

/// A text with U+FFFD in the place of every byte that is no UTF-8.
std::string valid_utf8(std::string_view text);

/// A text as JSON, in its quotes.
std::string json_string(std::string_view text);

/// Whether a file is a terminal whose user has not asked for NO_COLOR (no-color.org).
bool wants_colors(std::FILE* file);

/// Colours, or none.
class Paint {
 public:
  explicit Paint(bool on) : on_(on) {}
  std::string bad(const std::string& text) const { return with("1;31", text); }
  std::string good(const std::string& text) const { return with("32", text); }
  std::string faint(const std::string& text) const { return with("2", text); }
  std::string bold(const std::string& text) const { return with("1", text); }

 private:
  std::string with(const char* code, const std::string& text) const;
  bool on_;
};

}  // namespace ladder
