// How many warps of a kernel an SM can hold at once, by NVIDIA's own rules (cuda_occupancy.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ladder {

/// What the compiler made of a kernel, as far as it limits how many blocks an SM can hold.
struct Resources {
  int registers = 0;              ///< per thread
  int max_threads = 1024;         ///< of a block: __launch_bounds__
  int barriers = 0;               ///< of a block
  std::size_t static_shared = 0;  ///< bytes per block
  std::size_t local_bytes = 0;    ///< bytes per thread: spills and arrays indexed at run time
};

/// Of an SM.
struct Occupancy {
  int blocks = 0;
  int warps = 0;       ///< of all blocks
  int most_warps = 0;  ///< that an SM can hold
  std::string limit;   ///< "registers", "shared memory", …: what allows no further block

  double share() const { return static_cast<double>(warps) / most_warps; }
};

/// A block may be larger than max_threads: then it is what the kernel would have with another
/// __launch_bounds__ and the same registers.
/// Nothing if the compute capability is not known (90 is 9.0), or to this toolkit's header.
std::optional<Occupancy> occupancy_of(const Resources& resources, int compute_capability,
                                      int threads_per_block, std::size_t dynamic_shared);

}  // namespace ladder
