#include "result_file.hpp"

#include "options.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ladder {
namespace {

bool write_all(int file, const char* bytes, std::size_t n) {
  while (n > 0) {
    const ssize_t written = write(file, bytes, n);
    if (written < 0 && errno != EINTR) return false;
    bytes += std::max<ssize_t>(written, 0);
    n -= static_cast<std::size_t>(std::max<ssize_t>(written, 0));
  }
  return true;
}

}  // namespace

ResultFile::ResultFile(const char* flag, const std::string& path) : path_(path) {
  auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{}={}: {}; choose another path.", flag, path, why));
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("this is a folder");
  if (std::filesystem::is_regular_file(path, error)) {  // a device stays where it is
    std::filesystem::rename(path, path + ".bak", error);
    if (error) refuse(error.message());
  }
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) refuse(std::strerror(errno));
}

ResultFile::~ResultFile() { close(file_); }

void ResultFile::append(const std::string& record, std::size_t over) {
  const std::size_t at = size_ - over;
  auto replace_end = [&](std::size_t keep, const std::string& text) {
    if (over > 0) lseek(file_, static_cast<off_t>(keep), SEEK_SET);
    return write_all(file_, text.data(), text.size());
  };
  if (!replace_end(at, record)) {
    const int why = errno;
    // Back to the last whole record. A device or a pipe cannot go back.
    if (ftruncate(file_, static_cast<off_t>(at)) == 0 && over > 0) {
      replace_end(at, last_.substr(last_.size() - over));
    }
    throw std::runtime_error(fmt::format("{} cannot be written: {}", path_, std::strerror(why)));
  }
  size_ = at + record.size();
  last_ = record;
}

}  // namespace ladder
