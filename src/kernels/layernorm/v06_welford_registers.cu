// Idea      Welford's way for a row in registers: each thread takes its elements one by one, the
//           threads' means and squares are merged
// Vs v05    one exchange between the threads instead of two, for a reciprocal and a chain of
//           dependent operations per element. The second pass of v05 is over registers and costs no
//           memory: here Welford has nothing to save but a barrier, and shows its price
// Bound by  the chain: each element waits for the mean of those before it
// Limits    as v05: columns that are a multiple of the vector's elements; what of a row is beyond
//           32768 elements is read twice.
// Tile      as v05: device/row_length.hpp
//
// It is no more accurate than two passes, of which the second starts from an exact enough mean: the
// largest errors stand beside the times in results/. The versions after this one go on from v05.
#include "device/row_length.hpp"
#include "layernorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

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

/// Merges what the kThreads threads of a row have; all of them get the result.
template <int kThreads>
__device__ Moments row_moments(Moments mine) {
  mine = merge<32>(mine);
  if constexpr (kThreads > 32) {
    __shared__ Moments of_warp[kThreads / 32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = merge<kThreads / 32>(of_warp[threadIdx.x % (kThreads / 32)]);
  }
  return mine;
}

template <class T, class Row>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) welford(layernorm::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kVectors = Row::kVectors;
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

  Moments of_row{0, 0, 0};
  auto take = [&](const Vec& more) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) of_row.add(static_cast<float>(more[e]));
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
  of_row = row_moments<kThreads>(of_row);
  const float scale = rsqrtf(of_row.squares / a.cols + layernorm::kEpsilon);

  auto store_result = [&](int v, const Vec& value) {
    const Vec weight = Vec::load(a.weight + v * Vec::size);
    const Vec bias = Vec::load(a.bias + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float z = (static_cast<float>(value[e]) - of_row.mean) * scale;
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
