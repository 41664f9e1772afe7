// What chosen warps of a block did, step by step: ./bench --trace writes it, scripts/stepper.py shows
// it.
#pragma once

#include "host_executor/counts.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ladder {

/// What is recorded: warps of one block of each launch, by their numbers in it.
struct RecordingChoice {
  std::array<unsigned, 3> block{};
  std::vector<unsigned> warps{0, 1};
  std::size_t most_steps = 4000;  ///< what follows them is counted alone
};

/// What threads do besides accessing memory; passed and landed are what comes of a wait or a copy.
enum class Note : std::uint8_t {
  cp_async_commit,
  cp_async_wait,
  mbarrier_arrive,
  mbarrier_wait,
  mbarrier_passed,
  mbarrier_phase,
  bulk_load,
  bulk_landed,
  bulk_store,
  bulk_commit,
  bulk_wait,
  wgmma,
  wgmma_commit,
  wgmma_wait,
  wgmma_passed,
  named_arrive,
  named_wait,
  named_passed,
};

struct RecordedStep {
  enum class Kind : std::uint8_t { request, note, collective, barrier };
  static constexpr int kWholeBlock = -1;

  Kind kind{};
  unsigned launch = 0;
  int warp = kWholeBlock;
  unsigned lanes = 0;  ///< a bit each
  std::string file;
  int line = 0;

  // Of a request:
  Space space{};
  Access access{};
  unsigned width = 0;                     ///< bytes per lane
  Requests counted;                       ///< what it adds to the counts
  std::vector<std::uintptr_t> addresses;  ///< of each lane in `lanes`, in their order
  std::vector<std::uintptr_t> sources;    ///< of a cp.async, likewise; 0: reads nothing

  // Of a note:
  Note note{};
  std::uintptr_t object = 0;  ///< the address of an mbarrier; the number of a named barrier
  std::uint64_t detail = 0;   ///< bytes, groups that may be pending, or the number of a phase

  std::string collective;  ///< its name
};

struct RecordedLaunch {
  std::array<unsigned, 3> grid{}, block{};
  std::size_t dynamic_shared = 0;  ///< bytes
  unsigned cluster = 0;            ///< blocks; 0: none
};

struct Recording {
  Counters counters;  ///< of all launches and blocks
  std::vector<RecordedLaunch> launches;
  std::vector<RecordedStep> steps;                            ///< in the executor's order
  std::size_t left_out = 0;                                   ///< steps that were too many
  std::uintptr_t static_shared = 0, static_shared_bytes = 0;  ///< where shared memory is
  std::uintptr_t dynamic_shared = 0;
};

}  // namespace ladder
