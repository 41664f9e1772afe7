// What makes the timed launches on a workload differ from each other, and compares what some of them wrote.
#pragma once

#include "harness/family.hpp"
#include "harness/timer.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ladder {

/// Inputs change in 32 parts of each array, but for those that are tied or no input set's; 32 parts of each
/// result and of the scratch memory become random bits; arrays in place become what they were.
class WorkloadVariation final : public Variation {
 public:
  /// For so many contestants, all of which have been prepared. What they write is kept of as many as take
  /// half of the memory that is free.
  WorkloadVariation(Workload& workload, Device& device, std::uint64_t seed,
                    std::size_t contestants);

  /// As Contestant::kept_as.
  std::optional<std::size_t> kept_as(std::size_t contestant) const {
    return contestant < kept_.size() ? std::optional(contestant) : std::nullopt;
  }

  void vary(std::uint64_t number) override;
  void keep(std::size_t contestant, std::uint64_t number) override;
  std::uint64_t checksum() const override;

  /// Makes the inputs what they were at first.
  void restore();

  /// Makes them what they were when results were kept, with the answer. False: none were.
  bool go_back();

  /// After that: whether what was kept of a contestant is right.
  CheckResult judge_kept(std::size_t contestant);

 private:
  struct OnDevice {
    Device* device;
    std::vector<Buffer> buffers{};  ///< values and what was before
    std::optional<Buffer> places{};
    std::size_t count = 0;
  };

  Workload& workload_;
  std::vector<OnDevice> on_devices_;
  std::vector<std::vector<Buffer>> kept_;  ///< of each contestant its results
  std::optional<std::uint64_t> number_{};  ///< of what was kept last
};

}  // namespace ladder
