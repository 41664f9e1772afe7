// Messages between ./bench and the process that measures for it.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

/// One end of a socket, over which messages go, each behind its length.
class Channel {
 public:
  /// More than all rows of a group: a length above this was not sent by us.
  static constexpr std::size_t kMostBytes = 64 << 20;

  explicit Channel(int socket) : socket_(socket) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Returns whether the other side was still there.
  [[nodiscard]] bool send(const std::string& message);

  enum class Arrival { message, nothing, end };

  /// Waits for a message, for as many milliseconds (-1: for ever) or until a signal. At the end the
  /// other side is gone. Asks for memory only for what has arrived. Throws BrokenMessage.
  Arrival receive(std::string& message, int milliseconds = -1);

 private:
  int socket_;
  std::string arrived_;  ///< of messages that were not received yet
};

}  // namespace ladder
