// Idea      mean and variance in one pass: every element updates the running mean and m2, the sum
//           of squared deviations from it (Welford, Note on a Method for Calculating Corrected Sums
//           of Squares and Products, 1962); the threads' moments are merged as in Chan, Golub and
//           LeVeque, Updating Formulae and a Pairwise Algorithm, 1979
// Vs v03    x is read twice, not three times, and one reduction per row is left
// Bound by  DRAM bandwidth: 3n where x does not stay in the caches between the passes; 4-byte
//           loads, each of which the running mean has to wait for. Slower than v03 where the second
//           pass came from a cache anyway: each element now costs a division, in a chain. It stands
//           here because it needs one pass whatever the row's length, and is accurate
// Limits    none
#include "layernorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

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

template <class T>
__global__ void welford(layernorm::Args<T> a) {
  __shared__ Moments warp_moments[kWarps];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;

  Moments row{0, 0, 0};
  for (int c = t; c < a.cols; c += kBlock) row.add(static_cast<float>(x[c]));
  row = merge<32>(row);
  if (lane == 0) warp_moments[warp] = row;
  __syncthreads();
  row = merge<kWarps>(warp_moments[lane % kWarps]);
  const float scale = rsqrtf(row.m2 / a.cols + a.epsilon);
  for (int c = t; c < a.cols; c += kBlock) {
    const float z = (static_cast<float>(x[c]) - row.mean) * scale;
    y[c] = T(z * static_cast<float>(a.weight[c]) + static_cast<float>(a.bias[c]));
  }
}

struct Welford {
  static constexpr ladder::Version version{"mean and variance in one pass"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch(welford<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<Welford, layernorm, float> registration;

}  // namespace
