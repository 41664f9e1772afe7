// Idea      bulk copies (TMA) bring the next rows of x and dy to shared memory while one is reduced
//           and stored: a multistage pipeline; and all sums of a row are exchanged at once
// Vs v33    copies are in flight at all times, where v33 loads a row, waits for it, for the mean of
//           its squares and another sum, and only then loads the next. The sum of g * z is made
//           without the scale, a factor of all its terms, so that both sums are exchanged at once.
//           Short rows belong to teams of a block that never wait for each other; in v32 they are
//           several blocks, each of which leaves sums to be added
// Bound by  DRAM bandwidth, and for small matrices by the end: the teams' sums, the second launch
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes. Rows of fewer than 256 elements,
//           and those that 8 blocks do not hold, are v33's. Where rows start within sectors of 32
//           bytes (in 16 bits those of up to 512 elements: within vectors), a cluster takes rows
//           that start alike, of which there may be a few clusters fewer, and the last threads take
//           the columns that are in no whole vector
// Tile      16 elements in a thread, in 16 bits 24 where twice the threads would be half idle: a row
//           per team of 32 to 512 threads of a block of 512, or per cluster of 2, 3, 4, 6 or 8 such
//           blocks; of each team three rows in shared memory (in 16 bits three pairs of rows of up
//           to 512 elements), which four warps ask for, the producers: no team waits for what that
//           takes
#include "device/cluster_all_gather.hpp"
#include "device/floats.hpp"
#include "device/in_step.hpp"
#include "device/ptx/elect.hpp"
#include "device/ptx/griddepcontrol.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/row_pairs_ahead.hpp"
#include "device/row_span.hpp"
#include "device/sm_count.hpp"
#include "device/warps_team.hpp"
#include "kernels/row_norm/column_sums.hpp"
#include "kernels/row_norm/held_ahead.hpp"
#include "launchers.hpp"

namespace rmsnorm_rows {

static __device__ ladder::StepCounters step_counters;  // v34c's

/// partials: [of the grid's clusters][sums][Held::kPart]
template <class T, class Held>
__global__ void __launch_bounds__(row_norm::kAheadThreads, 1) __cluster_dims__(Held::kBlocks)
    rows_ahead_backward(rmsnorm_backward::Args<T> a, float* partials, ladder::RowStages stages,
                        int ahead_of_slowest) {
  using namespace ladder::ptx;
  using OfBlock = typename Held::OfBlock;
  using Team = typename OfBlock::Team;
  using OfThread = row_norm::OfThread<T, Held>;
  using ladder::Floats;
  constexpr int kBlocks = Held::kBlocks, kElements = OfThread::kElements;
  constexpr bool kAligned = Held::kAligned;
  using Ahead = ladder::RowPairsAhead<T, kBlocks, Team, kAligned, Held::kRows>;
  using AllGather = ladder::ClusterAllGather<float4, kBlocks>;
  __shared__ Mbarrier weight_loaded;
  __shared__ typename Ahead::Storage pipeline;
  __shared__ typename AllGather::Storage messages;
  __shared__ ladder::InStep::Storage steps_done;
  const ladder::RowPartition<T> part(a.cols, static_cast<int>(cluster_rank()), kBlocks);
  const auto span = Held::span(a.cols, part);
  const int first_vector = Held::first_vector(a.cols, part, span);
  T* const shared = ladder::dynamic_shared<T>();
  // Vectors of weight lie as those of the rows do.
  T* const weight = kAligned ? shared : shared + (OfThread::Vec::size - span.head);
  Ahead ahead(pipeline, a.x, a.dy, a.rows, a.cols, part, shared + stages.elements, stages);
  AllGather all_gather(messages);
  Team team(ahead.sums());
  ladder::InStep in_step(step_counters, steps_done, ahead_of_slowest);
  const int producer = static_cast<int>(threadIdx.x) / 32 - row_norm::kAheadBlock / 32;  // warp
  if (producer >= 0) ahead.start(producer);
  if (threadIdx.x == 0) {
    all_gather.init();
    in_step.init();
    mbarrier_init(&weight_loaded, 1);
    fence_proxy_async();
    const unsigned bytes = kAligned ? part.cols * sizeof(T) : 0;
    mbarrier_arrive_expect_tx(&weight_loaded, bytes);
    if (kAligned) bulk_load(weight, a.weight + part.first, bytes, &weight_loaded);
  }
  if constexpr (!kAligned) {
    for (int c = threadIdx.x; c < part.cols; c += row_norm::kAheadThreads) {
      weight[c] = a.weight[part.first + c];
    }
  }
  cluster_start<kBlocks>();
  griddepcontrol_launch_dependents();  // v34b's second launch
  if (producer >= 0) {
    setmaxnreg_dec<32>();
    if (elect_one()) ahead.produce(producer, in_step);
    return;
  }
  setmaxnreg_inc<112>();

  row_norm::SumsAhead<Held, 1> sums_over_rows;  // dweight
  auto for_each = [&](auto use, auto&... rows) {
    OfThread::for_each(span, first_vector, use, rows...);
  };
  auto sum_over_row = [&](auto& values) {  // all blocks add the same numbers in the same order
    team.sum(values);
    if constexpr (kBlocks > 1) all_gather.sum(values);
  };

  const unsigned rows = a.rows;
  const float inverse_cols = 1.0f / a.cols;
  mbarrier_wait(&weight_loaded, 0);
  for (auto first = ahead.first_row(); first < rows; first += ahead.stride()) {
    const T* const stage = ahead.wait();
#pragma unroll
    for (int r = 0; r < Held::kRows; ++r) {  // of a stage
      const auto row = first + r * ahead.apart();
      if (r > 0 && row >= rows) break;
      const T* const x_row = ahead.x(stage, row, r);
      // One exchange for both sums: g * z is g * x times the scale, which is not known yet.
      OfThread packed_x, dy;
      float x[kElements], g[kElements];
      float sum_sq = 0, sum_gx = 0;
      for_each(
          [&]<class Vec>(int first_element, int column, Vec& x_packed, Vec& dy_packed) {
            x_packed = Vec::load(x_row + column);
            dy_packed = Vec::load(ahead.y(x_row) + column);
            const Floats x_vec(x_packed), dy_vec(dy_packed);
            const Floats weight_vec(Vec::load(weight + column));
#pragma unroll
            for (int e = 0; e < Vec::size; ++e) {
              const int i = first_element + e;
              x[i] = x_vec[e];
              g[i] = dy_vec[e] * weight_vec[e];
              sum_sq += x[i] * x[i];
              sum_gx += g[i] * x[i];
            }
          },
          packed_x, dy);
      if (r + 1 == Held::kRows || row + ahead.apart() >= rows) ahead.release();
      float sums[] = {sum_sq, sum_gx};
      sum_over_row(sums);

      // dx = (g - z * mean_gz) * scale
      const float scale = rsqrtf(sums[0] * inverse_cols + a.epsilon);
      const float z_factor = sums[1] * inverse_cols * scale * scale;  // mean_gz * scale
      T* const dx = a.dx + std::int64_t{row} * a.cols + part.first;
      for_each(
          [&]<class Vec>(int first_element, int column, Vec& x_packed, Vec& dy_packed) {
            if constexpr (Vec::size > 1) ladder::stay_packed(dy_packed);  // fewer registers
            if constexpr (Vec::size > 1 && Held::kIsPacked) ladder::stay_packed(x_packed);
            Vec weight_packed{};
            if constexpr (Held::kIsPacked) weight_packed = Vec::load(weight + column);
            const Floats x_vec(x_packed), dy_vec(dy_packed), weight_vec(weight_packed);
            Vec out;
#pragma unroll
            for (int e = 0; e < Vec::size; ++e) {
              const int i = first_element + e;
              const float z = (Held::kIsPacked ? x_vec[e] : x[i]) * scale;
              const float g_e = Held::kIsPacked ? dy_vec[e] * weight_vec[e] : g[i];
              out[e] = T(g_e * scale - z * z_factor);
              sums_over_rows.of(0, i) += dy_vec[e] * z;
            }
            out.store_whole(dx + column);
          },
          packed_x, dy);
    }
  }

  row_norm::store_block_partial<T>(sums_over_rows, span, first_vector, part.cols,
                                   ladder::dynamic_shared<float>(), partials);
}

template <class T, class Held>
int clusters_of(int rows, int cols) {
  static const int at_once =
      ladder::blocks_at_once(rows_ahead_backward<T, Held>, Held::kBlocks, row_norm::kAheadThreads,
                             ladder::RowStages::kBytes) /
      Held::kBlocks;
  return Held::clusters(at_once, rows, cols);
}

template <class T>
std::size_t workspace_of_rows_ahead_backward(const rmsnorm_backward::Args<T>& a) {
  return row_norm::by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        return row_norm::bytes_of_partials<rmsnorm, Held>(clusters_of<T, Held>(a.rows, a.cols));
      },
      [&] { return workspace_of_cluster_backward(a); });
}
template std::size_t workspace_of_rows_ahead_backward(const rmsnorm_backward::Args<float>&);
template std::size_t workspace_of_rows_ahead_backward(const rmsnorm_backward::Args<ladder::half>&);
template std::size_t workspace_of_rows_ahead_backward(
    const rmsnorm_backward::Args<ladder::bfloat16>&);

