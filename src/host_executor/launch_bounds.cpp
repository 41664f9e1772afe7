#include "host_executor/launch_bounds.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>

#include "host_executor/lanes.hpp"

// Where the rooms in front of functions begin (cuda_on_cpu.hpp makes them); the linker adds the names.
extern "C" {
[[gnu::weak,
  gnu::visibility(
      "hidden")]] extern const unsigned char* const __start___patchable_function_entries[];
[[gnu::weak,
  gnu::visibility(
      "hidden")]] extern const unsigned char* const __stop___patchable_function_entries[];
}

namespace ladder::host {
namespace {

constexpr unsigned char kNop = 0x90;  // what a room consists of

/// 0 if the kernel has none.
std::uint64_t launch_bounds(const void* kernel) {
  const auto* const begin = static_cast<const unsigned char*>(kernel);
  for (auto* room = __start___patchable_function_entries;
       room < __stop___patchable_function_entries; ++room) {
    const auto size =
        reinterpret_cast<std::uintptr_t>(begin) - reinterpret_cast<std::uintptr_t>(*room);
    if (size - 1 < kMaxThreads && std::all_of(*room, begin, [](auto b) { return b == kNop; })) {
      return size;
    }
  }
  return 0;
}

}  // namespace

unsigned cluster_size(const void* kernel) {
  constexpr unsigned char kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};  // with -fcf-protection
  const auto* begin = static_cast<const unsigned char*>(kernel);
  if (std::equal(std::begin(kEndbr64), std::end(kEndbr64), begin)) begin += sizeof kEndbr64;
  const auto* const last = __stop___patchable_function_entries;
  if (std::find(__start___patchable_function_entries, last, begin) == last) return 0;
  unsigned size = 0;
  while (begin[size] == kNop) ++size;
  return size;
}

void expect_launch_bounds(const void* kernel, dim3 block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const std::uint64_t most = launch_bounds(kernel);
  if (most == 0 || threads <= most) return;
  throw std::runtime_error("a block of " + std::to_string(threads) +
                           " threads is larger than the kernel's __launch_bounds__(" +
                           std::to_string(most) + ")");
}

}  // namespace ladder::host
