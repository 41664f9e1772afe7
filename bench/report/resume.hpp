// --resume: what of an earlier, interrupted sweep need not be measured again.
#pragma once

#include "measure/suite.hpp"
#include "measure/worker.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ladder {

/// A line of a CSV.
struct Record {
  std::string text;  ///< as it stands there, with its newline
  std::vector<std::string> fields;
};

/// The records of a CSV (RFC 4180), without a byte order mark and empty lines, which spreadsheets leave. The last
/// one is dropped if it was cut off before its end.
std::vector<Record> parse_csv(std::string_view text);

/// The rows of an earlier sweep.
class EarlierRows {
 public:
  /// Throws UsageError when the file cannot be read, or has other columns than ours.
  explicit EarlierRows(const std::string& path);

  /// The seed of its inputs; none if there are no rows. Throws UsageError if there are several.
  std::optional<std::uint64_t> seed() const;

  /// Throws UsageError if a row is of another commit, build, device or toolkit, or of another number of
  /// processes.
  void expect_same(const Machine& machine, int processes) const;

  /// Whether each kernel of a group has a row of its code, and none with a verdict other than passed
  /// or unsupported.
  bool complete(const Group& group) const;

  /// Everything but the rows of these groups, as it stands in the file.
  std::vector<std::string> without(const std::vector<Group>& groups) const;

 private:
  /// What the rows of a group have in common: family, op, type, problem and cache.
  using Key = std::array<std::string, 6>;
  using LabelAndCode = std::pair<std::string, std::string>;
  using Fields = std::map<std::string, std::string>;  // by column
  struct EarlierRow {
    std::string text;
    Fields fields;
  };

  std::string read_file() const;
  static Fields fields_of(const Row& row, const DeviceInfo& device);
  static Key key_of(const Fields& fields);
  static Key key_of(const Group& group);
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  std::vector<EarlierRow> rows_;
  std::map<std::pair<Key, LabelAndCode>, bool> standing_;  ///< whether all do
};

}  // namespace ladder
