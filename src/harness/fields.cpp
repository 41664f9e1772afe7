#include "harness/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace ladder {
namespace {

bool skip(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

/// Reads a number that the text begins with.
template <class T>
std::optional<T> number(std::string_view& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool may_be(const Field& field, std::int64_t value) {
  const bool is_chosen =
      field.choices.empty() || std::ranges::find(field.choices, value) != field.choices.end();
  return is_chosen && value >= field.least && value <= field.most && value % field.multiple == 0;
}

bool take_value(const Field& field, std::string_view& text, void* problem) {
  switch (field.kind) {
    case Field::Kind::whole: {
      const auto value = number<std::int64_t>(text);
      if (!value || !may_be(field, *value)) return false;
      field.set(problem, static_cast<double>(*value));
      return true;
    }
    case Field::Kind::real: {
      const auto value = number<float>(text);
      if (!value || !std::isnormal(*value) || *value < 0) return false;
      field.set(problem, static_cast<double>(*value));
      return true;
    }
    case Field::Kind::flag:
      field.set(problem, 1);
      return true;
    case Field::Kind::word: {
      const std::string_view word = text.substr(0, text.find('@'));
      const auto at = std::ranges::find(field.words, word);
      if (at == field.words.end()) return false;
      text.remove_prefix(word.size());
      field.set(problem, static_cast<double>(at - field.words.begin()));
      return true;
    }
    case Field::Kind::file: {
      const std::string_view path = text.substr(0, text.find('@'));
      if (path.empty()) return false;
      field.load(problem, std::string(path));
      text.remove_prefix(path.size());
      return true;
    }
  }
  return false;
}

/// Reads the fields from one on. `last`: the one before it that is written.
bool parse_from(std::size_t at, const std::vector<Field>& fields, const Field* last,
                std::string_view text, void* problem) {
  const bool must_come = last && !last->behind.empty();
  if (at == fields.size()) return text.empty() && !must_come;
  const Field& field = fields[at];
  const std::string_view parting = must_come                   ? std::string_view(last->behind)
                                   : last || field.is_option() ? std::string_view(field.before)
                                                               : std::string_view();
  std::string_view rest = text;
  if (skip(rest, parting) && take_value(field, rest, problem) &&
      parse_from(at + 1, fields, &field, rest, problem)) {
    return true;
  }
  if (!field.has_usual || must_come) return false;
  field.set(problem, field.usual(problem));
  return parse_from(at + 1, fields, last, text, problem);
}

std::string value_text(const Field& field, const void* problem) {
  switch (field.kind) {
    case Field::Kind::flag:
      return "";
    case Field::Kind::word:
      return field.words[static_cast<std::size_t>(field.get(problem))];
    case Field::Kind::file:
      return field.file(problem).first;
    case Field::Kind::real: {
      std::array<char, 32> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                     static_cast<float>(field.get(problem)))
                           .ptr;
      return {digits.data(), end};
    }
    case Field::Kind::whole:
      break;
  }
  return fmt::format("{:.0f}", field.get(problem));
}

std::string number_text(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value < 4096 || !std::has_single_bit(bits)) return std::to_string(value);
  return fmt::format("2^{}", std::countr_zero(bits));
}

/// What a value may be, where its name doesn't tell.
std::string limits_text(const Field& field) {
  if (field.kind != Field::Kind::whole) return "";
  if (!field.choices.empty()) return fmt::format("{}", fmt::join(field.choices, " or "));
  std::string text = field.multiple > 1 ? fmt::format("a multiple of {} ", field.multiple) : "";
  if (field.least > 0) text += fmt::format("from {} ", field.least);
  return text + "up to " + number_text(field.most);
}

}  // namespace

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || !std::filesystem::is_regular_file(path)) {
    throw std::runtime_error(path + " can't be read: name a file that is there");
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

std::uint64_t hash_of(std::string_view bytes) {  // FNV-1a
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

bool parse_fields(const std::vector<Field>& fields, std::string_view text, void* problem) {
  return parse_from(0, fields, nullptr, text, problem);
}

std::vector<FieldText> field_texts(const std::vector<Field>& fields, const void* problem) {
  std::vector<FieldText> texts;
  const Field* last = nullptr;
  for (const Field& field : fields) {
    const bool must_come = last && !last->behind.empty();
    if (!must_come && field.has_usual && field.get(problem) == field.usual(problem)) continue;
    texts.push_back({must_come                   ? last->behind
                     : last || field.is_option() ? field.before
                                                 : "",
                     value_text(field, problem), field.is_drawn()});
    last = &field;
  }
  return texts;
}

std::string text_of(const std::vector<FieldText>& texts) {
  std::string text;
  for (const FieldText& one : texts) text += one.before + one.value;
  return text;
}

std::string values_text(const std::vector<Field>& fields, const void* problem) {
  std::vector<std::string> values;
  for (const Field& field : fields) {
    const std::string_view name = std::string_view(field.name).substr(field.name.starts_with('@'));
    const std::string value = field.kind == Field::Kind::flag
                                  ? fmt::format("{:.0f}", field.get(problem))
                                  : value_text(field, problem);
    values.push_back(fmt::format("{}={}", name, value));
  }
  return fmt::format("{}", fmt::join(values, " "));
}

std::string hashes_text(const std::vector<Field>& fields, const void* problem) {
  std::vector<std::string> hashes;
  for (const Field& field : fields) {
    if (field.file) hashes.push_back(fmt::format("{:016x}", field.file(problem).second));
  }
  return fmt::format("{}", fmt::join(hashes, " "));
}

std::string help_of(const std::vector<Field>& fields) {
  std::string text;
  std::vector<std::pair<std::string, std::vector<std::string>>> limits;  // and whose they are
  const auto name_of = [](const Field& field) {
    if (field.kind == Field::Kind::word) return fmt::format("{}", fmt::join(field.words, "|"));
    const bool has_value = field.is_option() && field.kind != Field::Kind::flag;
    return field.name + (has_value ? "N" : "");
  };
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t first = i;
    std::string whole = i > 0 && !fields[i].name.starts_with('@') ? fields[i].before : "";
    for (; !fields[i].behind.empty(); ++i) {
      const std::string one = name_of(fields[i]) + fields[i].behind;
      whole += fields[i].has_usual ? "[" + one + "]" : one;
    }
    whole += name_of(fields[i]);
    text += fields[i].has_usual ? "[" + whole + "]" : whole;
    for (std::size_t of = first; of <= i; ++of) {
      const std::string limit = limits_text(fields[of]);
      if (limit.empty()) continue;
      const auto known =
          std::ranges::find(limits, limit, [](const auto& one) { return one.first; });
      auto& names =
          known == limits.end() ? limits.emplace_back(limit, std::vector<std::string>{}) : *known;
      names.second.push_back(name_of(fields[of]));
    }
  }
  for (const auto& [of, names] : limits) {
    text += limits.size() == 1 && names.size() > 1 ? fmt::format(", each {}", of)
            : limits.size() == 1                   ? fmt::format(", {}", of)
                                 : fmt::format(", {} {}", fmt::join(names, ", "), of);
  }
  return text;
}

}  // namespace ladder
