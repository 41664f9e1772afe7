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

  /// How many kernels a call may run.
  std::size_t kernels() const;

  struct Rate {
    std::string name;   ///< "fma f32", "wgmma bf16"; "wgmma tf32 / 3" of three products for one
    double gflops = 0;  ///< of useful operations
  };
  /// The fastest way to do that arithmetic, measured on first use; 0 GFLOP/s without a GPU.
  const Rate& compute(const ComputeRoof& roof);

 private:
  struct Prepared {
    std::unique_ptr<Workload> workload;
    std::vector<Contestant> contestants;
  };
  /// The versions of an op of the family that pass their checks on a problem.
  Prepared prepare(std::string_view op, const std::string& problem, DType dtype);
  Rate measure(const ComputeRoof& roof);

  Device& device_;
  std::uint64_t seed_;
  std::string memory_problem_;
  Prepared memory_;
  std::map<ComputeRoof, Rate> compute_;
};

}  // namespace ladder
