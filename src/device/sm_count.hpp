// How many multiprocessors there are for a launch to fill, and how many blocks fill them.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)
inline int sm_count() { return host::sm_count(); }

/// Of an SM's 228 KiB of shared memory each block takes 1 KiB more than it has. Where it has no
/// dynamic one, registers decide, which nobody knows here: one block.
template <class Kernel>
int blocks_at_once(Kernel*, int cluster, int, std::size_t shared) {
  const int of_an_sm = shared == 0 ? 1 : max(1, static_cast<int>(228 * 1024 / (shared + 1024)));
  const auto blocks =
      static_cast<int>(min(std::int64_t{sm_count()} * of_an_sm, std::int64_t{1} << 30));
  return max(1, blocks / cluster) * cluster;
}
#else
/// SMs of the current device, or as many as launches may fill. facts.cpp
int sm_count();

/// From now on launches of this process leave the other SMs to others; 0: they may fill all.
void set_sm_limit(int sms);

/// How many blocks of a kernel run at the same time, in clusters: see the template. facts.cpp
int blocks_at_once(const void* kernel, int cluster, int threads, std::size_t shared);

/// How many blocks of a kernel run at the same time on sm_count() SMs, in clusters. A cluster is in one
/// GPC, whose multiprocessors it need not divide evenly. `shared` is the dynamic shared memory of a block.
/// The driver is asked once for each device.
template <class Kernel>
int blocks_at_once(Kernel* kernel, int cluster, int threads, std::size_t shared) {
  return blocks_at_once(reinterpret_cast<const void*>(kernel), cluster, threads, shared);
}
#endif

}  // namespace ladder
