#include "cli/text.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace ladder {

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string spaces(std::size_t n) { return std::string(n, ' '); }

std::string left(const std::string& text, std::size_t width) {
  return text + spaces(width - std::min(width, width_of(text)));
}

std::string right(const std::string& text, std::size_t width) {
  return spaces(width - std::min(width, width_of(text))) + text;
}

std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (width_of(line) + 1 + width_of(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

bool takes_escapes(std::FILE* file) {
  const char* const kind = std::getenv("TERM");
  return isatty(fileno(file)) && (!kind || std::string_view(kind) != "dumb");
}

std::optional<std::size_t> columns_of(std::FILE* file) {
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

bool wants_colors(std::FILE* file) {
  const char* const refused = std::getenv("NO_COLOR");
  return takes_escapes(file) && (!refused || *refused == '\0');
}

std::string Paint::with(const char* code, const std::string& text) const {
  return on_ ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts{""};
  bool in_brackets = false;
  for (const char c : text) {
    in_brackets = c == '[' || (in_brackets && c != ']');
    if (c == ',' && !in_brackets) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string count(std::uint64_t n) {
  if (n < 10'000) return fmt::format("{}", n);
  constexpr std::array suffixes{"", "k", "M", "G", "T"};
  auto value = static_cast<double>(n);
  std::size_t i = 0;
  for (; value >= 999.5 && i + 1 < suffixes.size(); ++i) value /= 1000;
  return fmt::format("{:.{}f}{}", value, value < 9.95 ? 1 : 0, suffixes[i]);
}

std::string quotient(double value) {
  std::string text = fmt::format("{:.{}f}", value, value < 9.95 ? 1 : 0);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string valid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i), second = byte(i + 1);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
    bool valid = size > 0;
    for (std::size_t n = 1; n < size; ++n) valid = valid && (byte(i + n) & 0xC0) == 0x80;
    // Of a character that needs fewer bytes, a surrogate, or above U+10FFFF
    valid = valid && !(first == 0xE0 && second < 0xA0) && !(first == 0xED && second > 0x9F) &&
            !(first == 0xF0 && second < 0x90) && !(first == 0xF4 && second > 0x8F);
    out += valid ? text.substr(i, size) : "\uFFFD";
    i += valid ? size : 1;
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string cut(const std::string& line, std::size_t width) {
  if (width_of(line) <= width) return line;
  std::string text;
  std::size_t at = 0;
  for (char c : line) {
    at += (c & 0xC0) != 0x80;
    if (at == width) break;
    text += c;
  }
  return text + "…";
}

}  // namespace ladder
