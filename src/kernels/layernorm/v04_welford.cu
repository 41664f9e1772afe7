// Idea      mean and variance in one pass: every element moves the mean so far, and adds to the
//           squared distances what it adds to them about the new mean (Welford, Note on a Method
//           for Calculating Corrected Sums of Squares and Products, 1962); threads are merged as
//           Chan, Golub and LeVeque do (Updating Formulae and a Pairwise Algorithm, 1979)
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

/// How many numbers there were, their mean, and the sum of their squared distances from it.
struct Moments {
  float count, mean, squares;

  __device__ void add(float x) {
    count += 1;
    const float distance = x - mean;
    mean += distance * (1.0f / count);  // the reciprocal needs no x: it is ready before
    squares += distance * (x - mean);
  }
  __device__ void add(const Moments& other) {
    const float both = count + other.count;
    const float share = both > 0 ? other.count / both : 0;
    const float distance = other.mean - mean;
    mean += distance * share;
    squares += other.squares + distance * distance * count * share;
    count = both;
  }
};

/// Merges what kLanes neighbouring lanes have; all of them get the result.
template <int kLanes>
__device__ Moments merge(Moments mine) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    mine.add(Moments{__shfl_xor_sync(kAllLanes, mine.count, distance),
                     __shfl_xor_sync(kAllLanes, mine.mean, distance),
                     __shfl_xor_sync(kAllLanes, mine.squares, distance)});
  }
  return mine;
}

template <class T>
__global__ void welford(layernorm::Args<T> a) {
  __shared__ Moments of_warp[kWarps];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;

  Moments row{0, 0, 0};
  for (int c = t; c < a.cols; c += kBlock) row.add(static_cast<float>(x[c]));
  row = merge<32>(row);
  if (lane == 0) of_warp[warp] = row;
  __syncthreads();
  row = merge<kWarps>(of_warp[lane % kWarps]);
  const float scale = rsqrtf(row.squares / a.cols + layernorm::kEpsilon);
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
