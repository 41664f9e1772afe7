// Idea      several short rows in a warp: a row belongs to 1, 2, 4, … or 32 lanes, with a vector's
//           worth of it in each, and a thread has four rows in flight
// Vs v10    rows of up to 32 vectors. There a warp has one row, however short: of 8 bf16 columns,
//           one vector, 31 of its lanes do nothing. Rows that are no whole number of vectors are
//           moved through shared memory, the block's as one piece, and have no edges
// Bound by  DRAM bandwidth
// Limits    rows of up to 512 bytes; matrices start at multiples of 16 bytes
// Tile      256 threads with 64 bytes each: device/short_rows.hpp
#include "device/floats.hpp"
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "launchers.hpp"
#include "row.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

constexpr int kSteps = 4;  // rows of a thread

/// The largest value of kLanes neighbouring lanes; all of them get it.
template <int kLanes>
__device__ float lanes_max(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

template <class Op, class Rows, class T>
__global__ void __launch_bounds__(Rows::kBlock) short_rows(softmax::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  __shared__ typename Rows::Tile tile;
  const Rows rows(a.rows, a.cols);
  Vec in_flight[Rows::kVectors];
  typename Rows::Held held[Rows::kSteps];
  rows.fetch(a.x, blockIdx.x, in_flight);
  rows.arrange(in_flight, blockIdx.x, tile, T(-INFINITY), held);
#pragma unroll
  for (int s = 0; s < Rows::kSteps; ++s) {
    ladder::Floats d(held[s]);
    float exp_d[Rows::kElements], max = -FLT_MAX, sum = 0;
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) {
      max = fmaxf(max, d[e]);
    }
    max = lanes_max<Rows::kLanes>(max);
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) {
      d.element[e] -= max;
      exp_d[e] = fast_exp(d[e]);
      sum += exp_d[e];
    }
    sum = ladder::warp_sum<Rows::kLanes>(sum);
    if constexpr (std::is_same_v<Op, log_softmax>) {
      const float log_sum = logf(sum);
#pragma unroll
      for (int e = 0; e < Rows::kElements; ++e) held[s][e] = T(d[e] - log_sum);
    } else {
      const float scale = 1.0f / sum;
#pragma unroll
      for (int e = 0; e < Rows::kElements; ++e) held[s][e] = T(exp_d[e] * scale);
    }
  }
  rows.store(held, a.y, blockIdx.x, tile);
}

struct ShortRows {
  // Several tiles, the last of them cut off, for each number of lanes; rows that are no whole vectors.
  static constexpr softmax::Problem test_problems[] = {{2050, 8}, {1030, 3},  {700, 12}, {600, 24},
                                                       {300, 50}, {200, 100}, {100, 128}};
  static constexpr ladder::Version version{"several short rows in a warp"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    launch_short_rows<softmax>(a, stream);
  }
  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    if (p.cols <= ladder::kLongestShortRow<T>) return ladder::supported();
    return ladder::unsupported("rows of more than 512 bytes");
  }
};

const ladder::Register<ShortRows, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class Op, class T>
void launch_short_rows(const softmax::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  ladder::with_short_rows_of_words<T, kSteps>(a.cols, [&]<class Rows>(std::type_identity<Rows>) {
    ladder::launch(short_rows<Op, Rows, T>, static_cast<unsigned>(Rows::tiles(a.rows)),
                   Rows::kBlock, 0, stream, a);
  });
}

// Other versions call it too.
template void launch_short_rows<softmax>(const softmax::Args<float>&, cudaStream_t);
template void launch_short_rows<softmax>(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_short_rows<softmax>(const softmax::Args<ladder::bfloat16>&, cudaStream_t);
template void launch_short_rows<log_softmax>(const softmax::Args<float>&, cudaStream_t);
template void launch_short_rows<log_softmax>(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_short_rows<log_softmax>(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
