// The kernel of the higher rungs of LayerNorm and RMSNorm: a team of threads holds a row in
// registers, as it came from memory, up to 128 bytes in each thread. Rows may start anywhere.
//
// Norm is one of the operations of layernorm.hpp or rmsnorm.hpp; Team, from device/row_team.hpp,
// is chosen by the row's length.
#pragma once

#include "device/ptx/cp_async.hpp"
#include "device/ptx/prefetch.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"

namespace layernorm_rows {

/// The most vectors that a thread holds. With a residual there are two rows to wait for.
template <class Norm>
constexpr int kVectors = Norm::kAdds ? 4 : 8;

/// Those of a thread where up to 512 threads hold the row with so many: of short fp32 rows, 64 bytes
/// in each of more threads are faster than 128 on an H100.
template <class Norm, class T>
constexpr int kVectorsOfShort = sizeof(T) == 4 ? 4 : kVectors<Norm>;

/// How weight and bias come.
enum class Weights {
  late,        ///< when the row's sum is known
  prefetched,  ///< the first threads of the grid ask for them before all else
  parked,      ///< with the row, to shared memory; RMSNorm only
};

/// How they come where kWanted is wanted. RMSNorm's short fp32 rows in whole vectors have theirs
/// late: with 32 registers, and no more are needed so, a multiprocessor has room for 2048 threads.
/// Only whole vectors can be parked.
template <class Norm, int kHeld, bool kAligned, Weights kWanted>
constexpr Weights kTaken = [] {
  if (!Norm::kCentred && kAligned && kHeld < kVectors<Norm>) return Weights::late;
  return kWanted == Weights::parked && !kAligned ? Weights::prefetched : kWanted;
}();

/// What one team does.
template <class Norm, class T, class Team, int kHeld, bool kAligned, Weights kWeights>
__device__ void normalize_row(const typename Norm::template Args<T>& a) {
  using Vec = ladder::Vec128<T>;
  constexpr int kThreads = Team::kThreads;
  constexpr bool kParks = kWeights == Weights::parked;
  static_assert(!kParks || !(Norm::kCentred || Norm::kAdds));
  if constexpr (kWeights == Weights::prefetched) {
    constexpr int kLine = ladder::ptx::kLineBytes / static_cast<int>(sizeof(T));
    const std::int64_t c = (std::int64_t{blockIdx.x} * Team::kBlock + threadIdx.x) * kLine;
    if (c < a.cols) {
      ladder::ptx::prefetch_l2(a.weight + c);
      if constexpr (Norm::kCentred) ladder::ptx::prefetch_l2(a.bias + c);
    }
  }
  const int t = Team::rank();
  const std::int64_t row = Team::row(), start = row * a.cols;
  // A team beyond the last row has no columns: it keeps the others of its warp company.
  const ladder::RowSpan<T, kAligned> span(start, row < a.rows ? a.cols : 0);
  const int single_at = span.single(t);

  // Thread t takes vectors t, t + kThreads, … of the row, and maybe a single. Streaming loads are
  // faster for short rows on an H100, and slower for long ones.
  Vec held[kHeld];
  T single = T(0.0f);
  auto load = [&](const T* from, Vec(&to)[kHeld], T& to_single) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kThreads + t;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) to[k][e] = T(0.0f);  // beyond the row
      if (v >= span.vectors) continue;
      const T* const vector = from + span.column(v);
      to[k] = kThreads <= 32 ? Vec::load_streaming(vector) : Vec::load(vector);
    }
    if (single_at >= 0) to_single = from[single_at];
  };
  load(a.x + start, held, single);
  auto parked = [](int k) {  // each thread's weights are its own: no barrier is needed
    return ladder::dynamic_shared<Vec>() + k * Team::kBlock + threadIdx.x;
  };
  if constexpr (kParks) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kThreads + t;
      if (v >= span.vectors) break;
      ladder::ptx::cp_async_ca<16>(parked(k), a.weight + span.column(v));
    }
    ladder::ptx::cp_async_commit_group();
  }
  auto for_rest = [&](auto use) {  // the vectors that are not held
    if constexpr (!Team::kHoldsAll) {
      for (int v = kHeld * kThreads + t; v < span.vectors; v += kThreads) use(span.column(v));
    }
  };
  const T* row_at = a.x + start;  // where the row is read again, as far as it is not held
  if constexpr (Norm::kAdds) {
    auto add = [](T x, T more) { return T(static_cast<float>(x) + static_cast<float>(more)); };
    auto add_vectors = [&](const Vec& x, const Vec& more) {
      Vec sum;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum[e] = add(x[e], more[e]);
      return sum;
    };
    const T* const residual = a.residual + start;
    T* const sum = a.sum + start;
    Vec more[kHeld];
    T more_single = T(0.0f);
    load(residual, more, more_single);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kThreads + t;
      if (v >= span.vectors) break;
      held[k] = add_vectors(held[k], more[k]);
      held[k].store(sum + span.column(v));
    }
    for_rest([&](int c) {
      const Vec x = Vec::load(row_at + c);
      add_vectors(x, Vec::load(residual + c)).store(sum + c);
    });
    if (single_at >= 0) {
      single = add(single, more_single);
      sum[single_at] = single;
    }
    row_at = sum;  // each thread reads what it wrote itself
  }

  auto for_each = [&](auto use) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      ladder::stay_packed(held[k]);
      if (k * kThreads + t >= span.vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(held[k][e]));
    }
    for_rest([&](int c) {
      const Vec more = Vec::load(row_at + c);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(more[e]));
    });
    if (single_at >= 0) use(static_cast<float>(single));
  };
  float mean = 0;
  if constexpr (Norm::kCentred) {
    float sum = 0;
    for_each([&](float x) { sum += x; });
    mean = ladder::team_sum<Team, 0>(sum) / a.cols;
  }
  float squares = 0;
  for_each([&](float x) { squares += (x - mean) * (x - mean); });
  const float variance = ladder::team_sum<Team, 1>(squares) / a.cols;
  const float scale = rsqrtf(variance + Norm::kEpsilon);
  Team::leave();

  auto result = [&](T x, T weight, T bias) {
    const float z = (static_cast<float>(x) - mean) * scale;
    return T(z * static_cast<float>(weight) + static_cast<float>(bias));
  };
  T* const y = a.y + start;
  auto store_results = [&](int c, const Vec& x, int k) {  // k: kHeld where x was not held
    const bool is_parked = kParks && k < kHeld;
    const Vec weight =
        is_parked ? *parked(k) : ladder::load_anywhere<kAligned>(a.weight, c, a.cols);
    Vec bias{};
    if constexpr (Norm::kCentred) bias = ladder::load_anywhere<kAligned>(a.bias, c, a.cols);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = result(x[e], weight[e], bias[e]);
    out.store(y + c);
  };
  if constexpr (kParks) ladder::ptx::cp_async_wait_group<0>();
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int v = k * kThreads + t;
    if (v >= span.vectors) break;
    ladder::stay_packed(held[k]);
    store_results(span.column(v), held[k], k);
  }
  for_rest([&](int c) { store_results(c, Vec::load(row_at + c), kHeld); });
  if (single_at >= 0) {
    T bias{};
    if constexpr (Norm::kCentred) bias = a.bias[single_at];
    y[single_at] = result(single, a.weight[single_at], bias);
  }
}

