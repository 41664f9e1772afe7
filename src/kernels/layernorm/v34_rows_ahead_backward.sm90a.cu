// Idea      bulk copies (TMA) bring the next rows of x and dy to shared memory while one is reduced
//           and stored: a multistage pipeline; and all sums of a row are exchanged at once. No SM
//           gets ahead of the others: one that is waits before it asks for another row. The second
//           launch, which adds the blocks' sums, begins while the first one runs (programmatic
//           dependent launch): its blocks take the place of those that end, and wait for the last
// Vs v33    copies are in flight at all times, where v33 loads a row, waits for it, for its mean,
//           its variance and two more sums, and only then loads the next. The sum of g * z is made
//           without the scale, a factor of all its terms, and the mean of the next row is found
//           with this one's sums. Short rows belong to teams of a block that never wait for each
//           other; in v32 they are several blocks, each of which leaves sums to be added. The
//           memory's bandwidth is shared equally, so that all blocks end together; SMs that get
//           more of it would be done long before the others, and too few be left at the end to keep
//           the DRAM busy. When the last block has ended, the second launch needs no time to begin
// Bound by  DRAM bandwidth, and for small matrices by the end: the teams' sums, and their trip
//           through the L2
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes. Rows of fewer than 256 elements
//           are v32's, and those that 8 blocks do not hold are v31's. Where rows start within
//           sectors of 32 bytes (in 16 bits those of up to 512 elements: within vectors), a cluster
//           takes rows that start alike, of which there may be a few clusters fewer, and the last
//           threads take the columns that are in no whole vector
// Tile      16 elements in a thread, in 16 bits 24 where twice the threads would be half idle: a row
//           per team of 32 to 512 threads of a block of 512, or per cluster of 2, 3, 4, 6 or 8 such
//           blocks; of each team three rows in shared memory (in 16 bits three pairs of rows of up
//           to 512 elements), which four warps ask for, the producers: no team waits for what that
//           takes
#include "device/cluster_all_gather.hpp"
#include "device/floats.hpp"
#include "device/in_step.hpp"
#include "device/mean.hpp"
#include "device/ptx/elect.hpp"
#include "device/ptx/griddepcontrol.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/row_pairs_ahead.hpp"
#include "device/row_span.hpp"
#include "device/sm_count.hpp"
#include "device/warps_team.hpp"
#include "kernels/row_norm/column_sums.hpp"
#include "kernels/row_norm/held_ahead.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
/// partials: [of the grid's clusters][sums][Held::kPart]
template <class Norm, class T, class Held>
__global__ void __launch_bounds__(kAheadThreads, 1) __cluster_dims__(Held::kBlocks)
    rows_ahead_backward(typename Norm::template Args<T> a, float* partials,
                        ladder::RowStages stages, ladder::StepCounters* counters,
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
  ladder::InStep in_step(counters, steps_done, ahead_of_slowest);
  const int producer = static_cast<int>(threadIdx.x) / 32 - kAheadBlock / 32;  // warp
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
    for (int c = threadIdx.x; c < part.cols; c += kAheadThreads) {
      weight[c] = a.weight[part.first + c];
    }
  }
  cluster_start<kBlocks>();
  griddepcontrol_launch_dependents();  // the second launch
  if (producer >= 0) {
    setmaxnreg_dec<32>();
    if (elect_one()) ahead.produce(producer, in_step);
    return;
  }
  setmaxnreg_inc<112>();

  SumsAhead<Held, kSums<Norm>> sums_over_rows;  // dweight, dbias
  auto for_each = [&](auto use, auto&... rows) {
    OfThread::for_each(span, first_vector, use, rows...);
  };
  auto sum_of_x = [&](const T* x) {
    float sum = 0;
    OfThread row;
    for_each(
        [&]<class Vec>(int, int column, Vec& packed) {
          packed = Vec::load(x + column);
          const Floats x_vec(packed);
#pragma unroll
          for (int e = 0; e < Vec::size; ++e) sum += x_vec[e];
        },
        row);
    return sum;
  };
  auto sum_over_row = [&](auto& values) {  // all blocks add the same numbers in the same order
    team.sum(values);
    if constexpr (kBlocks > 1) all_gather.sum(values);
  };

  const unsigned rows = a.rows;
  const float inverse_cols = 1.0f / a.cols;
  auto mean_of = [&](float sum) { return ladder::mean(sum, a.cols, inverse_cols); };
  const T *stage = nullptr, *next = nullptr;  // row of x
  float mean = 0;
  if constexpr (Norm::kCentred) {
    if (ahead.first_row() < rows) {
      stage = ahead.wait();
      next = ahead.x(stage, ahead.first_row());
      float sum[] = {sum_of_x(next)};
      sum_over_row(sum);
      mean = mean_of(sum[0]);
    }
  }
  mbarrier_wait(&weight_loaded, 0);
  for (auto first = ahead.first_row(); first < rows; first += ahead.stride()) {  // of a stage
    if constexpr (!Norm::kCentred) stage = ahead.wait();
#pragma unroll
    for (int r = 0; r < Held::kRows; ++r) {
      const auto row = first + r * ahead.apart();
      if (r > 0 && row >= rows) break;
      const T* const x = Norm::kCentred ? next : ahead.x(stage, row, r);
      // One exchange for all sums: with d = x - mean, g * z is g * d times the scale, which is not
      // known yet; and the mean of the next row is needed when this one is done.
      OfThread packed_x, dy;
      float d[kElements], g[kElements];
      float m2 = 0, sum_g = 0, sum_gd = 0, sum_of_next = 0;
      for_each(
          [&]<class Vec>(int first_element, int column, Vec& x_packed, Vec& dy_packed) {
            x_packed = Vec::load(x + column);
            dy_packed = Vec::load(ahead.y(x) + column);
            const Floats x_vec(x_packed), dy_vec(dy_packed);
            const Floats weight_vec(Vec::load(weight + column));
#pragma unroll
            for (int e = 0; e < Vec::size; ++e) {
              const int i = first_element + e;
              d[i] = x_vec[e] - mean;
              g[i] = dy_vec[e] * weight_vec[e];
              m2 += d[i] * d[i];
              sum_g += g[i];
              sum_gd += g[i] * d[i];
              if constexpr (Norm::kCentred) sums_over_rows.of(1, i) += dy_vec[e];
            }
          },
          packed_x, dy);
      const bool is_last = r + 1 == Held::kRows || row + ahead.apart() >= rows;  // of its stage
      if (is_last) ahead.release();
      float sums[Norm::kCentred ? 4 : 2] = {m2, sum_gd};
      if constexpr (Norm::kCentred) {
        const auto next_row = is_last ? first + ahead.stride() : row + ahead.apart();
        if (next_row < rows) {
          if (is_last) stage = ahead.wait();
          next = ahead.x(stage, next_row, is_last ? 0 : r + 1);
          sum_of_next = sum_of_x(next);
        }
        sums[2] = sum_g;
        sums[3] = sum_of_next;
      }
      sum_over_row(sums);

      // dx = (g - mean_g - z * mean_gz) * scale
      const float scale = rsqrtf(sums[0] * inverse_cols + a.epsilon);
      const float z_factor = sums[1] * inverse_cols * scale * scale;  // mean_gz * scale
      float subtracted = 0, scaled_mean = 0;
      if constexpr (Norm::kCentred) {
        subtracted = sums[2] * inverse_cols * scale;  // mean_g * scale
        scaled_mean = mean * scale;
      }
      T* const dx = a.dx + std::int64_t{row} * a.cols + part.first;
      for_each(
          [&]<class Vec>(int first_element, int column, Vec& x_packed, Vec& dy_packed) {
            if constexpr (Vec::size > 1) ladder::stay_packed(dy_packed);  // fewer registers
            if constexpr (Vec::size > 1 && Held::kIsPacked) ladder::stay_packed(x_packed);
            // LayerNorm has too few registers for all of g with singles, and in fp32 without them:
            // it is made again. What is spilled would be read in every row, and in a cluster out of
            // the L2, because the L1 is empty when the blocks' sums have come.
            const bool has_g =
                !Held::kIsPacked && (!Norm::kCentred || (sizeof(T) == 2 && Vec::size > 1 &&
                                                         (kAligned || first_element == 0)));
            Vec weight_packed{};
            if (!has_g) weight_packed = Vec::load(weight + column);
            const Floats x_vec(x_packed), dy_vec(dy_packed), weight_vec(weight_packed);
            Vec out;
#pragma unroll
            for (int e = 0; e < Vec::size; ++e) {
              const int i = first_element + e;
              const float z = Held::kIsPacked ? x_vec[e] * scale - scaled_mean : d[i] * scale;
              const float g_e = has_g ? g[i] : dy_vec[e] * weight_vec[e];
              float taken = z * z_factor;
              if constexpr (Norm::kCentred) taken += subtracted;
              out[e] = T(g_e * scale - taken);
              sums_over_rows.of(0, i) += dy_vec[e] * z;
            }
            out.store_whole(dx + column);
          },
          packed_x, dy);
      if constexpr (Norm::kCentred) mean = mean_of(sums[3]);
    }
  }

  store_block_partial<T>(sums_over_rows, span, first_vector, part.cols,
                         ladder::dynamic_shared<float>(), partials);
}

