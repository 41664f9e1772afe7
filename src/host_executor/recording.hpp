// Records what counting.cpp makes of the accesses of chosen warps, request by request, and what else
// they do. A step's place among those of other warps is the executor's order, which is one of those
// that a GPU may take, and no time.
#pragma once

#include "host_executor/recorded.hpp"

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

namespace ladder::host {

/// Whether steps are being recorded.
extern bool recording;

/// Counts what the launches in work() do, and records the chosen part of it. If it throws, so does
/// this.
Recording record(const RecordingChoice& choice, const std::function<void()>& work);

void begin_recorded_launch(dim3 grid, dim3 block, std::size_t dynamic_shared, unsigned cluster);

/// Whether the warp of the selected block is chosen.
bool is_recorded(unsigned warp);

/// The order of what happens next.
inline std::uint32_t last_order = 0;
inline std::uint32_t next_order() { return ++last_order; }

/// The code at `pc` made a step of a warp's, which comes neither before `order` nor before the warp's
/// last one.
void record_step(const void* pc, unsigned warp, std::uint32_t order, RecordedStep step);

/// The lanes of a warp have met in a collective.
void record_collective(unsigned warp, unsigned lanes, const char* name, std::source_location at);

void record_barrier(std::source_location at);

/// Of the selected block and no thread of it.
void record_of_block(Note note, const void* object, std::uint64_t detail);

}  // namespace ladder::host
