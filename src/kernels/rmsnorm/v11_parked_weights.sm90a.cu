// Idea      each thread stages its weights in shared memory with cp.async while its part of the row
//           loads to registers: they are there when the row's sum is known
// Vs v08    fp32 rows of 8193 to 32768 elements: no trip to the L2 between the sum and the stores
// Bound by  DRAM bandwidth
// Limits    Hopper, for longer rows, which are left to LayerNorm's v10; so are shorter ones, and rows
//           that are no whole number of vectors
// Tile      as v08; up to 128 KiB of an SM's shared memory for weights
#include "device/ptx/cp_async.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

constexpr int kVectors = 8;  // of a thread

template <class T, class Team>
__global__ void __launch_bounds__(Team::kBlock, 1024 / Team::kBlock)
    staged_weights(rmsnorm::Args<T> a) {
  __shared__ ladder::SumStorage<Team> of_sum_sq;
  using Vec = ladder::Vec128<T>;
  constexpr int kThreads = Team::kThreads;
  const int t = Team::rank();
  const std::int64_t row = Team::row(), start = row * a.cols;
  const int vectors = a.cols / Vec::size;
  const T* const x = a.x + start;
  T* const y = a.y + start;

  // Thread t holds vectors t, t + kThreads, … of the row.
  Vec held[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) held[k][e] = T(0.0f);  // beyond the row
    if (v < vectors) held[k] = Vec::load(x + v * Vec::size);
  }

  // Each thread stages the weights that it will use itself, so that no barrier is needed.
  Vec* const staged = ladder::dynamic_shared<Vec>() + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= vectors) break;
    ladder::ptx::cp_async_ca<16>(staged + k * Team::kBlock, a.weight + v * Vec::size);
  }
  ladder::ptx::cp_async_commit_group();

  float sum_sq = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    ladder::stay_packed(held[k]);
    if (k * kThreads + t >= vectors) break;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float value = static_cast<float>(held[k][e]);
      sum_sq += value * value;
    }
  }
  const float mean_sq = ladder::team_sum<Team>(sum_sq, of_sum_sq) / a.cols;
  const float scale = rsqrtf(mean_sq + a.epsilon);

  auto result = [&](T value, T weight) {
    return T(static_cast<float>(value) * scale * static_cast<float>(weight));
  };
  ladder::ptx::cp_async_wait_group<0>();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= vectors) break;
    ladder::stay_packed(held[k]);
    const Vec weight = staged[k * Team::kBlock];
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = result(held[k][e], weight[e]);
    out.store(y + v * Vec::size);
  }
}

}  // namespace

namespace row_norm {

template <class T>
void launch_parked_weights(const rmsnorm::Args<T>& a, void* state, cudaStream_t stream) {
  using Vec = ladder::Vec128<T>;
  constexpr int kShortest = 8193, kLongest = kLongestOfBlock<rmsnorm, T>;
  static_assert(kLongest <= 1024 * kVectors * Vec::size, "the threads hold the row");
  auto by_block = [&]<class Team>(Team) {
    ladder::launch(staged_weights<T, Team>, Team::blocks(a.rows), Team::kBlock,
                   kVectors * Team::kBlock * sizeof(Vec), stream, a);
  };
  if (a.cols < kShortest || a.cols > kLongest || a.cols % Vec::size != 0) {
    return launch_rows_ahead<rmsnorm>(a, state, stream);
  }
  if (a.cols <= 512 * kVectors * Vec::size) return by_block(ladder::BlockTeam<512>{});
  by_block(ladder::BlockTeam<1024>{});
}
template void launch_parked_weights(const rmsnorm::Args<float>&, void*, cudaStream_t);

}  // namespace row_norm

namespace {

struct ParkedWeights {
  static constexpr ladder::Version version{"the weights in shared memory before they are needed"};

  template <class T>
  static std::size_t state(const rmsnorm::Args<T>& a) {
    return row_norm::state_of_rows_ahead<rmsnorm>(a);
  }
  template <class T>
  static void launch(const rmsnorm::Args<T>& a, void* state, cudaStream_t stream) {
    row_norm::launch_parked_weights(a, state, stream);
  }
};

const ladder::Register<ParkedWeights, rmsnorm, float> registration;

}  // namespace
