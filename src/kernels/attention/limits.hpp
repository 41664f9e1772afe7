// What versions need, and say so in `supports`.
#pragma once

#include "attention.hpp"
#include "device/needs.hpp"

using ladder::needs_compute_capability;
using ladder::needs_shared_memory;

inline ladder::Support needs_equal_lengths(const attention::Problem& p) {
  if (!p.has_lengths()) return ladder::supported();
  return ladder::unsupported("the sequences have different lengths");
}
