// A GPU's own counters, read in this process by CUPTI's range profiler. CUPTI is optional: it is loaded
// when counters are asked for.
#pragma once

#include "harness/hardware_counts.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

struct CUpti_Profiler_Host_Object;

namespace ladder {

/// Of the GPU that is current. Everything throws NoHardwareCounters where CUPTI refuses.
class HardwareCounters {
 public:
  explicit HardwareCounters(int ordinal,
                            std::span<const HardwareCounter> counters = hardware_counters());
  ~HardwareCounters();
  HardwareCounters(const HardwareCounters&) = delete;
  HardwareCounters& operator=(const HardwareCounters&) = delete;

  /// Calls `prepare` and `launch` once for every pass that the counters take, and counts `launch`, all of
  /// whose kernels are one range. Both must wait for what they launch. Returns a value for each counter,
  /// none where the GPU has no such counter.
  std::vector<std::optional<double>> count(const std::function<void()>& prepare,
                                           const std::function<void()>& launch);

 private:
  void choose_metrics();

  std::span<const HardwareCounter> counters_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<const char*> metrics_;  ///< that are read, and of which counter each is a summand
  std::vector<std::size_t> counter_of_;
  std::vector<std::uint8_t> config_;  ///< which of them are read in which pass
};

}  // namespace ladder
