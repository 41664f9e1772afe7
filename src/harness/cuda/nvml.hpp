// Clocks, power and slowdowns of a GPU, from the driver's management library. The library is
// optional: it is loaded at run time, and where it is missing readings are zero.
#pragma once

#include "harness/timer.hpp"

#include <string>

namespace ladder {

class Nvml {
 public:
  /// pci_bus_id as cudaDeviceGetPCIBusId writes it.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool available() const { return device_ != nullptr; }
  GpuState read() const;

  /// The highest SM clock, in MHz; 0 where unknown.
  unsigned most_sm_mhz() const;

  /// Holds the SM clock at a value until it is reset; the end of the process does not. Only root may
  /// do either. They return NVML's code: kSuccess, kNoPermission, or another one that error_text
  /// puts into words.
  int lock_sm_clock(unsigned mhz) const;
  int reset_sm_clock() const;
  std::string error_text(int code) const;
  static constexpr int kSuccess = 0, kNoPermission = 4;

  std::string driver_version() const;  ///< empty where unknown

 private:
  template <class F>
  F symbol(const char* name) const;

  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace ladder
