#include "measure/clock_lock.hpp"

#include "cli/options.hpp"
#include "harness/cuda/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ladder {
namespace {

/// What ends the guard's waiting: its parent sends it, or the kernel when the parent is gone.
constexpr int kEnd = SIGUSR1;
constexpr const char* kLocked = "locked";

/// Where a GPU is, by CUDA's number, which CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER decide. From
/// the driver, without a context. Throws std::runtime_error.
std::string pci_bus_id(int device) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) throw std::runtime_error("no NVIDIA driver is installed; leave it out");
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto where =
      reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetPCIBusId"));
  std::array<char, 32> text{};
  int handle = 0;
  if (!init || !get || !where || init(0) != 0 || get(&handle, device) != 0 ||
      where(text.data(), static_cast<int>(text.size()), handle) != 0) {
    throw std::runtime_error(fmt::format("there is no GPU number {}; leave it out", device));
  }
  return text.data();
}

/// Locks a GPU's clock. Throws std::runtime_error.
void lock(const Nvml& nvml, const std::string& gpu, unsigned mhz) {
  if (!nvml.available()) {
    throw std::runtime_error("the driver's libnvidia-ml.so.1 does not know the GPU; leave it out");
  }
  if (const unsigned most = nvml.most_sm_mhz(); most > 0 && mhz > most) {
    throw std::runtime_error(fmt::format("the GPU's highest SM clock is {} MHz", most));
  }
  const int code = nvml.lock_sm_clock(mhz);
  if (code == Nvml::kNoPermission) {
    throw std::runtime_error(fmt::format(
        "only root may lock clocks; type sudo nvidia-smi -i {} -lgc {} before (and -rgc "
        "afterwards), or leave it out",
        gpu, mhz));
  }
  if (code != Nvml::kSuccess) {
    throw std::runtime_error(
        fmt::format("the driver refuses ({}); leave it out", nvml.error_text(code)));
  }
}

/// The guard's life. It says kLocked, or what is wrong.
void guard(unsigned mhz, int device, int reply, const sigset_t& end) {
  const auto say = [&](const std::string& text) {
    dprintf(reply, "%s", text.c_str());
    close(reply);
  };
  try {
    const std::string gpu = pci_bus_id(device);
    const Nvml nvml(gpu);
    lock(nvml, gpu, mhz);
    say(kLocked);
    int signal = 0;
    sigwait(&end, &signal);
    if (const int code = nvml.reset_sm_clock(); code != Nvml::kSuccess) {
      fmt::print(stderr,
                 "bench: the clocks are still locked, the driver does not reset them ({}): sudo "
                 "nvidia-smi -i {} -rgc\n",
                 nvml.error_text(code), gpu);
      std::fflush(stderr);
    }
  } catch (const std::exception& error) {
    say(error.what());
  }
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 256> part{};
  while (true) {
    const ssize_t got = read(from, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

ClockLock::ClockLock(unsigned mhz, int device) {
  int reply[2];
  std::fflush(nullptr);  // or both processes print what waits in the buffers
  const pid_t parent = getpid();
  if (pipe(reply) != 0 || (guard_ = fork()) < 0) {
    throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(errno)));
  }
  if (guard_ == 0) {
    close(reply[0]);
    setsid();  // what ends the whole group must not end the guard
    sigset_t all, end;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    sigemptyset(&end);
    sigaddset(&end, kEnd);
    prctl(PR_SET_PDEATHSIG, kEnd);
    if (getppid() == parent) guard(mhz, device, reply[1], end);
    _exit(0);
  }
  close(reply[1]);
  const std::string said = read_all(reply[0]);
  close(reply[0]);
  if (said != kLocked) {
    waitpid(guard_, nullptr, 0);
    throw UsageError(
        fmt::format("--lock-clocks={}: {}.", mhz,
                    said.empty() ? "the driver's library broke down; leave it out" : said));
  }
}

ClockLock::~ClockLock() {
  kill(guard_, kEnd);
  waitpid(guard_, nullptr, 0);
}

}  // namespace ladder
