#include "process/streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace ladder {

bool open_standard_streams() {
  const bool out_is_open = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest number that is free is this one.
    if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDWR) != file) _exit(1);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return out_is_open;
}

void expect_written(std::FILE* stream) {
  errno = 0;
  if (std::fflush(stream) == 0 && !std::ferror(stream)) return;
  throw std::runtime_error(fmt::format("{} cannot be written{}",
                                       stream == stderr ? "stderr" : "stdout",
                                       errno ? fmt::format(": {}", std::strerror(errno)) : ""));
}

std::string reason(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);  // fmt::print's
  if (!system || !std::ferror(stdout)) return error.what();
  return fmt::format("stdout cannot be written: {}", system->code().message());
}

void complain(const std::string& sentence) {
  std::string line;
  for (const char c : sentence) {  // what a user typed may hold anything
    const auto code = static_cast<unsigned char>(c);
    line += code < 0x20 || code == 0x7F ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  std::fputs(fmt::format("bench: {}\n", line).c_str(), stderr);
}

}  // namespace ladder
