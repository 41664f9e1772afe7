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
  std::string driver_version() const;  ///< empty where unknown

 private:
  template <class F>
  F symbol(const char* name) const;

  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace ladder
