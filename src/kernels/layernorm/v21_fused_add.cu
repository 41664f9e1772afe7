// Idea      v08 with one step more: the residual is added as soon as the row has been loaded
// Vs v20    one launch, and the sum, which is written for the next layer, is not read again: 4n
// Bound by  DRAM bandwidth
// Limits    none. x, residual, y and sum start at multiples of 16 bytes. What of a row is beyond 64
//           KiB, half the registers of 1024 threads, is read three times: the other half is for the
//           residual.
// Tile      as v07, with 64 bytes of the row in a thread
#include "device/ptx/prefetch.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "kernels/row_norm/columns_of.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

/// The vectors that a thread holds; as many of the residual are in flight with them.
constexpr int kHeldVectors = 4;

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
template <class Norm, class T, class Team, int kVectors, bool kAligned>
__global__ void __launch_bounds__(Team::kBlock, 1024 / Team::kBlock)
    fused_add(typename Norm::template Args<T> a) {
  __shared__ ladder::SumStorage<Team> of_total, of_m2;
  using Vec = ladder::Vec128<T>;
  constexpr int kThreads = Team::kThreads;
  // The first threads of the grid prefetch weight and bias, a cache line each.
  constexpr int kLine = ladder::ptx::kLineBytes / static_cast<int>(sizeof(T));
  const std::int64_t line_at = (std::int64_t{blockIdx.x} * Team::kBlock + threadIdx.x) * kLine;
  if (line_at < a.cols) {
    ladder::ptx::prefetch_l2(a.weight + line_at);
    if constexpr (Norm::kCentred) ladder::ptx::prefetch_l2(a.bias + line_at);
  }
  const int t = Team::rank();
  const std::int64_t row = Team::row(), start = row * a.cols;
  const ladder::RowSpan<T, kAligned> span(start, row_norm::columns_of(a, row));
  const int single_at = span.single(t);
  const T* const x = a.x + start;
  const T* const residual = a.residual + start;
  T* const sum = a.sum + start;

  // Thread t loads vectors t, t + kThreads, … of x and of the residual, and at most one single.
  auto load = [&](const T* from, Vec(&to)[kVectors], T& to_single) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) to[k][e] = T(0.0f);  // beyond the row
      if (v >= span.vectors) continue;
      const T* const vector = from + span.column(v);
      to[k] = kThreads <= 32 ? Vec::load_streaming(vector) : Vec::load(vector);
    }
    if (single_at >= 0) to_single = from[single_at];
  };
  Vec held[kVectors], more[kVectors];
  T single = T(0.0f), more_single = T(0.0f);
  load(x, held, single);
  load(residual, more, more_single);

  // Vectors that registers do not hold: each pass reads them again.
  auto for_rest = [&](auto use) {
    if constexpr (!Team::kHoldsAll) {
      for (int v = kVectors * kThreads + t; v < span.vectors; v += kThreads) use(span.column(v));
    }
  };
  auto add = [](T one, T other) { return T(static_cast<float>(one) + static_cast<float>(other)); };
  auto add_vectors = [&](const Vec& one, const Vec& other) {
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = add(one[e], other[e]);
    return out;
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= span.vectors) break;
    held[k] = add_vectors(held[k], more[k]);
    held[k].store(sum + span.column(v));
  }
  for_rest([&](int c) {  // each thread reads later what it writes here itself
    const Vec rest = Vec::load(x + c);
    add_vectors(rest, Vec::load(residual + c)).store(sum + c);
  });
  if (single_at >= 0) {
    single = add(single, more_single);
    sum[single_at] = single;
  }

  auto for_each = [&](auto use) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      ladder::stay_packed(held[k]);
      if (k * kThreads + t >= span.vectors) break;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(held[k][e]));
    }
    for_rest([&](int c) {
      const Vec rest = Vec::load(sum + c);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(rest[e]));
    });
    if (single_at >= 0) use(static_cast<float>(single));
  };
  float mean = 0;
  if constexpr (Norm::kCentred) {
    float total = 0;
    for_each([&](float value) { total += value; });
    mean = ladder::team_sum<Team>(total, of_total) / a.cols;
  }
  float m2 = 0;  // the sum of squared deviations
  for_each([&](float value) { m2 += (value - mean) * (value - mean); });
  const float variance = ladder::team_sum<Team>(m2, of_m2) / a.cols;
  const float scale = rsqrtf(variance + a.epsilon);

  auto result = [&](T value, T weight, T bias) {
    const float z = (static_cast<float>(value) - mean) * scale;
    const float product = z * static_cast<float>(weight);
    return T(Norm::kCentred ? product + static_cast<float>(bias) : product);
  };
  T* const y = a.y + start;
  auto store_results = [&](int c, const Vec& values) {
    const Vec weight = ladder::load_anywhere<kAligned>(a.weight, c, a.cols);
    Vec bias{};
    if constexpr (Norm::kCentred) bias = ladder::load_anywhere<kAligned>(a.bias, c, a.cols);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = result(values[e], weight[e], bias[e]);
    out.store(y + c);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= span.vectors) break;
    ladder::stay_packed(held[k]);
    store_results(span.column(v), held[k]);
  }
  for_rest([&](int c) { store_results(c, Vec::load(sum + c)); });
  if (single_at >= 0) {
    T bias = T(0.0f);
    if constexpr (Norm::kCentred) bias = a.bias[single_at];
    y[single_at] = result(single, a.weight[single_at], bias);
  }
}

}  // namespace

namespace row_norm {

template <class Norm, class T>
void launch_fused_add(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  constexpr int kSize = ladder::Vec128<T>::size;
  ladder::launch_by_team<kHeldVectors, kHeldVectors>(
      a.cols / kSize, [&]<class Team, int kVectors>(Team, std::integral_constant<int, kVectors>) {
        auto* const kernel = a.cols % kSize == 0 ? fused_add<Norm, T, Team, kVectors, true>
                                                 : fused_add<Norm, T, Team, kVectors, false>;
        ladder::launch(kernel, Team::blocks(a.rows), Team::kBlock, 0, stream, a);
      });
}

#define INSTANTIATE(Norm, T) \
  template void launch_fused_add<Norm>(const Norm::Args<T>&, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, _add)

}  // namespace row_norm

namespace {

struct FusedAdd {
  static constexpr ladder::Version version{"x + residual and its LayerNorm in one launch"};

  template <class T>
  static void launch(const layernorm_add::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_fused_add<layernorm_add>(a, stream);
  }
};

const ladder::Register<FusedAdd, layernorm_add, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
