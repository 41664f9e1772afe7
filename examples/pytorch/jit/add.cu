// torch.ops.my_ops.add(a, b): one thread per element.
//
// The kernel is Kernel Ladder's src/kernels/elementwise/v01_naive.cu. Below it is what makes an
// operator of it, through PyTorch's stable ABI: built once, the binary works with every PyTorch
// from 2.10 on, and with every Python.
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

#include <cstdint>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <class T>
__global__ void add_kernel(const T* a, const T* b, T* y, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = T(static_cast<float>(a[i]) + static_cast<float>(b[i]));
}

template <class T>
void launch(const Tensor& a, const Tensor& b, const Tensor& y, cudaStream_t stream) {
  constexpr int kBlock = 256;
  const std::int64_t n = y.numel();
  const auto blocks = static_cast<unsigned>((n + kBlock - 1) / kBlock);
  add_kernel<<<blocks, kBlock, 0, stream>>>(static_cast<const T*>(a.const_data_ptr()),
                                            static_cast<const T*>(b.const_data_ptr()),
                                            static_cast<T*>(y.mutable_data_ptr()), n);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}

Tensor add(const Tensor& a_given, const Tensor& b_given) {
  const int device = a_given.get_device_index();
  STD_TORCH_CHECK(b_given.is_cuda() && b_given.get_device_index() == device,
                  "b must be on a's device");
  STD_TORCH_CHECK(b_given.scalar_type() == a_given.scalar_type(), "b must have a's dtype");
  STD_TORCH_CHECK(b_given.sizes().equals(a_given.sizes()), "b must have a's shape");

  // a may be on another device than the current one, and another stream than 0 may be current.
  const torch::stable::accelerator::DeviceGuard guard(device);
  void* pointer = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &pointer));
  const auto stream = static_cast<cudaStream_t>(pointer);

  const Tensor a = torch::stable::contiguous(a_given), b = torch::stable::contiguous(b_given);
  Tensor y = torch::stable::empty_like(a);
  if (y.numel() == 0) return y;  // a grid of no blocks is an error
  switch (a.scalar_type()) {
    case ScalarType::Float:
      launch<float>(a, b, y, stream);
      break;
    case ScalarType::Half:
      launch<torch::headeronly::Half>(a, b, y, stream);
      break;
    case ScalarType::BFloat16:
      launch<torch::headeronly::BFloat16>(a, b, y, stream);
      break;
    default:
      STD_TORCH_CHECK(false, "a must be float32, float16 or bfloat16");
  }
  return y;
}

}  // namespace

// A namespace may be in several files, as fragments. In a schema an int has 64 bits, a float is a
// double.
STABLE_TORCH_LIBRARY_FRAGMENT(my_ops, m) { m.def("add(Tensor a, Tensor b) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(my_ops, CUDA, m) { m.impl("add", TORCH_BOX(&add)); }
