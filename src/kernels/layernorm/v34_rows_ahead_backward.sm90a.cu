// Idea      bulk copies (TMA) bring the next rows of x and dy to shared memory while one is reduced
//           and stored: a multistage pipeline; and all sums of a row are exchanged at once
// Vs v33    copies are in flight at all times, where v33 loads a row, waits for it, for its mean,
//           its variance and two more sums, and only then loads the next. The sum of g * z is made
//           without the scale, a factor of all its terms, and the mean of the next row is found
//           with this one's sums. Short rows belong to teams of a block that never wait for each
//           other; in v32 they are several blocks, each of which leaves sums to be added
// Bound by  DRAM bandwidth, and for small matrices by the end: the teams' sums, the second launch
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes. Rows of fewer than 256 elements,
//           and those that 8 blocks do not hold, are v33's. Where the columns are no multiple of
//           the vector, threads take single elements out of shared memory
// Tile      16 elements in a thread: a row per team of 32 to 512 threads of a block of 512, or per
//           cluster of 2, 4 or 8 such blocks; of each team three rows in shared memory (in 16 bits
//           three pairs of rows of up to 512 elements), which four warps ask for, the producers: no
//           team waits for what that takes
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
#include "launchers.hpp"

namespace layernorm_rows {

static __device__ ladder::StepCounters step_counters;  // v34c's

/// partials: [of the grid's clusters][sums][Held::kPart]
template <class T, class Held>
__global__ void __launch_bounds__(row_norm::kAheadThreads, 1) __cluster_dims__(Held::kBlocks)
    rows_ahead_backward(layernorm_backward::Args<T> a, float* partials, ladder::RowStages stages,
                        int ahead_of_slowest) {
  using namespace ladder::ptx;
  using OfBlock = typename Held::OfBlock;
  using Team = typename OfBlock::Team;
  using Vec = typename OfBlock::Vec;
  using Four = typename OfBlock::Four;
  using Floats = ladder::Floats<Vec>;
  constexpr int kBlocks = Held::kBlocks, kThreads = Team::kThreads, kVectors = OfBlock::kVectors;
  constexpr int kElements = OfBlock::kElements;
  constexpr bool kAligned = Vec::size > 1;
  constexpr int kWhole = 16 / sizeof(T);  // elements of 16 bytes
  using Ahead = ladder::RowPairsAhead<T, kBlocks, Team, kAligned, Held::kRows>;
  using Pair = typename Ahead::Pair;
  using AllGather = ladder::ClusterAllGather<float4, kBlocks>;
  __shared__ Mbarrier weight_loaded;
  __shared__ typename Ahead::Storage pipeline;
  __shared__ typename AllGather::Storage messages;
  __shared__ typename Team::Storage team_sums;
  __shared__ ladder::InStep::Storage steps_done;
  T* const weight = ladder::dynamic_shared<T>();
  const ladder::RowPartition<T> part(a.cols, static_cast<int>(cluster_rank()), kBlocks);
  const int t = Team::rank(), vectors = part.cols / Vec::size;
  Ahead ahead(pipeline, a.x, a.dy, a.rows, a.cols, part, weight + stages.elements, stages);
  AllGather all_gather(messages);
  Team team(team_sums);
  ladder::InStep in_step(step_counters, steps_done, ahead_of_slowest);
  const int producer = static_cast<int>(threadIdx.x) / 32 - row_norm::kAheadBlock / 32;  // warp
  if (producer >= 0) ahead.start(producer);
  if (threadIdx.x == 0) {
    all_gather.init();
    in_step.init();
    mbarrier_init(&weight_loaded, 1);
    fence_proxy_async();
    const unsigned bytes = part.cols / kWhole * 16;
    mbarrier_arrive_expect_tx(&weight_loaded, bytes);
    if (bytes > 0) bulk_load(weight, a.weight + part.first, bytes, &weight_loaded);
  }
  const int last = part.cols / kWhole * kWhole + threadIdx.x;  // of what is no whole 16 bytes
  if (!kAligned && last < part.cols) weight[last] = a.weight[part.first + last];
  cluster_start<kBlocks>();
  griddepcontrol_launch_dependents();  // v34b's second launch
  if (producer >= 0) {
    setmaxnreg_dec<32>();
    if (elect_one()) ahead.produce(producer, in_step);
    return;
  }
  setmaxnreg_inc<112>();

  row_norm::ColumnSums<OfBlock> sums_over_rows[2];  // dweight, dbias
  auto sum_of = [&](int which, int element) -> float& {
    return sums_over_rows[which][element / Four::size][element % Four::size];
  };
#pragma unroll
  for (int i = 0; i < 2 * kElements; ++i) sum_of(i / kElements, i % kElements) = 0;

  // Thread t of a team takes vectors t, t + kThreads, … of the block's columns.
  auto for_each_vector = [&](auto use) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kThreads + t;
      if (v >= vectors) break;
      use(k, v * Vec::size);
    }
  };
  auto sum_of_x = [&](const T* x) {
    float sum = 0;
    for_each_vector([&](int, int column) {
      const Floats x_vec(Vec::load(x + column));
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum += x_vec[e];
    });
    return sum;
  };
  auto sum_over_row = [&](auto& values) {  // all blocks add the same numbers in the same order
    team.sum(values);
    if constexpr (kBlocks > 1) {
      float4 block_sums{};
      std::memcpy(&block_sums, values, sizeof values);
      block_sums = all_gather.gather(block_sums);
      std::memcpy(values, &block_sums, sizeof values);
#pragma unroll
      for (float& value : values) value = ladder::warp_sum<kBlocks>(value);
    }
  };

  const float inverse_cols = 1.0f / a.cols;
  auto mean_of = [&](float sum) { return ladder::mean(sum, a.cols, inverse_cols); };
  auto first = ahead.first_row();  // of a stage
  Pair next{};
  float mean = 0;
  if (first < a.rows) {
    next = ahead.wait(first);
    float sum[] = {sum_of_x(next.x)};
    sum_over_row(sum);
    mean = mean_of(sum[0]);
  }
  mbarrier_wait(&weight_loaded, 0);
  for (; first < a.rows; first += ahead.stride()) {
#pragma unroll
    for (int r = 0; r < Held::kRows; ++r) {
      const auto row = first + r;
      if (r > 0 && row == a.rows) break;
      const Pair here = next;
      // One exchange for all sums: with d = x - mean, g * z is g * d times the scale, which is not
      // known yet; and the mean of the next row is needed when this one is done.
      Vec dy[kVectors];
      float d[kElements], g[kElements];
      float m2 = 0, sum_g = 0, sum_gd = 0, sum_of_next = 0;
      for_each_vector([&](int k, int column) {
        dy[k] = Vec::load(here.y + column);
        const Floats x_vec(Vec::load(here.x + column)), dy_vec(dy[k]);
        const Floats weight_vec(Vec::load(weight + column));
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) {
          const int i = k * Vec::size + e;
          d[i] = x_vec[e] - mean;
          g[i] = dy_vec[e] * weight_vec[e];
          m2 += d[i] * d[i];
          sum_g += g[i];
          sum_gd += g[i] * d[i];
          sum_of(1, i) += dy_vec[e];
        }
      });
      const bool is_last = r + 1 == Held::kRows || row + 1 == a.rows;  // of its stage
      if (is_last) ahead.release();
      const auto next_row = is_last ? first + ahead.stride() : row + 1;
      if (next_row < a.rows) {
        next = is_last ? ahead.wait(next_row) : Pair{here.x + a.cols, here.y + a.cols};
        sum_of_next = sum_of_x(next.x);
      }
      float sums[] = {m2, sum_gd, sum_g, sum_of_next};
      sum_over_row(sums);

      // dx = (g - mean_g - z * mean_gz) * scale
      const float scale = rsqrtf(sums[0] * inverse_cols + a.epsilon);
      const float z_factor = sums[1] * inverse_cols * scale * scale;  // mean_gz * scale
      const float subtracted = sums[2] * inverse_cols * scale;        // mean_g * scale
      T* const dx = a.dx + row * a.cols + part.first;
      for_each_vector([&](int k, int column) {
        if constexpr (kAligned) ladder::stay_packed(dy[k]);  // fewer registers
        const Floats dy_vec(dy[k]);
        Vec out;
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) {
          const int i = k * Vec::size + e;
          const float z = d[i] * scale;
          out[e] = T(g[i] * scale - (z * z_factor + subtracted));
          sum_of(0, i) += dy_vec[e] * z;
        }
        out.store_whole(dx + column);
      });
      mean = mean_of(sums[3]);
    }
  }

  row_norm::store_block_partial<Held>(sums_over_rows, ladder::dynamic_shared<float>(), partials);
}

