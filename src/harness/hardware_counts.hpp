// The ten of a GPU's own counters that explain a kernel, and their counterparts on the host executor.
#pragma once

#include "host_executor/counts.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace ladder {

/// One of them. What it is can be the sum of several of NVIDIA's metrics; of its lists the first is
/// taken whose metrics the GPU has.
struct HardwareCounter {
  const char* column;  ///< of the CSV
  std::vector<std::vector<const char*>> metrics;
  /// What the host executor counts of the same; null where it has no such count.
  std::uint64_t (*host)(const Counters&) = nullptr;
};

/// Their places, also in HardwareCounts.
enum HardwareCount : std::uint8_t {
  kGlobalLoadRequests,
  kGlobalLoadSectors,
  kGlobalStoreRequests,
  kGlobalStoreSectors,
  kSharedLoadWavefronts,
  kSharedStoreWavefronts,
  kDramBytes,
  kIssuePercent,  ///< of the cycles of an SM's schedulers, those in which one issued an instruction
  kTensorPercent,  ///< of all cycles, those in which the tensor cores were busy
  kWarpsPercent,   ///< resident warps of the most that an SM holds: achieved occupancy
  kHardwareCountsEnd
};

const std::array<HardwareCounter, kHardwareCountsEnd>& hardware_counters();

/// Of all of a version's kernels; empty where the GPU has no such counter.
using HardwareCounts = std::array<std::optional<double>, kHardwareCountsEnd>;

/// Why a GPU's counters cannot be read: one sentence with the way out.
struct NoHardwareCounters : std::runtime_error {
  using runtime_error::runtime_error;
};

}  // namespace ladder
