// What the lanes of a warp do together: shuffles, votes, reductions.
#pragma once

#include <cstdint>
#include <source_location>

#include "host_executor/executor.hpp"

namespace ladder::host {

void syncwarp(unsigned mask, std::source_location at);

enum class Shuffle { indexed, up, down, exclusive_or };

/// The value of another lane of the caller's segment, which has `width` lanes, a power of two; the
/// caller's own where the segment has no such lane. amount is a lane, a distance, or a mask of lane
/// bits.
std::uint64_t shuffle(Shuffle kind, unsigned mask, std::uint64_t value, int amount, int width,
                      std::source_location at);

enum class Vote { ballot, any, all };

/// The lanes that said yes. A lane that votes with all says yes to the opposite of its predicate.
unsigned vote(Vote kind, unsigned mask, bool yes, std::source_location at);

enum class Reduce { add, min_int, max_int, min_unsigned, max_unsigned, bit_and, bit_or, bit_xor };

std::uint32_t reduce(Reduce kind, unsigned mask, std::uint32_t value, std::source_location at);

}  // namespace ladder::host
