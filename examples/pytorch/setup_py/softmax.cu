// torch.ops.my_ops.softmax(x): over the last dimension, a block per row.
//
// The kernel is Kernel Ladder's src/kernels/softmax/v04_online.cu: when the maximum moves, the sum
// so far is rescaled, so that x is read twice and not three times. The rest is as in add.cu.
#define TORCH_TARGET_VERSION 0x020a000000000000  // 2.10
#define USE_CUDA                                 // shows the CUDA functions of PyTorch's headers
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Half.h>

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

/// The largest of some numbers x, and the sum of their exp(x - max). With no numbers max is finite,
/// so that -inf - max is never a NaN. Aligned, to be loaded and stored as one.
struct alignas(8) Online {
  float max, sum;

  /// One exp is enough: either the sum so far is rescaled, or x is.
  __device__ void add(float x) {
    const float scale = expf(-fabsf(x - max));
    sum = x > max ? sum * scale + 1.0f : sum + scale;
    max = fmaxf(max, x);
  }
};

/// Merges what kLanes neighbouring lanes have; all of them get the result.
template <int kLanes>
__device__ Online merge(Online mine) {
  float max = mine.max;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, distance));
  }
  float sum = mine.sum * expf(mine.max - max);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  return {max, sum};
}

template <class T>
__global__ void softmax_kernel(const T* all_x, T* all_y, std::int64_t cols) {
  __shared__ Online of_warp[kWarps];
  const T* const x = all_x + blockIdx.x * cols;
  T* const y = all_y + blockIdx.x * cols;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;

  Online row{-FLT_MAX, 0};
  for (std::int64_t c = t; c < cols; c += kBlock) row.add(static_cast<float>(x[c]));
  row = merge<32>(row);
  if (lane == 0) of_warp[warp] = row;
  __syncthreads();
  row = merge<kWarps>(of_warp[lane % kWarps]);
  const float scale = 1.0f / row.sum;
  for (std::int64_t c = t; c < cols; c += kBlock) {
    y[c] = T(expf(static_cast<float>(x[c]) - row.max) * scale);
  }
}

template <class T>
void launch(const Tensor& x, const Tensor& y, cudaStream_t stream) {
  const std::int64_t cols = x.size(x.dim() - 1), rows = x.numel() / cols;
  STD_TORCH_CHECK(rows <= std::numeric_limits<int>::max(), "x has more than 2^31 - 1 rows");
  softmax_kernel<<<static_cast<unsigned>(rows), kBlock, 0, stream>>>(
      static_cast<const T*>(x.const_data_ptr()), static_cast<T*>(y.mutable_data_ptr()), cols);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}

Tensor softmax(const Tensor& given) {
  STD_TORCH_CHECK(given.dim() >= 1, "x must have a dimension");

  // x may be on another device than the current one, and another stream than 0 may be current.
  const int device = given.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  void* pointer = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &pointer));
  const auto stream = static_cast<cudaStream_t>(pointer);

  const Tensor x = torch::stable::contiguous(given);
  Tensor y = torch::stable::empty_like(x);
  if (y.numel() == 0) return y;  // a grid of no blocks is an error
  switch (x.scalar_type()) {
    case ScalarType::Float:
      launch<float>(x, y, stream);
      break;
    case ScalarType::Half:
      launch<torch::headeronly::Half>(x, y, stream);
      break;
    case ScalarType::BFloat16:
      launch<torch::headeronly::BFloat16>(x, y, stream);
      break;
    default:
      STD_TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(my_ops, m) { m.def("softmax(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(my_ops, CUDA, m) { m.impl("softmax", TORCH_BOX(&softmax)); }
