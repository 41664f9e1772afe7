// Idea      rows may start anywhere: a few single elements up to the first multiple of 16 bytes,
//           then whole vectors, then singles again. And a thread holds 128 bytes of the row in the
//           element type, 64 of an fp32 row of up to 8192 elements
// Vs v06    128-bit accesses for every number of columns, not only for multiples of the vector; of
//           16-bit types twice as much in flight per thread
// Bound by  DRAM bandwidth; of short rows the latency of the weights, which are loaded after the
//           row's sum is known
// Limits    none. x and y start at multiples of 16 bytes. What of a row is beyond 128 KiB, the
//           registers of 1024 threads, is read twice.
// Tile      a row is spread over the smallest team of threads that holds it: device/row_team.hpp
//
// The weights do not shift with the rows: a vector of them is assembled from two aligned ones.
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "kernels/row_norm/columns_of.hpp"
#include "rmsnorm.hpp"

namespace {

/// The most vectors that a thread holds. Of fp32 rows of up to 8192 elements it holds half as many:
/// on an H100, 64 bytes in each of more threads are faster than 128 for those.
constexpr int kMostVectors = 8;
template <class T>
constexpr int kVectorsOfShort = sizeof(T) == 4 ? 4 : kMostVectors;

template <class T, class Team, int kVectors, bool kAligned>
__global__ void __launch_bounds__(Team::kBlock, 1024 / Team::kBlock) any_start(rmsnorm::Args<T> a) {
  __shared__ ladder::SumStorage<Team> of_sum_sq;
  using Vec = ladder::Vec128<T>;
  constexpr int kThreads = Team::kThreads;
  const int t = Team::rank();
  const std::int64_t row = Team::row(), start = row * a.cols;
  const ladder::RowSpan<T, kAligned> span(start, row_norm::columns_of(a, row));
  const int single_at = span.single(t);
  const T* const x = a.x + start;

  // Thread t holds vectors t, t + kThreads, … of the row, and at most one single. Streaming loads
  // are faster for short rows on an H100, and slower for long ones.
  Vec held[kVectors];
  T single = T(0.0f);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) held[k][e] = T(0.0f);  // beyond the row
    if (v >= span.vectors) continue;
    const T* const vector = x + span.column(v);
    held[k] = kThreads <= 32 ? Vec::load_streaming(vector) : Vec::load(vector);
  }
  if (single_at >= 0) single = x[single_at];

  // Vectors that registers do not hold: each pass reads them again.
  auto for_rest = [&](auto use) {
    if constexpr (!Team::kHoldsAll) {
      for (int v = kVectors * kThreads + t; v < span.vectors; v += kThreads) use(span.column(v));
    }
  };
  auto for_each = [&](auto use) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      ladder::stay_packed(held[k]);
      if (k * kThreads + t >= span.vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(held[k][e]));
    }
    for_rest([&](int c) {
      const Vec rest = Vec::load(x + c);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(rest[e]));
    });
    if (single_at >= 0) use(static_cast<float>(single));
  };
  float sum_sq = 0;
  for_each([&](float value) { sum_sq += value * value; });
  const float mean_sq = ladder::team_sum<Team>(sum_sq, of_sum_sq) / a.cols;
  const float scale = rsqrtf(mean_sq + a.epsilon);

  auto result = [&](T value, T weight) {
    return T(static_cast<float>(value) * scale * static_cast<float>(weight));
  };
  T* const y = a.y + start;
  auto store_results = [&](int c, const Vec& values) {
    const Vec weight = ladder::load_anywhere<kAligned>(a.weight, c, a.cols);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = result(values[e], weight[e]);
    out.store(y + c);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= span.vectors) break;
    ladder::stay_packed(held[k]);
    store_results(span.column(v), held[k]);
  }
  for_rest([&](int c) { store_results(c, Vec::load(x + c)); });
  if (single_at >= 0) y[single_at] = result(single, a.weight[single_at]);
}

struct AnyStart {
  static constexpr ladder::Version version{"rows that start anywhere, in 128-bit vectors"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    constexpr int kSize = ladder::Vec128<T>::size;
    ladder::launch_by_team<kMostVectors, kVectorsOfShort<T>>(
        a.cols / kSize, [&]<class Team, int kVectors>(Team, std::integral_constant<int, kVectors>) {
          auto* const kernel = a.cols % kSize == 0 ? any_start<T, Team, kVectors, true>
                                                   : any_start<T, Team, kVectors, false>;
          ladder::launch(kernel, Team::blocks(a.rows), Team::kBlock, 0, stream, a);
        });
  }
};

const ladder::Register<AnyStart, rmsnorm, float> registration;

}  // namespace
