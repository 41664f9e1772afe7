// The measured limits that rows are held against: memory at a problem's own bytes, and arithmetic.
#pragma once

#include "harness/device.hpp"
#include "harness/family.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ladder {

/// The kernels of the families that measure a limit, run on a GPU for the sake of other rows.
class Roofs {
 public:
  Roofs(Device& device, std::uint64_t seed) : device_(device), seed_(seed) {}

  /// Plain streams that move as many bytes as a problem must, in the same read:write mix, to be
  /// measured in the same rounds: the fastest of them is the memory roof. Empty without a GPU, or
  /// when they do not fit in its memory. Valid until release(), or until streams of other problems
  /// need the memory.
  std::vector<Contestant> memory(const Cost& cost);

  struct Arithmetic {
    std::string name;  ///< "fma f32", "wgmma bf16"; "wgmma tf32 / 3" of three products for one
    Contestant contestant{};
    double flops = 0;   ///< useful operations of its launch
    double gflops = 0;  ///< of the measurement that chose it
  };
  /// The fastest way to do a family's arithmetic, to be measured in the same rounds where that
  /// arithmetic may bound the problem: where it takes at least half as long as its bytes at the pin
  /// rate. Chosen on first use. Null without a GPU, or where it cannot be the bound.
  const Arithmetic* arithmetic(const ComputeRoof& roof, const Cost& cost);

  /// How many kernels a call may run.
  std::size_t kernels() const;

  /// Gives their memory back.
  void release();

 private:
  struct Prepared {
    Problem problem;
    double bytes = 0;
    std::unique_ptr<Workload> workload;
    std::vector<Contestant> contestants;
  };
  /// The versions of a family that pass their checks on a problem.
  Prepared prepare(const Family& family, const Problem& problem, DType dtype);
  Arithmetic choose(const ComputeRoof& roof);

  Device& device_;
  std::uint64_t seed_;
  std::list<Prepared> memory_;  ///< the last used first
  std::list<Prepared> of_arithmetic_;
  std::map<ComputeRoof, Arithmetic> arithmetic_;
};

}  // namespace ladder
