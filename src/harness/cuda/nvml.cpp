#include "harness/cuda/nvml.hpp"

#include <dlfcn.h>

namespace ladder {
namespace {

// The few declarations of nvml.h used here; the header is not part of every toolkit.
constexpr int kFunctionNotFound = 13;
constexpr int kClockSm = 1;
constexpr unsigned long long kPower = 0x04     // software power cap
                                      | 0x80;  // hardware power brake
constexpr unsigned long long kThermal = 0x08  // hardware slowdown, of which 0x40 and 0x80 are kinds
                                        | 0x20   // software thermal slowdown
                                        | 0x40;  // hardware thermal slowdown

}  // namespace

template <class F>
F Nvml::symbol(const char* name) const {
  return library_ ? reinterpret_cast<F>(dlsym(library_, name)) : nullptr;
}

Nvml::Nvml(const std::string& pci_bus_id) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = symbol<int (*)()>("nvmlInit_v2");
  const auto find = symbol<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (!init || !find || init() != kSuccess) return;
  if (find(pci_bus_id.c_str(), &device_) != kSuccess) device_ = nullptr;
}

Nvml::~Nvml() {
  if (const auto shutdown = symbol<int (*)()>("nvmlShutdown")) shutdown();
  if (library_) dlclose(library_);
}

GpuState Nvml::read() const {
  GpuState state;
  if (!device_) return state;
  unsigned value = 0;
  const auto clock = symbol<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
  if (clock && clock(device_, kClockSm, &value) == kSuccess) state.sm_mhz = value;
  const auto power = symbol<int (*)(void*, unsigned*)>("nvmlDeviceGetPowerUsage");
  if (power && power(device_, &value) == kSuccess) state.power_w = value / 1000.0;
  unsigned long long reasons = 0;
  const auto slow =
      symbol<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (slow && slow(device_, &reasons) == kSuccess) {
    state.power_limited = (reasons & kPower) != 0;
    state.thermal_limited = (reasons & kThermal) != 0;
  }
  return state;
}

unsigned Nvml::most_sm_mhz() const {
  unsigned mhz = 0;
  const auto most = symbol<int (*)(void*, int, unsigned*)>("nvmlDeviceGetMaxClockInfo");
  return most && most(device_, kClockSm, &mhz) == kSuccess ? mhz : 0;
}

int Nvml::lock_sm_clock(unsigned mhz) const {
  const auto lock = symbol<int (*)(void*, unsigned, unsigned)>("nvmlDeviceSetGpuLockedClocks");
  return lock ? lock(device_, mhz, mhz) : kFunctionNotFound;
}

int Nvml::reset_sm_clock() const {
  const auto reset = symbol<int (*)(void*)>("nvmlDeviceResetGpuLockedClocks");
  return reset ? reset(device_) : kFunctionNotFound;
}

std::string Nvml::error_text(int code) const {
  const auto text = symbol<const char* (*)(int)>("nvmlErrorString");
  return text ? text(code) : "error " + std::to_string(code);
}

std::string Nvml::driver_version() const {
  char text[96] = "";
  const auto version = symbol<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (version && version(text, sizeof text) != kSuccess) text[0] = '\0';
  return text;
}

}  // namespace ladder
