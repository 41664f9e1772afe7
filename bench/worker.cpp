#include "worker.hpp"

#include "signals.hpp"
#include "wire.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace ladder {
namespace {

enum class Kind : char {
  machine,  ///< the device is open
  refusal,  ///< it could not be opened: why
  step,     ///< what is done now
  rows,     ///< a group's
  fault     ///< why there are none
};

/// Sends a message behind its length. Returns whether the other side is still there.
bool send_message(int socket, const std::string& message) {
  const std::size_t size = message.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += message;
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    at += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  }
  return true;
}

bool receive_bytes(int socket, char* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, to, bytes, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    to += std::max<ssize_t>(got, 0);
    bytes -= static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return true;
}

/// The next message; nullopt when the other side is gone.
std::optional<std::string> receive_message(int socket) {
  std::size_t size = 0;
  if (!receive_bytes(socket, reinterpret_cast<char*>(&size), sizeof size)) return {};
  std::string message(size, '\0');
  if (!receive_bytes(socket, message.data(), size)) return {};
  return message;
}

/// Whether there is something to receive, within a moment short enough to notice a signal.
bool readable(int socket) {
  constexpr int kMilliseconds = 200;
  pollfd poller{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&poller, 1, kMilliseconds) > 0;
}

// The worker's side

bool send_text(int socket, Kind kind, const std::string& text) {
  Packer pack;
  pack(kind);
  pack(text);
  return send_message(socket, pack.message());
}

void serve(int socket, const std::function<Opened()>& open, std::uint64_t seed,
           const Sampling& sampling) {
  Opened opened;
  try {
    opened = open();
    Packer pack;
    pack(Kind::machine);
    pack(opened.device->backend());
    transfer(pack, opened.device->info());
    pack(opened.device->free_memory());
    pack(opened.why_host);
    send_message(socket, pack.message());
  } catch (const std::exception& error) {
    send_text(socket, Kind::refusal, error.what());
    return;
  }
  // What one group's references give back the next one's get, without a page fault for each 4 KiB.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  Roofs roofs(*opened.device, seed);
  while (const auto message = receive_message(socket)) {
    Group group{};
    Unpacker unpack(*message);
    transfer(unpack, group);
    try {
      const auto rows =
          measure(group, *opened.device, seed, roofs, sampling, [&](const Step& step) {
            Packer pack;
            pack(Kind::step);
            transfer(pack, step);
            send_message(socket, pack.message());
          });
      Packer pack;
      pack(Kind::rows);
      pack(rows.size());
      for (const Row& row : rows) transfer(pack, row);
      send_message(socket, pack.message());
    } catch (const std::exception& error) {
      send_text(socket, Kind::fault, error.what());
      return;
    }
  }
}

}  // namespace

Worker::Worker(const std::function<Opened()>& open, std::uint64_t seed, const Sampling& sampling) {
  int sockets[2];
  std::fflush(nullptr);  // or both processes print what waits in the buffers
  const pid_t parent = getpid();
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 || (process_ = fork()) < 0) {
    throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(errno)));
  }
  if (process_ == 0) {
    close(sockets[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);  // it died before that
    std::signal(SIGINT, SIG_IGN);       // Ctrl-C reaches both; the other one decides
    std::signal(SIGTERM, SIG_IGN);
    serve(sockets[1], open, seed, sampling);
    _exit(0);
  }
  close(sockets[1]);
  socket_ = sockets[0];

  const auto message = receive_message(socket_);
  if (!message) throw std::runtime_error(how_it_ended() + " while opening the device");
  Unpacker unpack(*message);
  Kind kind{};
  unpack(kind);
  if (kind == Kind::refusal) {
    std::string reason;
    unpack(reason);
    throw std::runtime_error(reason);
  }
  unpack(machine_.backend);
  transfer(unpack, machine_.info);
  unpack(machine_.free_memory);
  unpack(machine_.why_host);
  idle_ = true;
}

Worker::~Worker() {
  if (process_ > 0 && !idle_) kill(process_, SIGKILL);
  close(socket_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

std::string Worker::how_it_ended() {
  int status = 0;
  waitpid(std::exchange(process_, -1), &status, 0);
  if (!WIFSIGNALED(status)) {
    return fmt::format("its process ended with exit code {}", WEXITSTATUS(status));
  }
  const int number = WTERMSIG(status);
  return fmt::format("its process was ended by signal {} ({})", number, strsignal(number));
}

std::variant<std::vector<Row>, Fault> Worker::measure(const Group& group, double seconds_per_kernel,
                                                      const OnStep& on_step) {
  using Clock = std::chrono::steady_clock;
  idle_ = false;
  Packer request;
  transfer(request, group);
  send_message(socket_, request.message());

  Step step;
  auto began = Clock::now();
  auto fault = [&](const std::string& what) {
    return Fault{step.kernel, fmt::format("{} while {}", what, step.doing)};
  };
  while (true) {
    if (remembered_signal()) throw Interrupted();
    if (!readable(socket_)) {
      const std::chrono::duration<double> spent = Clock::now() - began;
      const double limit = seconds_per_kernel * static_cast<double>(step.kernels);
      if (step.kernels > 0 && spent.count() > limit) {
        return fault(fmt::format("did not end within {:g} s", limit));
      }
      on_step(step);
      continue;
    }
    const auto message = receive_message(socket_);
    if (remembered_signal()) throw Interrupted();  // it may have been sent to both
    if (!message) return fault(how_it_ended());
    Unpacker unpack(*message);
    Kind kind{};
    unpack(kind);
    if (kind == Kind::step) {
      transfer(unpack, step);
      began = Clock::now();
      on_step(step);
    } else if (kind == Kind::fault) {
      std::string reason;
      unpack(reason);
      return Fault{step.kernel, reason};
    } else {
      std::size_t size = 0;
      unpack(size);
      std::vector<Row> rows(size);
      for (Row& row : rows) transfer(unpack, row);
      idle_ = true;
      return rows;
    }
  }
}

}  // namespace ladder
