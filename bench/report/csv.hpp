// The CSV: one row per kernel, problem and cache state, written as soon as it is measured.
#pragma once

#include "measure/row.hpp"
#include "report/result_file.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ladder {

/// The file that rows are appended to.
class Csv {
 public:
  /// Writes the names of the columns, and rows that are kept as they are. Throws std::runtime_error
  /// when they could not be written.
  Csv(ResultFile& file, const DeviceInfo& device, std::uint64_t seed,
      const std::vector<std::string>& kept = {});

  /// The first row puts the file in place. Throws std::runtime_error when it could not be written.
  void write(const Row& row);
  const std::string& path() const { return file_.path(); }
  bool placed() const { return file_.placed(); }
  bool is_file() const { return file_.is_file(); }

 private:
  ResultFile& file_;
  DeviceInfo device_;
  std::uint64_t seed_;
};

/// The columns of a row and their values, in order.
std::vector<std::pair<const char*, std::string>> csv_cells(const Row& row, const DeviceInfo& device,
                                                           std::uint64_t seed);

/// The names of the columns, in order.
const std::vector<std::string>& csv_columns();

/// A field as CSV (RFC 4180): quoted where it must be.
std::string csv_field(const std::string& text);

}  // namespace ladder
