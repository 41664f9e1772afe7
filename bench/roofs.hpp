// The measured limits that rows are held against: memory at a problem's own bytes, and arithmetic.
#pragma once

#include "harness/device.hpp"
#include "harness/family.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ladder {

/// The kernels of the family `roofs`, run on a GPU for the sake of other rows.
class Roofs {
 public:
  Roofs(Device& device, std::uint64_t seed) : device_(device), seed_(seed) {}

  /// Plain streams that move as many bytes as a problem must, in the same read:write mix, to be
  /// measured in the same rounds: the best of them is the memory roof. Empty without a GPU, or when
  /// they do not fit in its memory. Valid until the next call.
  std::vector<Contestant> memory(const Cost& cost);

  /// fp32 FMA rate in GFLOP/s, measured on first use; 0 without a GPU.
  double fma();

 private:
  struct Prepared {
    std::unique_ptr<Workload> workload;
    std::vector<Contestant> contestants;
  };
  /// The versions of an op of the family that pass their checks on a problem.
  Prepared prepare(std::string_view op, const std::string& problem);

  Device& device_;
  std::uint64_t seed_;
  std::string memory_problem_;
  Prepared memory_;
  double fma_ = -1;
};

}  // namespace ladder
