// Versions of relu in f32 that are quick because they leave work out, or do it where no timer looks.
#pragma once

#include "device/kernel.hpp"

#include <span>

namespace ladder {

struct Cheat {
  const char* name;
  void (*launch)(const Call& call, cudaStream_t stream);
};

/// The first is honest. None is right in its timed launches, but for those that work elsewhere; all are
/// in the launches of a check.
std::span<const Cheat> cheats();

}  // namespace ladder
