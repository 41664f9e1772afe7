// Idea      the number of threads is chosen by the row's length, from a warp to 1024, each with its
//           part of the row in registers
// Vs v04    128-bit loads and stores, a quarter (an eighth) of the instructions; x does not go through
//           shared memory, and all of a row is in flight before its first element is used, 128 bytes
//           (of 16-bit types 64) per thread; a row of up to 1024 elements is one warp's, with no
//           barrier
// Bound by  DRAM bandwidth
// Limits    columns that are a multiple of the vector's elements: other rows start between its
//           boundaries. What of a row is beyond 32768 elements, the registers of 1024 threads, is
//           read twice.
// Tile      a row is spread over kThreads threads of kElements elements each, by its length: see
//           device/row_length.hpp
#include "device/row_length.hpp"
#include "rmsnorm.hpp"

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
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) row_length(rmsnorm::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kVectors = Row::kVectors;
  __shared__ float warp_sums[kThreads / 32];
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
  const int t = threadIdx.x % kThreads;
  if (row >= a.rows) return;  // a whole warp

  // Thread t takes vectors t, t + kThreads, … of the row.
  const int vectors = a.cols / Vec::size;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  Vec held[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) held[k][e] = T(0.0f);  // beyond the row
    if (v < vectors) held[k] = Vec::load(x + v * Vec::size);
  }

  float sum_sq = 0;
  auto square = [&](const Vec& more) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float value = static_cast<float>(more[e]);
      sum_sq += value * value;
    }
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) square(held[k]);
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    square(Vec::load(x + v * Vec::size));
  }
  const float scale = rsqrtf(row_sum<kThreads>(sum_sq, warp_sums) / a.cols + a.epsilon);

  auto store_result = [&](int v, const Vec& value) {
    const Vec weight = Vec::load(a.weight + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(static_cast<float>(value[e]) * scale * static_cast<float>(weight[e]));
    }
    out.store(y + v * Vec::size);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= vectors) break;
    store_result(v, held[k]);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    store_result(v, Vec::load(x + v * Vec::size));
  }
}

struct RowLength {
  static constexpr ladder::Version version{"the row in registers, threads by its length"};

  template <class T>
  static ladder::Support supports(const rmsnorm::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }
  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, [&]<class Row>(Row) {
      ladder::launch(row_length<T, Row>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0,
                     stream, a);
    });
  }
};

const ladder::Register<RowLength, rmsnorm, float> registration;

}  // namespace
