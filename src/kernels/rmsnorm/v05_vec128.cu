// Idea      128-bit loads and stores, of memory and of shared memory
// Vs v04    a quarter (an eighth) of the instructions, and 16 bytes in flight with each load
// Bound by  latency of rows that are too short for 256 threads, which then wait for each other with
//           nothing in flight; of long ones, shared memory, through which all of x goes
// Limits    columns that are a multiple of the vector's elements: other rows start between its
//           boundaries. What of a row is beyond 48 KiB is read twice.
#include "device/row_length.hpp"
#include "rmsnorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

/// The vectors of a row that shared memory holds: what every GPU grants unasked, less
/// warp_sums.
constexpr int kMostHeld = (48 * 1024 - 128) / 16;

/// The sum over the block's threads; all of them get it.
__device__ float block_sum(float value, float (&warp_sums)[kWarps]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  if (lane == 0) warp_sums[warp] = value;
  __syncthreads();
  value = warp_sums[lane % kWarps];  // every warp adds them again: cheaper than a broadcast
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

template <class T>
__global__ void vec128(rmsnorm::Args<T> a, int held_vectors) {
  __shared__ float warp_sums[kWarps];
  using Vec = ladder::Vec128<T>;
  T* const held = ladder::dynamic_shared<T>();  // threads read what they wrote: no barrier
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int vectors = a.cols / Vec::size;

  float sum_sq = 0;
  auto square = [&](const Vec& more) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float value = static_cast<float>(more[e]);
      sum_sq += value * value;
    }
  };
  int v = threadIdx.x;
  for (; v < held_vectors; v += kBlock) {
    const Vec more = Vec::load(x + v * Vec::size);
    more.store(held + v * Vec::size);
    square(more);
  }
  for (; v < vectors; v += kBlock) square(Vec::load(x + v * Vec::size));
  const float scale = rsqrtf(block_sum(sum_sq, warp_sums) / a.cols + a.epsilon);
  auto store_result = [&](int at, const Vec& value) {
    const Vec weight = Vec::load(a.weight + at * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(static_cast<float>(value[e]) * scale * static_cast<float>(weight[e]));
    }
    out.store(y + at * Vec::size);
  };
  v = threadIdx.x;
  for (; v < held_vectors; v += kBlock) store_result(v, Vec::load(held + v * Vec::size));
  for (; v < vectors; v += kBlock) store_result(v, Vec::load(x + v * Vec::size));
}

struct Vec128 {
  static constexpr ladder::Version version{"128-bit vectors"};

  template <class T>
  static ladder::Support supports(const rmsnorm::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    using Vec = ladder::Vec128<T>;
    const int held_vectors = min(a.cols / Vec::size, kMostHeld);
    ladder::launch(vec128<T>, a.rows, kBlock, held_vectors * sizeof(Vec), stream, a, held_vectors);
  }
};

const ladder::Register<Vec128, rmsnorm, float> registration;

}  // namespace
