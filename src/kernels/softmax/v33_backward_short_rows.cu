// Idea      several short rows in a warp, as v10b has them
// Vs v32    rows of up to 32 vectors of each input, of which v32 has one in a warp
// Bound by  DRAM bandwidth
// Limits    rows of up to 512 bytes; matrices start at multiples of 16 bytes
// Tile      256 threads with 32 bytes of each input: device/short_rows.hpp
#include "device/floats.hpp"
#include "device/short_rows.hpp"
#include "gradient.hpp"
#include "launchers.hpp"

namespace softmax_rows {
namespace {

constexpr int kSteps = 2;  // rows of a thread

template <class Op, class Rows, class T>
__global__ void __launch_bounds__(Rows::kBlock) backward_short_rows(softmax_gradient::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  __shared__ typename Rows::Tile y_tile, dy_tile;
  const Rows rows(a.rows, a.cols);
  Vec y_in_flight[Rows::kVectors], dy_in_flight[Rows::kVectors];
  typename Rows::Held y[Rows::kSteps], dy[Rows::kSteps];
  rows.fetch(a.y, blockIdx.x, y_in_flight);
  rows.fetch(a.dy, blockIdx.x, dy_in_flight);
  rows.arrange(y_in_flight, blockIdx.x, y_tile, T(0.0f), y);
  rows.arrange(dy_in_flight, blockIdx.x, dy_tile, T(0.0f), dy);
#pragma unroll
  for (int s = 0; s < Rows::kSteps; ++s) {
    const ladder::Floats y_s(y[s]), dy_s(dy[s]);
    float sum = 0;
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) sum += summand(Op{}, y_s[e], dy_s[e]);
    sum = ladder::warp_sum<Rows::kLanes>(sum);
#pragma unroll
    for (int e = 0; e < Rows::kElements; ++e) dy[s][e] = T(gradient(Op{}, y_s[e], dy_s[e], sum));
  }
  rows.store(dy, a.dx, blockIdx.x, dy_tile);
}

template <class Op>
struct BackwardShortRows {
  // Several tiles, the last of them cut off, for each number of lanes; rows that are no whole vectors.
  static constexpr softmax::Problem test_problems[] = {{2050, 8}, {1030, 3},  {700, 12}, {600, 24},
                                                       {300, 50}, {200, 100}, {100, 128}};
  static constexpr ladder::Version version{"several short rows in a warp"};

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    launch_backward_short_rows<Op>(a, stream);
  }
  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    if (p.cols <= ladder::kLongestShortRow<T>) return ladder::supported();
    return ladder::unsupported("rows of more than 512 bytes");
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardShortRows<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace

template <class Op, class T>
void launch_backward_short_rows(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  ladder::with_short_rows_of_words<T, kSteps>(a.cols, [&]<class Rows>(std::type_identity<Rows>) {
    ladder::launch(backward_short_rows<Op, Rows, T>, static_cast<unsigned>(Rows::tiles(a.rows)),
                   Rows::kBlock, 0, stream, a);
  });
}

// Other versions call it too.
template void launch_backward_short_rows<softmax_backward>(const softmax_gradient::Args<float>&,
                                                           cudaStream_t);
template void launch_backward_short_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
template void launch_backward_short_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);
template void launch_backward_short_rows<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                               cudaStream_t);
template void launch_backward_short_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
template void launch_backward_short_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
