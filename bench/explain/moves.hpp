// The counts of a kernel by kinds of access, and in words what moved from one version to the next.
#pragma once

#include "host_executor/counts.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

/// A kind of access, as tables and sentences see it: cp.async and stmatrix store to shared memory.
struct Kind {
  Space space;
  const char* noun;        ///< load, store, atomic
  const char* short_noun;  ///< as in PTX
  Requests (*of)(const Counters&);
};
extern const std::array<Kind, 6> kKinds;
bool is_atomic(const Kind& kind);

/// Less of all sectors and wavefronts, or of all requests, is not worth a word.
inline constexpr double kShare = 0.05;

/// "global" or "shared".
const char* name_of(Space space);

/// All requests to one space, or to both.
Requests total(const Counters& counters, std::optional<Space> space = {});

/// Whether more units are taken than is good: five sectors of four are, 1.25 of the ideal.
bool is_bad(const Requests& requests);

/// "4 of 4" sectors per request; "2-way" in shared memory.
std::string efficiency(Space space, const Requests& requests);

struct Move {
  double score;  ///< binary logarithm of how many times
  bool better;
  std::string text;
};

/// The three numbers that moved most from one version to another, but none that moved far less than
/// the first or by less than a tenth; and what got worse, if anything did.
std::vector<Move> moves_between(const Counters& before, const Counters& after);

/// What a version that nothing precedes does badly.
std::vector<Move> faults(const Counters& counters);

/// The moves as a text: "shared loads 32-way → 1-way"; "same counts" where nothing moved.
std::string what_moved(const Counters& before, const Counters& after);

}  // namespace ladder
