#include "host_executor/source.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "host_executor/module.hpp"

namespace ladder::host {
namespace {

using Lines = std::unordered_map<std::uintptr_t, SourceLine>;  // by return address

/// Better the kernel's own line than a header's, best of the kernels' headers, then any other than
/// what all kernels include.
int rank(const std::string& file) {
  if (file.ends_with(".cu")) return 4;
  if (file.find("/kernels/") != std::string::npos) return 3;
  if (file.empty() || file.front() == '?') return 0;
  const auto is_in = [&](const char* folder) { return file.find(folder) != std::string::npos; };
  return is_in("/src/device/") || is_in("/src/host_executor/") ? 1 : 2;
}

/// "file:line", and perhaps more behind a space.
SourceLine parse(std::string text) {
  text.resize(std::min(text.find(' '), text.size()));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1)};
}

/// A running addr2line. It goes on until this process ends, since it takes longer to read all debug
/// information than to find a line in it.
class Addr2line {
 public:
  explicit Addr2line(const std::string& program) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string words[] = {"addr2line", "--addresses", "--inlines", "--exe", program};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(),
                         words[3].data(), words[4].data(), nullptr};
    pid_t process = 0;
    const int error = posix_spawnp(&process, "addr2line", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) {
      socket_ = ends[0];
    } else {
      close(ends[0]);
    }
  }

  /// A line of text, sent or received; false, or none, where there is no addr2line.
  bool ask(const std::string& text) {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  std::optional<std::string> answer() {
    std::size_t end = 0;
    while ((end = received_.find('\n')) == std::string::npos) {
      char more[1 << 12];
      const ssize_t size = recv(socket_, more, sizeof more, 0);
      if (size <= 0) return std::nullopt;
      received_.append(more, static_cast<std::size_t>(size));
    }
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }

 private:
  int socket_ = -1;
  std::string received_;
};

/// This process' own: a forked one must not read the answers to another's questions.
Addr2line& addr2line(const Module& module) {
  static std::optional<Addr2line> running;
  static pid_t owner = 0;
  if (owner != getpid()) {
    running.emplace(module.path);
    owner = getpid();
  }
  return *running;
}

/// The best line of an address in the module's file. Ends with address 0, as an answer does not say
/// how many lines it has.
SourceLine look_up(Addr2line& lines, std::uintptr_t address) {
  char question[32];
  std::snprintf(question, sizeof question, "0x%zx\n0x0\n", std::size_t{address});
  SourceLine found;
  if (!lines.ask(question) || !lines.answer()) return found;  // the address itself
  for (auto line = lines.answer(); line; line = lines.answer()) {
    if (line->starts_with("0x")) {  // the 0
      lines.answer();
      return found;
    }
    SourceLine frame = parse(std::move(*line));
    if (rank(frame.file) > rank(found.file)) found = std::move(frame);
  }
  return found;
}

}  // namespace

std::vector<SourceLine> source_lines(std::span<const std::uintptr_t> return_addresses) {
  static const Module module = find_module();
  static Lines known;
  std::vector<SourceLine> lines;
  for (const std::uintptr_t address : return_addresses) {
    auto [at, fresh] = known.try_emplace(address);
    // The call itself, not what it returns to.
    if (fresh) at->second = look_up(addr2line(module), address - 1 - module.base);
    lines.push_back(at->second);
  }
  return lines;
}

std::string source_text(const void* return_address) {
  const auto address = reinterpret_cast<std::uintptr_t>(return_address);
  const SourceLine found = source_lines({&address, 1}).front();
  if (found.file.empty()) return "an unknown line";
  return found.file.substr(found.file.rfind('/') + 1) + ":" + std::to_string(found.line);
}

}  // namespace ladder::host
