// Idea      several short rows in a warp: a row belongs to 1, 2, 4, … or 32 lanes, with one vector in
//           each, and a thread has four rows in flight
// Vs v04    rows of up to 512 bytes. There a warp has one row, however short, and the lanes that have
//           a vector of it wait for it alone. Rows that are no whole number of vectors are moved
//           through shared memory, the block's as one piece
// Bound by  DRAM bandwidth
// Limits    rows of up to 512 bytes; x starts at a multiple of 16 bytes
// Tile      256 threads with 64 bytes each: device/short_rows.hpp
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "launchers.hpp"

namespace matrix_reduction {
namespace {

constexpr int kSteps = 4;  // rows of a thread

template <class Rows, class T>
__global__ void __launch_bounds__(Rows::kBlock) short_row_sums(Args<T> a) {
  using Vec = ladder::Vec128<T>;
  __shared__ typename Rows::Tile tile;
  const Rows rows(a.rows, static_cast<int>(a.cols));
  Vec in_flight[Rows::kVectors], x[Rows::kSteps];
  rows.fetch(a.x, blockIdx.x, in_flight);
  rows.arrange(in_flight, blockIdx.x, tile, T(0.0f), x);
#pragma unroll
  for (int s = 0; s < Rows::kSteps; ++s) {
    float sum = static_cast<float>(x[s][0]);
#pragma unroll
    for (int e = 1; e < Vec::size; ++e) sum += static_cast<float>(x[s][e]);
    sum = ladder::warp_sum<Rows::kLanes>(sum);
    const std::int64_t row = rows.row_of(blockIdx.x, s);
    if (rows.lane() == 0 && row < a.rows) a.y[row] = sum;
  }
}

struct RowShort {
  static constexpr ladder::Version version{"several short rows in a warp"};
  // Several tiles, the last of them cut off, for each number of lanes.
  static constexpr Problem test_problems[] = {{2050, 8}, {1030, 3},  {700, 12}, {600, 24},
                                              {300, 50}, {200, 100}, {100, 128}};

  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    launch_short_row_sums(a, stream);
  }
  template <class T>
  static ladder::Support supports(const Problem& p) {
    if (p.cols <= ladder::kLongestShortRow<T>) return ladder::supported();
    return ladder::unsupported("rows of more than 512 bytes");
  }
};

const ladder::Register<RowShort, row_sum, float, ladder::half, ladder::bfloat16> rows;

}  // namespace

template <class T>
void launch_short_row_sums(const Args<T>& a, cudaStream_t stream) {
  ladder::with_short_rows<T, kSteps>(
      static_cast<int>(a.cols), [&]<class Rows>(std::type_identity<Rows>) {
        ladder::launch(short_row_sums<Rows, T>, static_cast<unsigned>(Rows::tiles(a.rows)),
                       Rows::kBlock, 0, stream, a);
      });
}
template void launch_short_row_sums(const Args<float>&, cudaStream_t);
template void launch_short_row_sums(const Args<ladder::half>&, cudaStream_t);
template void launch_short_row_sums(const Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace matrix_reduction