template <class Norm, class T, class Held>
int clusters_of(int rows, int cols) {
  const int at_once = ladder::blocks_at_once(rows_ahead_backward<Norm, T, Held>, Held::kBlocks,
                                             kAheadThreads, ladder::RowStages::kBytes) /
                      Held::kBlocks;
  return Held::clusters(at_once, rows, cols);
}

template <class Norm, class T>
std::size_t workspace_of_rows_ahead_backward(const typename Norm::template Args<T>& a) {
  return by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        return bytes_of_partials<Norm, Held>(clusters_of<Norm, T, Held>(a.rows, a.cols));
      },
      [&] {
        return a.cols < kShortestAhead ? workspace_of_persistent_backward<Norm>(a)
                                       : workspace_of_block_backward<Norm>(a);
      });
}

template <class Norm, class T>
void launch_rows_ahead_backward(const typename Norm::template Args<T>& a, void* state,
                                cudaStream_t stream) {
  by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        const int clusters = clusters_of<Norm, T, Held>(a.rows, a.cols);
        ladder::launch(rows_ahead_backward<Norm, T, Held>, clusters * Held::kBlocks, kAheadThreads,
                       ladder::RowStages::kBytes, stream, a, static_cast<float*>(a.workspace),
                       stages_ahead<T, Held>(a.cols), static_cast<ladder::StepCounters*>(state),
                       kAheadOfSlowest);
        launch_add_partials<Norm, T, Held>(a, clusters, stream, /*overlapping=*/true);
      },
      [&] {
        a.cols < kShortestAhead ? launch_persistent_backward<Norm>(a, stream)
                                : launch_block_backward<Norm>(a, stream);
      });
}

