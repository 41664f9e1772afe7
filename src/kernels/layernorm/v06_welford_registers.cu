// Idea      Welford's algorithm for a row in registers: each thread takes its elements one by one,
//           and the threads' moments are merged
// Vs v05    one reduction over the threads instead of two, for a reciprocal and a chain of
//           dependent operations per element. The second pass of v05 is over registers and costs no
//           memory access: all that Welford saves here is a barrier
// Bound by  the chain: each element waits for the mean of those before it
// Limits    as v05: columns that are a multiple of the vector's elements; what of a row is beyond
//           32768 elements is read twice.
// Tile      as v05: device/row_length.hpp
//
// It is no more accurate than two passes, of which the second starts from an exact enough mean: the
// largest errors stand beside the times in results/. The next versions continue from v05.
#include "device/row_length.hpp"
#include "layernorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

/// A number of elements, their mean, and the sum of their squared deviations from it.
struct Moments {
  float count, mean, m2;

  __device__ void add(float x) {
    count += 1;
    const float distance = x - mean;
    mean += distance * (1.0f / count);  // the reciprocal needs no x: it is ready before
    m2 += distance * (x - mean);
  }
  __device__ void add(const Moments& other) {
    const float both = count + other.count;
    const float weight = both > 0 ? other.count / both : 0;
    const float distance = other.mean - mean;
    mean += distance * weight;
    m2 += other.m2 + distance * distance * count * weight;
    count = both;
  }
};

/// Merges the moments of kLanes neighbouring lanes; all of the lanes get the result.
template <int kLanes>
__device__ Moments merge(Moments mine) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    mine.add(Moments{__shfl_xor_sync(kAllLanes, mine.count, distance),
                     __shfl_xor_sync(kAllLanes, mine.mean, distance),
                     __shfl_xor_sync(kAllLanes, mine.m2, distance)});
  }
  return mine;
}

/// Merges the moments of a row's kThreads threads; all of them get the result.
template <int kThreads>
__device__ Moments row_moments(Moments mine, Moments (&warp_moments)[kThreads / 32]) {
  mine = merge<32>(mine);
  if constexpr (kThreads > 32) {
    if (threadIdx.x % 32 == 0) warp_moments[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = merge<kThreads / 32>(warp_moments[threadIdx.x % (kThreads / 32)]);
  }
  return mine;
}

template <class T, class Row>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) welford(layernorm::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kVectors = Row::kVectors;
  __shared__ Moments warp_moments[kThreads / 32];
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

  Moments moments{0, 0, 0};
  auto take = [&](const Vec& more) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) moments.add(static_cast<float>(more[e]));
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (k * kThreads + t >= vectors) break;
    take(held[k]);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    take(Vec::load(x + v * Vec::size));
  }
  moments = row_moments<kThreads>(moments, warp_moments);
  const float scale = rsqrtf(moments.m2 / a.cols + a.epsilon);

  auto store_result = [&](int v, const Vec& value) {
    const Vec weight = Vec::load(a.weight + v * Vec::size);
    const Vec bias = Vec::load(a.bias + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float z = (static_cast<float>(value[e]) - moments.mean) * scale;
      out[e] = T(z * static_cast<float>(weight[e]) + static_cast<float>(bias[e]));
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

struct WelfordRegisters {
  static constexpr ladder::Version version{"Welford's way, the row in registers"};

  template <class T>
  static ladder::Support supports(const layernorm::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }
  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, [&]<class Row>(Row) {
      ladder::launch(welford<T, Row>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0, stream,
                     a);
    });
  }
};

const ladder::Register<WelfordRegisters, layernorm, float> registration;

}  // namespace
