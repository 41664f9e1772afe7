// What CUPTI records of the kernels of this process, for tests that look at the GPU's own time stamps.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cstdlib>

namespace ladder {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif

/// From now on kSee gets the record of each kernel, when CUPTI's buffers are flushed. Whether CUPTI agreed.
template <void (*kSee)(const KernelRecord&)>
bool see_kernels() {
  const auto give_buffer = [](std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    *size = 8 << 20;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
    *most_records = 0;
  };
  const auto take_buffer = [](CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                              std::size_t valid) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      kSee(*reinterpret_cast<const KernelRecord*>(record));
    }
    std::free(buffer);
  };
  return cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
}

}  // namespace ladder
