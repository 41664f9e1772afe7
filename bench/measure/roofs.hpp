// The measured limits that rows are held against: memory at a problem's own bytes, and the others that
// its work needs.
#pragma once

#include "harness/device.hpp"
#include "harness/family.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ladder {

/// The kernels of the families that measure a limit, run on a GPU for the sake of other rows.
class Roofs {
 public:
  Roofs(Device& device, std::uint64_t seed) : device_(device), seed_(seed) {}

  /// A roof that may bound a problem, to be measured in the same rounds.
  struct Bound {
    std::string name;  ///< "dram", "wgmma bf16"; "wgmma tf32 / 3" of three products for one
    std::vector<Contestant> contestants;  ///< the fastest of them counts
    double launches = 1;                  ///< of it, for all that the problem needs
  };
  /// Those of the demands that a kernel measures. DRAM by plain streams that move as many bytes as the
  /// cost says, in the same read:write mix, unless they do not fit in the memory; the others by the
  /// fastest way, chosen on first use, where they take at least half as long as the bytes at the pin
  /// rate. Empty without a GPU. Valid until release(), or until streams of other problems need the
  /// memory.
  std::vector<Bound> bounds(const Cost& cost, std::span<const Demand> demands);

  /// The time of an empty launch; 0 where it is not known.
  double launch_us(Cache cache);

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
  struct Chosen {
    std::string name{};
    Contestant contestant{};
    double amount = 0;  ///< of its launch
    double rate = 0;    ///< in a microsecond, of the measurement that chose it
  };
  /// The versions of a family that pass their checks on a problem.
  Prepared prepare(const Family& family, const Problem& problem, DType dtype);
  std::vector<Contestant> streams(const Cost& cost);
  Chosen choose(const Roof& roof);

  Device& device_;
  std::uint64_t seed_;
  std::list<Prepared> streams_;  ///< the last used first
  std::list<Prepared> others_;   ///< of those chosen
  std::map<Roof, Chosen> chosen_;
  std::map<Cache, double> launch_us_;
};

}  // namespace ladder
