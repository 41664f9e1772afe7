// A file of results that holds whole records, whatever happens to the disk or the process.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

class ResultFile {
 public:
  /// Opens the file that a flag names; an existing one is renamed to PATH.bak first. Throws
  /// UsageError when it cannot be written.
  ResultFile(const char* flag, const std::string& path);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Writes a record to the system, in place of the last `over` bytes. Throws std::runtime_error
  /// when that fails; then the file is as it was before.
  void append(const std::string& record, std::size_t over = 0);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
  std::string last_;  ///< the record written last
  std::size_t size_ = 0;
};

}  // namespace ladder
