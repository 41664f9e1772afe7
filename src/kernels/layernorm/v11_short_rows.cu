// Idea      several short rows in a warp: a row belongs to 1, 2, 4, … or 32 lanes, with a vector's
//           worth of it in each, and a thread has four rows in flight
// Vs v10    rows of up to 32 vectors. There a row has at least half a warp, however short: of 8 bf16
//           columns, one vector, 15 of its 16 lanes do nothing. A thread has the same columns of its
//           rows, and their weight and bias in registers. Rows that are no whole number of vectors
//           are moved through shared memory, the block's as one piece, and have no singles
// Bound by  DRAM bandwidth
// Limits    rows of up to 512 bytes; x and y start at multiples of 16 bytes
// Tile      256 threads with 64 bytes each: device/short_rows.hpp
#include "device/floats.hpp"
#include "device/mean.hpp"
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

constexpr int kSteps = 4;  // rows of a thread

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
template <class Norm, class Rows, class T>
__global__ void __launch_bounds__(Rows::kBlock) short_rows(typename Norm::template Args<T> a) {
  using Vec = ladder::Vec128<T>;
  __shared__ typename Rows::Tile tile;
  const Rows rows(a.rows, a.cols);
  Vec in_flight[Rows::kVectors];
  typename Rows::Held x[Rows::kSteps];
  rows.fetch(a.x, blockIdx.x, in_flight);
  const ladder::Floats weight(rows.load_columns(a.weight));
  typename Rows::Held bias_held{};
  if constexpr (Norm::kCentred) bias_held = rows.load_columns(a.bias);
  const ladder::Floats bias(bias_held);
  rows.arrange(in_flight, blockIdx.x, tile, T(0.0f), x);
  const float inverse_cols = 1.0f / a.cols;
#pragma unroll
  for (int s = 0; s < Rows::kSteps; ++s) {
    ladder::Floats d(x[s]);
    float sum = 0, m2 = 0;  // m2: the sum of squared deviations
    float mean = 0;
    if constexpr (Norm::kCentred) {
#pragma unroll
      for (int e = 0; e < Rows::kElements; ++e) sum += d[e];
      mean = ladder::mean(ladder::warp_sum<Rows::kLanes>(sum), a.cols, inverse_cols);
    }
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) {
      d.element[e] -= mean;
      if (!Norm::kCentred || rows.has_column(e)) m2 += d[e] * d[e];
    }
    const float variance = ladder::warp_sum<Rows::kLanes>(m2) * inverse_cols;
    const float scale = rsqrtf(variance + a.epsilon);
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) {
      const float product = d[e] * scale * weight[e];
      x[s][e] = T(Norm::kCentred ? product + bias[e] : product);
    }
  }
  rows.store(x, a.y, blockIdx.x, tile);
}

}  // namespace

namespace row_norm {

template <class Norm, class T>
void launch_short_rows(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  ladder::with_short_rows_of_words<T, kSteps>(a.cols, [&]<class Rows>(std::type_identity<Rows>) {
    ladder::launch(short_rows<Norm, Rows, T>, static_cast<unsigned>(Rows::tiles(a.rows)),
                   Rows::kBlock, 0, stream, a);
  });
}

#define INSTANTIATE(Norm, T) \
  template void launch_short_rows<Norm>(const Norm::Args<T>&, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, )

}  // namespace row_norm

namespace {

struct ShortRows {
  // Several tiles, the last of them cut off, for each number of lanes; rows that are no whole vectors.
  static constexpr layernorm::Problem test_problems[] = {
      {2050, 8}, {1030, 3}, {700, 12}, {600, 24}, {300, 50}, {200, 100}, {100, 128}};
  static constexpr ladder::Version version{"several short rows in a warp"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_short_rows<layernorm>(a, stream);
  }
  template <class T>
  static ladder::Support supports(const layernorm::Problem& p) {
    if (p.cols <= ladder::kLongestShortRow<T>) return ladder::supported();
    return ladder::unsupported("rows of more than 512 bytes");
  }
};

const ladder::Register<ShortRows, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
