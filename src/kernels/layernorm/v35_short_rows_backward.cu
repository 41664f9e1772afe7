// Idea      several short rows in a warp, as v11 has them, taken by persistent blocks as in v32: a
//           thread has the same columns of all its rows, and their sums over the rows in registers
// Vs v34    rows of up to 32 vectors, of which v32, whose they are there, has one in a warp. The next
//           rows are in flight while these are reduced and stored
// Bound by  DRAM bandwidth; for small matrices by the end: the block's sums, the second launch
// Limits    rows of up to 512 bytes; x, dy and dx start at multiples of 16 bytes
// Tile      256 threads with 32 bytes of x and of dy, of 16-bit elements 16: device/short_rows.hpp
#include "device/floats.hpp"
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "device/sm_count.hpp"
#include "kernels/row_norm/launchers.hpp"
#include "kernels/row_norm/short_column_sums.hpp"

namespace {

/// Rows of a thread. Of 16-bit ones a vector has twice as many elements, each a register or more.
template <class T>
constexpr int kSteps = sizeof(T) == 4 ? 2 : 1;
template <class T>
constexpr int kBlocksOfSm = 4 / kSteps<T>;

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
/// partials: [of the grid's blocks][sums][a row's elements]
template <class Norm, class Rows, class T>
__global__ void __launch_bounds__(Rows::kBlock, kBlocksOfSm<T>)
    short_rows_backward(typename Norm::template Args<T> a, float* partials) {
  using Vec = ladder::Vec128<T>;
  constexpr int kSums = row_norm::kSums<Norm>;
  __shared__ typename Rows::Tile x_tile, dy_tile;
  __shared__ row_norm::ShortColumnSums<Rows, kSums> column_sums;
  const Rows rows(a.rows, a.cols);
  const auto weight = rows.load_columns(a.weight);
  const float inverse_cols = 1.0f / a.cols;
  float dweight[Rows::kElements] = {}, dbias[Rows::kElements] = {};

  Vec next_x[Rows::kVectors], next_dy[Rows::kVectors];
  rows.fetch(a.x, blockIdx.x, next_x);
  rows.fetch(a.dy, blockIdx.x, next_dy);
  for (std::int64_t n = blockIdx.x; n < rows.tiles(); n += gridDim.x) {
    Vec x_here[Rows::kVectors], dy_here[Rows::kVectors];
#pragma unroll
    for (int i = 0; i < Rows::kVectors; ++i) {
      x_here[i] = next_x[i];
      dy_here[i] = next_dy[i];
    }
    if (n + gridDim.x < rows.tiles()) {
      rows.fetch(a.x, n + gridDim.x, next_x);
      rows.fetch(a.dy, n + gridDim.x, next_dy);
    }
    typename Rows::Held x[Rows::kSteps], dy[Rows::kSteps];
    rows.arrange(x_here, n, x_tile, T(0.0f), x);
    rows.arrange(dy_here, n, dy_tile, T(0.0f), dy);
#pragma unroll
    for (int s = 0; s < Rows::kSteps; ++s) {
      ladder::Floats d(x[s]);
      const ladder::Floats dy_s(dy[s]), weight_s(weight);
      float mean = 0;
      if constexpr (Norm::kCentred) {
        float sum = 0;
#pragma unroll
        for (int e = 0; e < Rows::kElements; ++e) sum += d[e];
        // Divided: times the inverse, which is rounded, equal elements would not be their mean.
        mean = ladder::warp_sum<Rows::kLanes>(sum) / a.cols;
      }
      float g[Rows::kElements], m2 = 0, sum_g = 0, sum_gd = 0;  // g * z is g * d times the scale
#pragma unroll
      for (int e = 0; e < Rows::kElements; ++e) {
        if constexpr (Norm::kCentred) d.element[e] = rows.has_column(e) ? d[e] - mean : 0.0f;
        g[e] = dy_s[e] * weight_s[e];
        m2 += d[e] * d[e];
        sum_g += g[e];
        sum_gd += g[e] * d[e];
      }
      m2 = ladder::warp_sum<Rows::kLanes>(m2);
      if constexpr (Norm::kCentred) sum_g = ladder::warp_sum<Rows::kLanes>(sum_g);
      sum_gd = ladder::warp_sum<Rows::kLanes>(sum_gd);

      // dx = (g - mean_g - z * mean_gz) * scale
      const float scale = rsqrtf(m2 * inverse_cols + a.epsilon);
      const float z_factor = sum_gd * inverse_cols * scale * scale;  // mean_gz * scale
      const float subtracted = sum_g * inverse_cols * scale;         // mean_g * scale
#pragma unroll
      for (int e = 0; e < Rows::kElements; ++e) {
        const float z = d[e] * scale;
        float taken = z * z_factor;
        if constexpr (Norm::kCentred) taken += subtracted;
        x[s][e] = T(g[e] * scale - taken);
        dweight[e] += dy_s[e] * z;
        dbias[e] += dy_s[e];
      }
    }
    rows.store(x, a.dx, n, x_tile);
  }
  column_sums.add(0, dweight);
  if constexpr (Norm::kCentred) column_sums.add(1, dbias);
  column_sums.store(partials + std::int64_t{blockIdx.x} * kSums * Rows::kLanes * Rows::kElements);
}

/// The blocks that run at once, or fewer where the rows are few.
template <class Rows, class T>
int blocks_of(int rows) {
  return static_cast<int>(
      min(Rows::tiles(rows), std::int64_t{ladder::sm_count()} * kBlocksOfSm<T>));
}

}  // namespace

namespace row_norm {

template <class Norm, class T>
std::size_t workspace_of_short_rows_backward(const typename Norm::template Args<T>& a) {
  return with_rows_to_sum<T, kSteps<T>>(a.cols, [&]<class Rows>(std::type_identity<Rows>) {
    return bytes_of_partials<Norm, HeldShort<Rows>>(blocks_of<Rows, T>(a.rows));
  });
}

template <class Norm, class T>
void launch_short_rows_backward(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  with_rows_to_sum<T, kSteps<T>>(a.cols, [&]<class Rows>(std::type_identity<Rows>) {
    const int blocks = blocks_of<Rows, T>(a.rows);
    ladder::launch(short_rows_backward<Norm, Rows, T>, blocks, Rows::kBlock, 0, stream, a,
                   static_cast<float*>(a.workspace));
    launch_add_partials<Norm, T, HeldShort<Rows>>(a, blocks, stream);
  });
}

#define INSTANTIATE(Norm, T)                                                         \
  template std::size_t workspace_of_short_rows_backward<Norm>(const Norm::Args<T>&); \
  template void launch_short_rows_backward<Norm>(const Norm::Args<T>&, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, _backward)

}  // namespace row_norm

namespace {

struct ShortRowsBackward {
  // Several tiles, the last of them cut off, for each number of lanes; rows that are no whole vectors.
  static constexpr layernorm::Problem test_problems[] = {
      {2050, 8}, {1030, 3}, {700, 12}, {600, 24}, {300, 50}, {200, 100}, {100, 128}};
  static constexpr ladder::Version version{"several short rows in a warp"};

  template <class T>
  static ladder::Support supports(const layernorm::Problem& p) {
    if (p.cols <= ladder::kLongestShortRow<T>) return ladder::supported();
    return ladder::unsupported("rows of more than 512 bytes");
  }
  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return row_norm::workspace_of_short_rows_backward<layernorm_backward>(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_short_rows_backward<layernorm_backward>(a, stream);
  }
};

const ladder::Register<ShortRowsBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
