#include "measure/worker.hpp"

#include "measure/wire.hpp"
#include "process/memory.hpp"
#include "process/signals.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace ladder {
namespace {

enum class Kind : char {
  machine,  ///< the device is open
  refusal,  ///< it could not be opened: why
  step,     ///< what is done now
  rows,     ///< a group's
  fault     ///< why there are none
};

constexpr Kind last_value(Kind) { return Kind::fault; }

// The worker's side

void serve(Channel& channel, const std::function<Opened()>& open, std::uint64_t seed,
           const Sampling& sampling, Turn turn) {
  Opened opened;
  try {
    opened = open();
    if (!channel.send(packed(Kind::machine, opened.device->backend(), opened.device->info(),
                             opened.device->free_memory(), opened.why_host, opened.best))) {
      return;
    }
  } catch (const std::exception& error) {
    return static_cast<void>(channel.send(packed(Kind::refusal, std::string(error.what()))));
  }
  // What one group's references give back the next one's get, without a page fault for each 4 KiB.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  Roofs roofs(*opened.device, seed);
  TriedProblems known;
  std::string message;
  for (auto arrival = channel.receive(message); arrival != Channel::Arrival::end;
       arrival = channel.receive(message)) {
    if (arrival == Channel::Arrival::nothing) continue;
    try {
      Group group{};
      Unpacker unpack(message);
      transfer(unpack, group);
      const auto tell = [&](const Step& step) {
        if (!channel.send(packed(Kind::step, step))) _exit(1);  // nobody waits for it
      };
      const auto rows = measure(group, *opened.device, seed, roofs, sampling, tell,
                                turn == Turn::further ? nullptr : &known);
      if (turn == Turn::first) {
        roofs.release();
        malloc_trim(0);
      }
      if (!channel.send(packed(Kind::rows, rows))) return;
    } catch (const std::exception& error) {
      return static_cast<void>(channel.send(packed(Kind::fault, std::string(error.what()))));
    }
  }
}

/// A launch may call exit(): then this handler, the last registered, is the first to run, and the only one
/// of those there are at the fork, which act on the parent's files.
void leave_exit_handlers_to_parent() {
  on_exit(
      [](int status, void*) {
        std::fflush(nullptr);  // what the launch has printed
        _exit(status);
      },
      nullptr);
}

/// Nothing is thrown into what the parent was doing when it forked.
[[noreturn]] void be_worker(int socket, const std::function<Opened()>& open, std::uint64_t seed,
                            const Sampling& sampling, Turn turn) noexcept {
  leave_last_words_to_parent();
  leave_exit_handlers_to_parent();
  Channel channel(socket);
  serve(channel, open, seed, sampling, turn);
  _exit(0);
}

}  // namespace

Worker::Worker(const std::function<Opened()>& open, std::uint64_t seed, const Sampling& sampling,
               Turn turn) {
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
    be_worker(sockets[1], open, seed, sampling, turn);
  }
  close(sockets[1]);
  try {
    channel_.emplace(sockets[0]);
    receive_machine();
  } catch (...) {
    end();
    throw;
  }
  idle_ = true;
}

void Worker::receive_machine() {
  std::string message;
  auto arrival = Channel::Arrival::nothing;
  while (arrival == Channel::Arrival::nothing) arrival = channel_->receive(message);
  if (arrival == Channel::Arrival::end) {
    throw std::runtime_error(how_it_ended() + " while opening the device");
  }
  Unpacker unpack(message);
  Kind kind{};
  unpack(kind);
  if (kind == Kind::refusal) {
    std::string reason;
    unpack(reason);
    throw std::runtime_error(reason);
  }
  unpack.expect(kind == Kind::machine);
  each(unpack, machine_.backend, machine_.info, machine_.free_memory, machine_.why_host,
       machine_.best);
  unpack.expect_end();
}

Worker::~Worker() { end(); }

void Worker::end() noexcept {
  if (process_ > 0 && !idle_) kill(process_, SIGKILL);
  channel_.reset();
  if (process_ > 0) waitpid(std::exchange(process_, -1), nullptr, 0);
}

std::string Worker::how_it_ended() {
  // It has ended or is about to, unless a kernel has closed its socket.
  using namespace std::chrono;
  constexpr auto kPatience = seconds(5);
  int status = 0;
  const auto began = steady_clock::now();
  while (waitpid(process_, &status, WNOHANG) == 0) {
    if (steady_clock::now() - began > kPatience) return "its process does not answer any more";
    std::this_thread::sleep_for(milliseconds(1));
  }
  process_ = -1;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return fmt::format("its process was ended by signal {} ({}{})", number, strsignal(number),
                       number == SIGKILL ? ", as the system does when memory runs out" : "");
  }
  if (WEXITSTATUS(status) == kNoMemoryExit) return "its process ran out of memory";
  return fmt::format("its process ended with exit code {}", WEXITSTATUS(status));
}

bool Worker::begin(const Group& group) {
  idle_ = false;
  begun_ = channel_->send(packed(group));
  return begun_;
}

std::variant<std::vector<Row>, Fault> Worker::measure(const Group& group, double seconds_per_kernel,
                                                      const OnStep& on_step) {
  using Clock = std::chrono::steady_clock;
  if (!begun_ && !begin(group)) {
    return Fault{nullptr, fmt::format("its process cannot be reached: {}", std::strerror(errno))};
  }
  begun_ = false;

  Step step;
  auto last = Clock::now();
  std::chrono::duration<double> spent{};
  auto fault = [&](const std::string& what) {
    return Fault{step.kernel, fmt::format("{} while {}", what, step.doing), step.on_test_problem};
  };
  while (true) {
    if (remembered_signal()) throw Interrupted();
    try {
      constexpr int kMilliseconds = 200;  // short enough to notice a signal
      std::string message;
      const auto arrival = channel_->receive(message, kMilliseconds);
      if (remembered_signal()) throw Interrupted();  // it may have been sent to both
      if (arrival == Channel::Arrival::end) return fault(how_it_ended());
      if (arrival == Channel::Arrival::nothing) {
        constexpr std::chrono::duration<double> kMost{1};  // of the time this process was stopped
        const auto now = Clock::now();
        spent += std::min(kMost, std::chrono::duration<double>(now - last));
        last = now;
        const double limit = seconds_per_kernel * static_cast<double>(step.kernels);
        if (step.kernels > 0 && spent.count() > limit) {
          return fault(fmt::format("did not end within {:g} s", limit));
        }
        on_step(step);
        continue;
      }
      Unpacker unpack(message);
      Kind kind{};
      unpack(kind);
      if (kind == Kind::step) {
        Step next;
        transfer(unpack, next);
        unpack.expect_end();
        unpack.expect(!next.kernel || std::ranges::count(group.kernels, next.kernel) > 0);
        step = next;
        spent = {};
        last = Clock::now();
        on_step(step);
      } else if (kind == Kind::fault) {
        std::string reason;
        unpack(reason);
        return Fault{step.kernel, reason, step.on_test_problem};
      } else {
        unpack.expect(kind == Kind::rows);
        unpack.expect(unpack.size_of_next() == group.kernels.size());
        std::vector<Row> rows;
        for (const Kernel* kernel : group.kernels) {
          Row& row = rows.emplace_back(unmeasured_row(group, *kernel));
          transfer(unpack, row);
          unpack.expect(row.kernel == kernel && row.problem == group.problem.text() &&
                        row.cache == group.cache);
        }
        unpack.expect_end();
        idle_ = true;
        return rows;
      }
    } catch (const BrokenMessage& broken) {
      return fault(broken.what());
    }
  }
}

}  // namespace ladder
