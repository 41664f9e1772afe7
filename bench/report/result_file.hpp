// A file of results that holds whole records, whatever happens to the disk or the process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ladder {

/// A flag and the path that it names for writing.
struct Output {
  const char* flag;
  std::string path;
};

/// Throws UsageError when two flags name one file, by whatever path or link, or one of them, but by "-",
/// what stdout or stderr goes to. Devices may be named twice.
void expect_distinct(std::span<const Output> outputs);

/// What is appended goes to a file beside the one that was named, .NAME.part, until place() puts it
/// there. Devices, pipes and stdout are written as they are.
class ResultFile {
 public:
  /// Shows that the file can be written, and locks it: another process that wants to write it is
  /// refused until this one ends. Throws UsageError.
  explicit ResultFile(const Output& output);

  /// What was not placed is dropped.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Writes a record to the system, in place of the last `over` bytes. Throws std::runtime_error
  /// when that fails; then the file is as it was before.
  void append(const std::string& record, std::size_t over = 0);

  /// Puts the records at path(), at once and whole, the first time it is called. An earlier file is
  /// kept as PATH.N.bak, N the first number that is free. Throws std::runtime_error when that fails;
  /// then the earlier file is where it was.
  void place();

  /// Waits until what was appended is on the disk: some tell only then that it is full. Throws
  /// std::runtime_error when that fails.
  void sync();

  bool placed() const { return placed_; }
  /// Whether it can be read later, and so resumed.
  bool is_file() const { return !target_.empty(); }
  const std::string& path() const { return path_; }

 private:
  void drop();
  [[noreturn]] void fail(const char* what) const;

  std::string path_, target_, part_;  ///< as named; without links; beside it
  int file_ = -1;
  bool placed_ = false;
  std::string last_;  ///< the record written last
  std::size_t size_ = 0;
};

}  // namespace ladder