template <class Norm, class T, class Team, int kHeld, bool kAligned, Weights kWeights>
__global__ void __launch_bounds__(Team::kBlock, 1024 / Team::kBlock)
    normalize(typename Norm::template Args<T> a) {
  normalize_row<Norm, T, Team, kHeld, kAligned, kWeights>(a);
}

/// By the row's length: from 16 lanes to a block of 1024 threads. What of a row is beyond the
/// registers of a block is read again.
template <class Norm, Weights kWanted, class T>
void launch_normalize(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  constexpr int kSize = ladder::Vec128<T>::size;
  ladder::launch_by_team<kVectors<Norm>, kVectorsOfShort<Norm, T>>(
      a.cols / kSize, [&]<class Team, int kHeld>(Team, std::integral_constant<int, kHeld>) {
        auto launch = [&]<bool kAligned>(std::bool_constant<kAligned>) {
          constexpr Weights kWeights = kTaken<Norm, kHeld, kAligned, kWanted>;
          constexpr int kPlaces = kWeights == Weights::parked ? kHeld * Team::kBlock : 0;
          ladder::launch(normalize<Norm, T, Team, kHeld, kAligned, kWeights>, Team::blocks(a.rows),
                         Team::kBlock, kPlaces * sizeof(ladder::Vec128<T>), stream, a);
        };
        a.cols % kSize == 0 ? launch(std::true_type{}) : launch(std::false_type{});
      });
}

}  // namespace layernorm_rows
