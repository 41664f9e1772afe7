#include "harness/host/api.hpp"

#include "harness/registry.hpp"
#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/recording.hpp"

extern "C" [[gnu::visibility("default")]] const ladder::host::Api* ladder_host_api() {
  using namespace ladder;
  static constexpr host::Api api {
    .kernels = []() -> const std::vector<Kernel>& { return registered_kernels(); },
    .allocate = &host::allocate, .release = &host::release, .set_lane_order = &host::set_lane_order,
    .set_blocks = &host::set_blocks, .run_together = &host::run_together,
    .set_sm_count = &host::set_sm_count, .sm_count = &host::sm_count,
#if defined(__SANITIZE_ADDRESS__)
    .count = nullptr, .record = nullptr,
#else
    .count = &host::count, .record = &host::record,
#endif
    .launches = &recorded_launches,
  };
  return &api;
}
