#include "support/out_of_memory.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace ladder {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// The number behind `name` in a small file of the system's; kUnknown if there is none.
double number_in(const char* path, const char* name) {
  char text[8192];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return kUnknown;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return kUnknown;
  text[size] = '\0';
  const char* const found = std::strstr(text, name);
  if (!found) return kUnknown;
  char* end = nullptr;
  const double number = std::strtod(found + std::strlen(name), &end);
  return end == found + std::strlen(name) ? kUnknown : number;  // memory.max may be "max"
}

/// What is left of this process's address space (ulimit -v), reserved or in use.
double free_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  return static_cast<double>(limit.rlim_cur) -
         number_in("/proc/self/statm", "") * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// "12.3 GB"
struct Bytes {
  explicit Bytes(double bytes) {
    constexpr std::array units{"B", "kB", "MB", "GB"};
    std::size_t i = 0;
    for (; bytes >= 1000 && i + 1 < units.size(); ++i) bytes /= 1000;
    std::snprintf(text, sizeof text, "%.*f %s", i == 0 ? 0 : 1, bytes, units[i]);
  }
  char text[32];
};

}  // namespace

OutOfMemory::OutOfMemory(double needed, double free, const char* what) noexcept {
  std::snprintf(text_, sizeof text_, "out of memory: %s are needed%s%s, %s are free; %s",
                Bytes(needed).text, *what ? " for " : "", what, Bytes(free).text,
                free < free_address_space() ? "choose a smaller problem"
                                            : "raise the limit of address space (ulimit -v)");
}

std::size_t free_host_memory() noexcept {
  double free = std::min(number_in("/proc/meminfo", "MemAvailable:") * 1024, free_address_space());
  const double most = number_in("/sys/fs/cgroup/memory.max", "");
  if (most != kUnknown) {
    const double used = number_in("/sys/fs/cgroup/memory.current", "");
    const double cached = number_in("/sys/fs/cgroup/memory.stat", "\ninactive_file");
    free = std::min(free, most - used + (cached == kUnknown ? 0 : cached));
  }
  if (free == kUnknown) {
    free =
        static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return static_cast<std::size_t>(std::max(free, 0.0));
}

}  // namespace ladder
