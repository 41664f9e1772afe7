// Idea      several short rows in a warp: a row belongs to 1, 2, 4, … or 32 lanes, with a vector's
//           worth of it in each, and a thread has four rows in flight
// Vs v11    rows of up to 32 vectors. There a row has at least half a warp, however short: of 8 bf16
//           columns, one vector, 15 of its 16 lanes do nothing. A thread has the same columns of its
//           rows, and their weights in registers. Rows that are no whole number of vectors
//           are moved through shared memory, the block's as one piece, and have no singles
// Bound by  DRAM bandwidth
// Limits    rows of up to 512 bytes; x and y start at multiples of 16 bytes
// Tile      256 threads with 64 bytes each: device/short_rows.hpp
#include "device/floats.hpp"
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "launchers.hpp"

namespace {

constexpr int kSteps = 4;  // rows of a thread

template <class Rows, class T>
__global__ void __launch_bounds__(Rows::kBlock) short_rows(rmsnorm::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  __shared__ typename Rows::Tile tile;
  const Rows rows(a.rows, a.cols);
  Vec in_flight[Rows::kVectors];
  typename Rows::Held x[Rows::kSteps];
  rows.fetch(a.x, blockIdx.x, in_flight);
  const ladder::Floats weight(rows.load_columns(a.weight));
  rows.arrange(in_flight, blockIdx.x, tile, T(0.0f), x);
  const float inverse_cols = 1.0f / a.cols;
#pragma unroll
  for (int s = 0; s < Rows::kSteps; ++s) {
    const ladder::Floats x_s(x[s]);
    float sum_sq = 0;
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) sum_sq += x_s[e] * x_s[e];
    const float mean_sq = ladder::warp_sum<Rows::kLanes>(sum_sq) * inverse_cols;
    const float scale = rsqrtf(mean_sq + a.epsilon);
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) x[s][e] = T(x_s[e] * scale * weight[e]);
  }
  rows.store(x, a.y, blockIdx.x, tile);
}

}  // namespace

namespace rmsnorm_rows {

template <class T>
void launch_short_rows(const rmsnorm::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  ladder::with_short_rows_of_words<T, kSteps>(a.cols, [&]<class Rows>(std::type_identity<Rows>) {
    ladder::launch(short_rows<Rows, T>, static_cast<unsigned>(Rows::tiles(a.rows)), Rows::kBlock, 0,
                   stream, a);
  });
}
template void launch_short_rows(const rmsnorm::Args<float>&, cudaStream_t);
template void launch_short_rows(const rmsnorm::Args<ladder::half>&, cudaStream_t);
template void launch_short_rows(const rmsnorm::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace rmsnorm_rows

namespace {

struct ShortRows {
  // Several tiles, the last of them cut off, for each number of lanes; rows that are no whole vectors.
  static constexpr rmsnorm::Problem test_problems[] = {{2050, 8}, {1030, 3},  {700, 12}, {600, 24},
                                                       {300, 50}, {200, 100}, {100, 128}};
  static constexpr ladder::Version version{"several short rows in a warp"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    rmsnorm_rows::launch_short_rows(a, stream);
  }
  template <class T>
  static ladder::Support supports(const rmsnorm::Problem& p) {
    if (p.cols <= ladder::kLongestShortRow<T>) return ladder::supported();
    return ladder::unsupported("rows of more than 512 bytes");
  }
};

const ladder::Register<ShortRows, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