#define INSTANTIATE(Norm, T)                                                         \
  template std::size_t workspace_of_rows_ahead_backward<Norm>(const Norm::Args<T>&); \
  template void launch_rows_ahead_backward<Norm>(const Norm::Args<T>&, void*, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, _backward)

namespace {

struct RowsAheadBackward {
  static constexpr ladder::Version version{"rows on their way before they are needed"};
  // So many rows that stages are used again: of a warp, of teams, of a block and of a cluster; and so few
  // that not every block has one.
  static constexpr layernorm::Problem test_problems[] = {
      {402, 264}, {203, 400}, {140, 333}, {140, 457}, {101, 608}, {140, 601}, {70, 1008},
      {35, 1006}, {35, 1303}, {17, 2600}, {17, 3001}, {9, 5001},  {2, 400},   {9, 8000},
      {5, 9002},  {2, 14001}, {5, 16390}, {2, 16376}, {2, 30001}, {1, 32000}, {2, 34000},
      {2, 38001}, {1, 60001}, {1, 60000}, {1, 90000}};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return workspace_of_rows_ahead_backward<layernorm_backward>(a);
  }
  template <class T>
  static std::size_t state(const layernorm_backward::Args<T>&) {
    return sizeof(ladder::StepCounters);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, void* state, cudaStream_t stream) {
    launch_rows_ahead_backward<layernorm_backward>(a, state, stream);
  }
};

const ladder::Register<RowsAheadBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace row_norm
