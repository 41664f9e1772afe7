// Kernels that keep a GPU's SMs from others for a while.
#pragma once

#include <cuda_runtime_api.h>

namespace ladder {

/// Whatever comes behind it in the stream begins so many microseconds later at the earliest.
void hold_stream(double us, cudaStream_t stream);

/// Each of `blocks` blocks takes an SM for itself until *released is not 0, or ten seconds have gone by.
/// `released` is mapped host memory.
void hold_sms(int blocks, const volatile int* released, cudaStream_t stream);

}  // namespace ladder
