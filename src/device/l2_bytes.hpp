// How large the L2 cache is.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)
inline std::int64_t l2_bytes() { return 50 << 20; }  // an H100's
#else
std::int64_t l2_bytes();  // of the current device; facts.cpp
#endif

}  // namespace ladder
