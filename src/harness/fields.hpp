// What makes a problem: the fields of a family's Problem, their text and what they may be. Parsing, --help,
// random problems and the columns of the CSV follow from them.
//
//   static std::vector<Field> fields() {
//     return {size<&Problem::rows>("ROWS"), size<&Problem::cols>("COLS"), flag<&Problem::upper>("@upper")};
//   }
//
// is written 8192x4096 or 8192x4096@upper. A text has the fields in their order, each behind what parts it
// from the one before; a field with a usual value is left out where it has that.
#pragma once

#include "support/data_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ladder {

struct Field {
  enum class Kind { whole, real, flag, word, file };

  Kind kind;
  std::string name;    ///< "ROWS"; of an option what its text begins with: "@page"
  std::string before;  ///< what parts it from the field before
  /// Takes the place of the next field's `before`; the next field is then written whatever it has.
  std::string behind{};
  std::int64_t least = 0, most = 0, multiple = 1;
  std::vector<std::int64_t> choices{};  ///< the only values, where there are some
  std::vector<std::string> words{};     ///< of an enumeration's values, in their order
  bool has_usual = false;
  /// Of a problem: the value, of a word its place; and the usual one.
  std::function<double(const void*)> get{}, usual{};
  std::function<void(void*, double)> set{};
  /// Of a file: reads it; its name and hash.
  std::function<void(void*, const std::string& path)> load{};
  std::function<std::pair<std::string, std::uint64_t>(const void*)> file{};

  Field from(std::int64_t value) && { return least = value, std::move(*this); }
  Field to(std::int64_t value) && { return most = value, std::move(*this); }
  Field multiple_of(std::int64_t value) && { return multiple = value, std::move(*this); }
  Field among(std::initializer_list<std::int64_t> values) && {
    return choices = values, std::move(*this);
  }
  Field behind_it(std::string text) && { return behind = std::move(text), std::move(*this); }
  Field after(std::string text) && { return before = std::move(text), std::move(*this); }
  /// Not written where it has this value, or that of a field before it.
  Field unless(double value) && {
    has_usual = true;
    usual = [value](const void*) { return value; };
    return std::move(*this);
  }
  template <auto kMember>
  Field unless() &&;

  bool is_option() const { return before.starts_with('@'); }
  /// Whether random problems have other values of it.
  bool is_drawn() const { return kind == Kind::whole && choices.empty(); }
};

/// What a problem's text says of a field.
struct FieldText {
  std::string before, value;
  bool is_drawn;
};

template <auto kMember>
struct MemberOf;
template <class Owner, class T, T Owner::*kMember>
struct MemberOf<kMember> {
  using Value = T;
  static T& of(void* problem) { return static_cast<Owner*>(problem)->*kMember; }
  static const T& of(const void* problem) { return static_cast<const Owner*>(problem)->*kMember; }
};

template <auto kMember>
Field field_of(Field::Kind kind, std::string name) {
  using Member = MemberOf<kMember>;
  Field field{.kind = kind, .name = std::move(name), .before = "x"};
  if (field.name.starts_with('@')) field.before = field.name;
  if constexpr (std::is_convertible_v<typename Member::Value, double> ||
                std::is_enum_v<typename Member::Value>) {
    field.get = [](const void* problem) { return static_cast<double>(Member::of(problem)); };
    field.set = [](void* problem, double value) {
      Member::of(problem) = static_cast<typename Member::Value>(value);
    };
  }
  return field;
}

/// A whole number: of an int up to 2^30, so that kernels may count beyond it in an int; else up to 2^40.
template <auto kMember>
Field size(std::string name) {
  const bool is_int = sizeof(typename MemberOf<kMember>::Value) == sizeof(int);
  return field_of<kMember>(Field::Kind::whole, std::move(name))
      .to(std::int64_t{1} << (is_int ? 30 : 40));
}
/// A positive float, "@eps".
template <auto kMember>
Field real(std::string name) {
  return field_of<kMember>(Field::Kind::real, std::move(name));
}
/// A bool, which is usually false.
template <auto kMember>
Field flag(std::string name) {
  return field_of<kMember>(Field::Kind::flag, std::move(name)).unless(0);
}
/// An enumeration by the words of its values, from 0 on, of which the first is usual. The bench problems
/// that a family lists are timed with each of them.
template <auto kMember>
Field word(std::string name, std::vector<std::string> words) {
  Field field = field_of<kMember>(Field::Kind::word, std::move(name)).after("@").unless(0);
  field.words = std::move(words);
  return field;
}

/// The bytes of a file. Throws std::runtime_error with what is wrong.
std::string bytes_of_file(const std::string& path);
std::uint64_t hash_of(std::string_view bytes);

/// A DataFile<Data>, which read(bytes) makes; it throws std::runtime_error with what is wrong. A path with a
/// folder is read when it is first named; its name alone then stands for it. `built_in`: files' bytes by
/// their names, which no path need name.
template <auto kMember, class Read>
Field file(std::string name, Read read, const std::map<std::string, std::string>& built_in = {}) {
  using Member = MemberOf<kMember>;
  Field field = field_of<kMember>(Field::Kind::file, std::move(name));
  field.load = [read, built_in](void* problem, const std::string& path) {
    static std::map<std::string, std::pair<std::string, typename Member::Value>> known;  // by name
    const std::string own = std::filesystem::path(path).filename().string();
    auto at = known.find(own);
    if (at == known.end()) {
      const auto here = built_in.find(path);
      const std::string bytes = here != built_in.end() ? here->second : bytes_of_file(path);
      typename Member::Value made{own, hash_of(bytes)};
      try {
        made.data = std::make_shared<const decltype(read(bytes))>(read(bytes));
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(path + ": " + error.what());
      }
      at = known.emplace(own, std::pair(path, std::move(made))).first;
    } else if (path != own && path != at->second.first) {
      throw std::runtime_error(path + " has the name of " + at->second.first +
                               ": rename one of them");
    }
    Member::of(problem) = at->second.second;
  };
  field.file = [](const void* problem) {
    return std::pair(Member::of(problem).name, Member::of(problem).hash);
  };
  return field;
}

template <auto kMember>
Field Field::unless() && {
  has_usual = true;
  usual = [](const void* problem) { return static_cast<double>(MemberOf<kMember>::of(problem)); };
  return std::move(*this);
}

/// Sets the fields of a problem from its text; whether it is one. Throws std::runtime_error where a file
/// can't be read.
bool parse_fields(const std::vector<Field>& fields, std::string_view text, void* problem);

/// Of a text that the family has written. Throws std::logic_error where it is none.
template <class Problem>
Problem parsed(const std::vector<Field>& fields, std::string_view text) {
  Problem problem{};
  if (parse_fields(fields, text, &problem)) return problem;
  throw std::logic_error(std::string(text) + " is no problem");
}

/// What a problem's text is made of: the fields that are written.
std::vector<FieldText> field_texts(const std::vector<Field>& fields, const void* problem);
std::string text_of(const std::vector<FieldText>& texts);

/// All values by their names: "ROWS=8192 COLS=4096"; and the hashes of files.
std::string values_text(const std::vector<Field>& fields, const void* problem);
std::string hashes_text(const std::vector<Field>& fields, const void* problem);

/// "ROWSxCOLS[@upper], each up to 2^30": what a problem's text looks like.
std::string help_of(const std::vector<Field>& fields);

}  // namespace ladder
