#include "measure/channel.hpp"

#include "measure/wire.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ladder {

Channel::~Channel() {
  shutdown(socket_, SHUT_RDWR);  // processes that were forked since have it too
  close(socket_);
}

bool Channel::send(const std::string& message) {
  const std::string bytes = packed(message);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    at += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  }
  return true;
}

Channel::Arrival Channel::receive(std::string& message, int milliseconds) {
  std::size_t size = 0;
  while (true) {
    if (arrived_.size() >= sizeof size) {
      std::memcpy(&size, arrived_.data(), sizeof size);
      if (size > kMostBytes) throw BrokenMessage();
      if (arrived_.size() - sizeof size >= size) break;
    }
    pollfd poller{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&poller, 1, milliseconds) <= 0) return Arrival::nothing;
    std::array<char, 1 << 16> bytes;
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) return Arrival::nothing;
    if (got <= 0) return Arrival::end;
    arrived_.append(bytes.data(), static_cast<std::size_t>(got));
  }
  message = arrived_.substr(sizeof size, size);
  arrived_.erase(0, sizeof size + size);
  return Arrival::message;
}

}  // namespace ladder
