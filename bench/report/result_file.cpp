#include "report/result_file.hpp"

#include "cli/options.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace ladder {
namespace {

/// Where a path leads, which may be to a file that does not exist yet.
std::filesystem::path target_of(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as the system has it
  std::error_code error;
  for (int link = 0; link < kMostLinks && std::filesystem::is_symlink(path, error); ++link) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path;
}

std::filesystem::path part_of(const std::filesystem::path& target) {
  return target.parent_path() / fmt::format(".{}.part", target.filename().string());
}

/// A file by its device and number; one that does not exist yet by its folder's and its name.
using Identity = std::tuple<dev_t, ino_t, std::string>;

std::optional<Identity> identity_of(const struct stat& status) {
  if (S_ISCHR(status.st_mode)) return {};
  return Identity{status.st_dev, status.st_ino, ""};
}

std::optional<Identity> identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return identity_of(status);
  const std::filesystem::path target = target_of(path), folder = target.parent_path();
  if (stat(folder.empty() ? "." : folder.c_str(), &status) != 0) return {};
  return Identity{status.st_dev, status.st_ino, target.filename().string()};
}

/// Whether it is written as it is: a device or a pipe.
bool is_stream(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

/// Of the whole file, for writing. The system drops it with its process and gives it to no fork.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// "process 1234", if another one has locked the file.
std::optional<std::string> holder_of(int file) {
  struct flock lock = whole_file();
  if (fcntl(file, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return {};
  return lock.l_pid > 0 ? fmt::format("process {}", lock.l_pid) : "another machine's process";
}

bool is_at(int file, const std::string& path) {
  struct stat ours {
  }, there{};
  return fstat(file, &ours) == 0 && stat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/// Writes at a place in the file; without one, for devices and pipes, where they are.
bool write_all(int file, std::string_view bytes, std::optional<std::size_t> at) {
  while (!bytes.empty()) {
    const ssize_t written = at ? pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(*at))
                               : write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    const auto n = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    bytes.remove_prefix(n);
    if (at) *at += n;
  }
  return true;
}

/// The files that were not placed yet: a library may end the program.
std::set<std::string>& parts() {
  static std::set<std::string> all;
  return all;
}

void drop_parts() {
  for (const std::string& part : parts()) unlink(part.c_str());
}

}  // namespace

void expect_distinct(std::span<const Output> outputs) {
  std::map<Identity, std::string> owners;
  for (const auto& [file, name] : {std::pair{STDOUT_FILENO, "stdout"}, {STDERR_FILENO, "stderr"}}) {
    struct stat status {};
    if (fstat(file, &status) != 0) continue;
    if (const auto identity = identity_of(status)) owners.emplace(*identity, name);
  }
  for (const Output& output : outputs) {
    if (output.path == kStdout) continue;
    const std::string named = fmt::format("{}={}", output.flag, output.path);
    std::vector<std::filesystem::path> paths{output.path};
    if (!is_stream(output.path)) paths.push_back(part_of(target_of(output.path)));
    for (const auto& path : paths) {
      const auto identity = identity_of(path);
      if (!identity) continue;
      const auto [owner, is_new] = owners.emplace(*identity, named);
      if (is_new) continue;
      throw UsageError(
          fmt::format("{}: {} goes to this file; choose another path.", named, owner->second));
    }
  }
}

ResultFile::ResultFile(const Output& output) : path_(output.path) {
  bool locked = false;
  auto refuse = [&](const std::string& why, const char* way_out = "choose another path") {
    if (locked) drop();
    if (file_ >= 0) close(file_);
    throw UsageError(fmt::format("{}={}: {}; {}.", output.flag, path_, why, way_out));
  };
  auto refuse_if_held = [&](int file) {
    if (const auto holder = holder_of(file)) {
      refuse(*holder + " is writing it", "wait for its end or choose another path");
    }
  };
  if (path_ == kStdout) {
    path_ = "stdout";
    file_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (file_ < 0) refuse(std::strerror(errno));
    placed_ = true;
    return;
  }
  std::error_code error;
  if (std::filesystem::is_directory(path_, error)) refuse("this is a folder");
  if (is_stream(path_)) {
    file_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) refuse(std::strerror(errno));
    placed_ = true;
    return;
  }

  target_ = target_of(path_);
  part_ = part_of(target_);
  std::set<std::string> ours{part_};  // now: once there is a file, nothing may lack to drop it
  while (!locked) {
    file_ = open(part_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ < 0) refuse(std::strerror(errno));
    struct flock lock = whole_file();
    const bool busy = fcntl(file_, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN);
    if (busy) refuse_if_held(file_);
    // Whoever had it may have ended or put it in place just now: then once more.
    locked = !busy && is_at(file_, part_);
    if (!locked) close(file_);
  }
  if (parts().empty()) std::atexit(&drop_parts);
  parts().merge(ours);
  if (ftruncate(file_, 0) != 0) refuse(std::strerror(errno));
  const int earlier = open(target_.c_str(), O_RDWR | O_CLOEXEC);
  if (earlier < 0 && errno != ENOENT) refuse(std::strerror(errno));
  if (earlier >= 0) {
    refuse_if_held(earlier);
    close(earlier);
  }
}

ResultFile::~ResultFile() {
  if (!placed_) drop();
  close(file_);
}

void ResultFile::drop() {
  unlink(part_.c_str());
  parts().erase(part_);
}

void ResultFile::append(const std::string& record, std::size_t over) {
  const std::size_t at = size_ - over;
  if (!write_all(file_, record, is_file() ? std::optional(at) : std::nullopt)) {
    const int why = errno;
    // Back to the last whole record.
    if (is_file() && ftruncate(file_, static_cast<off_t>(at)) == 0) {
      write_all(file_, std::string_view(last_).substr(last_.size() - over), at);
    }
    errno = why;
    fail("written");
  }
  size_ = at + record.size();
  last_ = record;
}

void ResultFile::fail(const char* what) const {
  throw std::runtime_error(fmt::format("{} cannot be {}: {}", path_, what, std::strerror(errno)));
}

void ResultFile::sync() {
  while (is_file() && fsync(file_) != 0) {
    if (errno != EINTR) fail("written");
  }
}

void ResultFile::place() {
  if (placed_) return;
  sync();
  std::string backup;
  for (int n = 1; backup.empty(); ++n) {
    const std::string name = fmt::format("{}.{}.bak", target_, n);
    if (link(target_.c_str(), name.c_str()) == 0) {
      backup = name;
    } else if (errno == ENOENT) {
      break;  // there is no earlier file
    } else if (errno != EEXIST) {
      fail("kept under another name");
    }
  }
  if (rename(part_.c_str(), target_.c_str()) != 0) {
    const int why = errno;
    if (!backup.empty()) unlink(backup.c_str());
    errno = why;
    fail("replaced");
  }
  parts().erase(part_);
  placed_ = true;
}

}  // namespace ladder
