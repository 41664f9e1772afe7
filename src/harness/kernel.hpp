// What a kernel file includes: the names of CUDA C++ on both backends, ladder::launch, and the
// registration of a version. Kept light, because every kernel file is compiled twice: by nvcc for
// the GPU, and by the host compiler for the host executor (with LADDER_HOST_EXECUTOR defined).
// <string>, <vector> and <stdexcept> would add half of what an empty kernel file costs nvcc.
#pragma once

#if defined(LADDER_HOST_EXECUTOR)
#include "harness/host/cuda_on_cpu.hpp"
#else
#include <cuda_runtime_api.h>
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "harness/tfloat32.hpp"

namespace ladder {

using bfloat16 = __nv_bfloat16;
using half = __half;
using float8_e4m3 = __nv_fp8_e4m3;  // 4 bits of exponent, 3 of mantissa: up to 448, no infinity

/// Where a kernel runs.
enum class Backend { cuda, host };

/// Element types, and how users spell them.
enum class DType { f32, f16, bf16, tf32, e4m3, f64, i32, i64 };

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<tfloat32> {
  static constexpr DType value = DType::tf32;
};
template <>
struct DTypeOf<float8_e4m3> {
  static constexpr DType value = DType::e4m3;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};

/// What a version says of itself; its number and name are its file's: vNN_name.cu.
struct Version {
  const char* idea;        ///< what this version does, in a few words
  bool baseline = false;   ///< a vendor's library, against which the others are compared
  bool capturable = true;  ///< its launches may be captured into a CUDA graph, to be timed hot
};

/// Whether a version can run a problem, and if not, why.
struct Support {
  bool ok = true;
  const char* reason = "";  ///< lives as long as the program
};
inline Support supported() { return {}; }

/// The reason is formatted as printf does.
[[gnu::format(printf, 1, 2)]] Support unsupported(const char* format, ...);

/// A registered version of one family, op and element type; args and problem are the family's
/// Args<T> and Problem.
struct Kernel {
  const char* family;
  const char* op;  ///< "" where the family has one operation
  DType dtype;
  Version version;
  const char* file;  ///< the source file, as the compiler was given it
  Backend backend;
  void (*launch)(const void* args, cudaStream_t stream);
  Support (*supports)(const void* problem);
  std::size_t (*workspace)(const void* args) = nullptr;  ///< bytes of scratch memory
  const void* test_problems = nullptr;  ///< the version's own, besides its family's
  std::size_t test_problem_count = 0;
};

void register_kernel(const Kernel& kernel);

/// One kernel launch.
struct Launch {
  const void* function;
  dim3 grid, block;
  std::size_t dynamic_shared;  ///< bytes
};
void record_launch(const Launch& launch);

#if defined(LADDER_HOST_EXECUTOR)
inline constexpr Backend kBackend = Backend::host;
#else
inline constexpr Backend kBackend = Backend::cuda;
#endif

/// Registers version V for Contract (a family, or one op of a family) and element types Ts.
///
/// V has `static constexpr Version version` and `static void launch(const Contract::Args<T>&,
/// cudaStream_t)`; where it has limits `static Support supports(const Contract::Problem&)`, or, if
/// they depend on the type, `supports<T>`; where it needs scratch memory
/// `static std::size_t workspace(const Contract::Args<T>&)`, the bytes that args.workspace must
/// point to in launch; where its family's test problems leave a branch of it untried
/// `static constexpr Contract::Problem test_problems[]`, which are tested with it alone.
template <class V, class Contract, class... Ts>
struct Register {
  explicit Register(Backend backend = kBackend, const char* file = __builtin_FILE()) {
    (register_kernel({Contract::family, Contract::op, DTypeOf<Ts>::value, V::version, file, backend,
                      &launch<Ts>, &supports<Ts>, &workspace<Ts>, own_problems().first,
                      own_problems().second}),
     ...);
  }

 private:
  static constexpr std::pair<const void*, std::size_t> own_problems() {
    if constexpr (requires { V::test_problems; }) {
      return {V::test_problems, sizeof V::test_problems / sizeof V::test_problems[0]};
    } else {
      return {};
    }
  }
  template <class T>
  static void launch(const void* args, cudaStream_t stream) {
#if defined(LADDER_HOST_EXECUTOR)
    const host::LaunchStream given(stream);
#endif
    V::launch(*static_cast<const typename Contract::template Args<T>*>(args), stream);
  }
  template <class T>
  static std::size_t workspace([[maybe_unused]] const void* args) {
    using Args = typename Contract::template Args<T>;
    if constexpr (requires(const Args& a) { V::workspace(a); }) {
      return V::workspace(*static_cast<const Args*>(args));
    } else {
      return 0;
    }
  }
  template <class T>
  static Support supports([[maybe_unused]] const void* problem) {
    using Problem = typename Contract::Problem;
    if constexpr (requires(const Problem& p) { V::template supports<T>(p); }) {
      return V::template supports<T>(*static_cast<const Problem*>(problem));
    } else if constexpr (requires(const Problem& p) { V::supports(p); }) {
      return V::supports(*static_cast<const Problem*>(problem));
    } else {
      return supported();
    }
  }
};

/// a / b rounded up; for a >= 0 and b > 0.
template <class A, class B>
__host__ __device__ constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

#if !defined(LADDER_HOST_EXECUTOR)
[[noreturn]] void throw_cuda_error(cudaError_t error);

/// Throws std::runtime_error with CUDA's description of the error, unless there is none.
inline void expect_success(cudaError_t error) {
  if (error != cudaSuccess) throw_cuda_error(error);
}
#endif

#if defined(__CUDACC__)

/// Dynamic shared memory of the running block, aligned to 128 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char ladder_dynamic_shared[];
  return reinterpret_cast<T*>(ladder_dynamic_shared);
}

/// Sets `bytes` bytes of device memory, in order with the stream's launches. Throws
/// std::runtime_error when CUDA refuses.
inline void fill_async(void* to, unsigned char byte, std::size_t bytes, cudaStream_t stream) {
  expect_success(cudaMemsetAsync(to, byte, bytes, stream));
}

/// Launches kernel<<<grid, block, shared_bytes, stream>>>(args...); a grid with no blocks is
/// nothing to do. Throws std::runtime_error when CUDA refuses the launch.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const auto* function = reinterpret_cast<const void*>(kernel);
  record_launch({function, grid, block, shared_bytes});
  if (shared_bytes > 48 * 1024) {  // more than every GPU grants unasked
    expect_success(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  expect_success(cudaLaunchKernelEx(&config, kernel, static_cast<P>(std::forward<A>(args))...));
}

#elif defined(LADDER_HOST_EXECUTOR)

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(host::dynamic_shared());
}

inline void fill_async(void* to, unsigned char byte, std::size_t bytes, cudaStream_t stream) {
  host::expect_stream(stream);
  if (bytes > 0) std::memset(to, byte, bytes);
}

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... args) {
  host::expect_stream(stream);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const auto* function = reinterpret_cast<const void*>(kernel);
  record_launch({function, grid, block, shared_bytes});
  host::expect_launch_bounds(function, block);
  host::run(grid, block, shared_bytes, [&] { kernel(static_cast<P>(args)...); });
}

#endif

}  // namespace ladder