template <class T>
void launch_rows_ahead_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream,
                                row_norm::AheadOptions options) {
  row_norm::by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        const int clusters = clusters_of<T, Held>(a.rows, a.cols);
        ladder::launch(rows_ahead_backward<T, Held>, clusters * Held::kBlocks,
                       row_norm::kAheadThreads, ladder::RowStages::kBytes, stream, a,
                       static_cast<float*>(a.workspace), row_norm::stages_ahead<T, Held>(a.cols),
                       options.in_step ? row_norm::kAheadOfSlowest : 0);
        row_norm::launch_add_partials<rmsnorm_backward, T, Held>(a, clusters, stream,
                                                                 options.overlapping);
      },
      [&] { launch_cluster_backward(a, stream); });
}
template void launch_rows_ahead_backward(const rmsnorm_backward::Args<float>&, cudaStream_t,
                                         row_norm::AheadOptions);
template void launch_rows_ahead_backward(const rmsnorm_backward::Args<ladder::half>&, cudaStream_t,
                                         row_norm::AheadOptions);
template void launch_rows_ahead_backward(const rmsnorm_backward::Args<ladder::bfloat16>&,
                                         cudaStream_t, row_norm::AheadOptions);

struct RowsAheadBackward {
  static constexpr ladder::Version version{"rows on their way before they are needed"};
  // So many rows that stages are used again: of a warp, of teams, of a block and of a cluster.
  static constexpr rmsnorm::Problem test_problems[] = {
      {402, 264}, {203, 400}, {140, 333}, {140, 457}, {101, 608}, {140, 601},
      {70, 1008}, {35, 1006}, {35, 1303}, {17, 2600}, {17, 3001}, {9, 5001},
      {9, 8000},  {5, 9002},  {2, 14001}, {5, 16390}, {2, 16376}, {2, 30001},
      {1, 32000}, {2, 34000}, {2, 38001}, {1, 60001}, {1, 60000}, {1, 90000}};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return workspace_of_rows_ahead_backward(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    launch_rows_ahead_backward(a, stream, {});
  }
};

const ladder::Register<RowsAheadBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace rmsnorm_rows
