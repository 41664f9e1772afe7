// What the GPU of a launch is called, for tables that have an entry for each GPU.
#pragma once

#include "device/kernel.hpp"

#include <string>

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)
inline std::string gpu_name() { return ""; }
#else
const std::string& gpu_name();  // the current device; facts.cpp
#endif

/// The entry with this GPU's name; where there is none, the first.
template <class Entry, int kEntries>
const Entry& entry_of_this_gpu(const Entry (&table)[kEntries]) {
  for (const Entry& entry : table) {
    if (entry.name == gpu_name()) return entry;
  }
  return table[0];
}

}  // namespace ladder
