// Kernels of relu that a test writes itself, for the host.
#pragma once

#include "harness/device.hpp"
#include "kernels/elementwise/elementwise.hpp"

namespace ladder {

using Relu = elementwise::Args<elementwise::relu, float>;

inline Kernel relu_kernel(
    const char* file, void (*launch)(const Call&, cudaStream_t),
    Support (*supports)(const void*) = [](const void*) { return supported(); }) {
  return {"elementwise", "relu", DType::f32, {"test"}, file, Backend::host, launch, supports};
}

inline constexpr auto right_relu = [](const Relu& r) {
  for (std::int64_t i = 0; i < r.n; ++i) r.y[i] = r.x[0][i] > 0 ? r.x[0][i] : 0;
};

inline void right(const Call& call, cudaStream_t) {
  right_relu(*static_cast<const Relu*>(call.args));
}

}  // namespace ladder
