// Idea      128-bit loads and stores, and the row stays in registers: x is read from memory once,
//           and the two passes, first the mean, then the variance about it, cost no memory
// Vs v04    the traffic is the compulsory 2n, with 128 bytes (of 16-bit types 64) in flight per
//           thread; no division per element
// Bound by  DRAM bandwidth; from 32768 columns on the L2's too, from which every row reads weight
//           and bias again
// Limits    columns that are a multiple of the vector's elements: other rows start between its
//           boundaries. What of a row is beyond 32768 elements, the registers of 1024 threads, is
//           read three times, as in v03.
// Tile      a row is spread over kThreads threads of kElements elements each, by its length: see
//           device/row_length.hpp
#include "device/row_length.hpp"
#include "layernorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

/// The sum over kLanes neighbouring lanes; all of them get it.
template <int kLanes>
__device__ float warp_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// The sum over the kThreads threads of a row; all of them get it.
template <int kThreads>
__device__ float row_sum(float value, float (&warp_sums)[kThreads / 32]) {
  value = warp_sum<32>(value);
  if constexpr (kThreads > 32) {
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
    __syncthreads();
    value = warp_sum<kThreads / 32>(warp_sums[threadIdx.x % (kThreads / 32)]);
  }
  return value;
}

template <class T, class Row>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) vec128(layernorm::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kElements = Row::kElements, kVectors = Row::kVectors;
  __shared__ float warp_sums[kThreads / 32], warp_m2[kThreads / 32];
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
  const int t = threadIdx.x % kThreads;
  if (row >= a.rows) return;  // a whole warp

  // Thread t takes vectors t, t + kThreads, … of the row.
  const int vectors = a.cols / Vec::size;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  Vec loaded[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(0.0f);  // beyond the row
    if (v < vectors) loaded[k] = Vec::load(x + v * Vec::size);
  }

  float held[kElements];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = static_cast<float>(loaded[i / Vec::size][i % Vec::size]);
    sum += held[i];
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) sum += static_cast<float>(more[e]);
  }
  const float mean = row_sum<kThreads>(sum, warp_sums) / a.cols;

  float m2 = 0;  // the sum of squared deviations
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (k * kThreads + t >= vectors) break;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float distance = held[k * Vec::size + e] - mean;
      m2 += distance * distance;
    }
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float distance = static_cast<float>(more[e]) - mean;
      m2 += distance * distance;
    }
  }
  const float variance = row_sum<kThreads>(m2, warp_m2) / a.cols;
  const float scale = rsqrtf(variance + a.epsilon);

  auto result = [&](float value, float weight, float bias) {
    return T((value - mean) * scale * weight + bias);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= vectors) break;
    const Vec weight = Vec::load(a.weight + v * Vec::size);
    const Vec bias = Vec::load(a.bias + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = result(held[k * Vec::size + e], static_cast<float>(weight[e]),
                      static_cast<float>(bias[e]));
    }
    out.store(y + v * Vec::size);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
    const Vec weight = Vec::load(a.weight + v * Vec::size);
    const Vec bias = Vec::load(a.bias + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = result(static_cast<float>(more[e]), static_cast<float>(weight[e]),
                      static_cast<float>(bias[e]));
    }
    out.store(y + v * Vec::size);
  }
}

struct Vec128 {
  static constexpr ladder::Version version{"128-bit vectors, the row in registers"};

  template <class T>
  static ladder::Support supports(const layernorm::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }
  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, [&]<class Row>(Row) {
      ladder::launch(vec128<T, Row>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0, stream,
                     a);
    });
  }
};

const ladder::Register<Vec128, layernorm, float> registration;

}  // namespace