/// As many clusters as run at once, or fewer where the rows are few.
template <class T, class Held>
int clusters_of(int rows) {
  static const int at_once =
      ladder::blocks_at_once(rows_ahead_backward<T, Held>, Held::kBlocks, row_norm::kAheadThreads,
                             ladder::RowStages::kBytes) /
      Held::kBlocks;
  return min(rows, max(1, at_once));  // where none can run, the launch says so
}

template <class T>
std::size_t workspace_of_rows_ahead_backward(const layernorm_backward::Args<T>& a) {
  return row_norm::by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        return row_norm::bytes_of_partials<layernorm, Held>(clusters_of<T, Held>(a.rows));
      },
      [&] { return workspace_of_cluster_backward(a); });
}
template std::size_t workspace_of_rows_ahead_backward(const layernorm_backward::Args<float>&);
template std::size_t workspace_of_rows_ahead_backward(
    const layernorm_backward::Args<ladder::half>&);
template std::size_t workspace_of_rows_ahead_backward(
    const layernorm_backward::Args<ladder::bfloat16>&);

template <class T>
void launch_rows_ahead_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream,
                                row_norm::AheadOptions options) {
  row_norm::by_columns_ahead<T>(
      a.cols,
      [&]<class Held>(Held) {
        const int clusters = clusters_of<T, Held>(a.rows);
        ladder::launch(rows_ahead_backward<T, Held>, clusters * Held::kBlocks,
                       row_norm::kAheadThreads, ladder::RowStages::kBytes, stream, a,
                       static_cast<float*>(a.workspace), row_norm::stages_ahead<T, Held>(a.cols),
                       options.in_step ? row_norm::kAheadOfSlowest : 0);
        row_norm::launch_add_partials<layernorm_backward, T, Held>(a, clusters, stream,
                                                                   options.overlapping);
      },
      [&] { launch_cluster_backward(a, stream); });
}
template void launch_rows_ahead_backward(const layernorm_backward::Args<float>&, cudaStream_t,
                                         row_norm::AheadOptions);
template void launch_rows_ahead_backward(const layernorm_backward::Args<ladder::half>&,
                                         cudaStream_t, row_norm::AheadOptions);
template void launch_rows_ahead_backward(const layernorm_backward::Args<ladder::bfloat16>&,
                                         cudaStream_t, row_norm::AheadOptions);

struct RowsAheadBackward {
  static constexpr ladder::Version version{"rows on their way before they are needed"};
  // So many rows that stages are used again: of a warp, of teams, of a block and of a cluster.
  static constexpr layernorm::Problem test_problems[] = {
      {401, 264}, {203, 400}, {203, 333}, {70, 1000}, {30, 3001}, {9, 8000}, {5, 9001}};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return workspace_of_rows_ahead_backward(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    launch_rows_ahead_backward(a, stream, {});
  }
};

const ladder::Register<RowsAheadBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace layernorm_rows
