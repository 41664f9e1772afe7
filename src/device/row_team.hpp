// Teams: the threads that share a row of a matrix. With the row's length their number changes, and
// how they add up: lanes of a warp by shuffles, the warps of a block through shared memory.
//
// A team is a type, which kernels take as a template parameter:
//   kThreads         threads of a row
//   kBlock           threads of a block, a whole number of teams or one
//   kHoldsAll        whether launch_by_team gives it only rows that its registers hold
//   rank()           the thread's number in its team
//   row(), stride()  the team's first row, and how many teams the grid has
//   SumStorage<n>    the shared memory of a sum of n numbers, which the kernel declares
//   sum(…, storage)  the sums over the team; all of its threads get them. Sums that follow each
//                    other have storage of their own: no barrier is needed to free it.
//   leave()          after the last sum
#pragma once

#include "device/kernel.hpp"

#include <type_traits>

namespace ladder {

/// The sum over kLanes neighbouring lanes; all of them get it.
template <int kLanes>
__device__ float warp_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

/// Up to 32 neighbouring lanes. All teams of a warp must take part in a sum, also those whose row
/// is beyond the matrix.
template <int kThreads_, int kBlock_ = 128>
struct LaneTeam {
  static constexpr int kThreads = kThreads_, kBlock = kBlock_;
  static constexpr int kTeams = kBlock / kThreads;  // of a block
  static constexpr bool kHoldsAll = true;
  static_assert(kThreads <= 32 && kBlock % 32 == 0);

  __device__ static int rank() { return threadIdx.x % kThreads; }
  __device__ static std::int64_t row() {
    return std::int64_t{blockIdx.x} * kTeams + threadIdx.x / kThreads;
  }
  __device__ static std::int64_t stride() { return std::int64_t{gridDim.x} * kTeams; }
  static int blocks(int rows) { return ceil_div(rows, kTeams); }

  template <int kSums>
  struct SumStorage {};
  template <int kSums>
  __device__ static void sum(float (&values)[kSums], SumStorage<kSums>&) {
#pragma unroll
    for (float& value : values) value = warp_sum<kThreads>(value);
  }
  __device__ static void leave() {}
};

/// A block.
template <int kThreads_>
struct BlockTeam {
  static constexpr int kThreads = kThreads_, kBlock = kThreads_, kTeams = 1;
  static constexpr int kWarps = kThreads / 32;
  static constexpr bool kHoldsAll = kThreads < 1024;

  __device__ static int rank() { return threadIdx.x; }
  __device__ static std::int64_t row() { return blockIdx.x; }
  __device__ static std::int64_t stride() { return gridDim.x; }
  static int blocks(int rows) { return rows; }

  template <int kSums>
  struct SumStorage {
    float of_warp[kSums][kWarps];
  };
  template <int kSums>
  __device__ static void sum(float (&values)[kSums], SumStorage<kSums>& storage) {
    auto& of_warp = storage.of_warp;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      values[i] = warp_sum<32>(values[i]);
      if (lane == 0) of_warp[i][warp] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSums; ++i) {  // every warp adds them: cheaper than to tell the others
      values[i] = warp_sum<kWarps>(of_warp[i][lane % kWarps]);
    }
  }
  __device__ static void leave() {}
};

template <class Team, int kSums = 1>
using SumStorage = typename Team::template SumStorage<kSums>;

/// The sum of one number of each thread of the team.
template <class Team>
__device__ float team_sum(float value, SumStorage<Team>& storage) {
  float values[] = {value};
  Team::sum(values, storage);
  return values[0];
}

/// Calls launch(Team{}, std::integral_constant<int, n>{}) with the smallest team that holds a row of
/// `vectors` vectors, n in each thread: kOfShort, if up to 512 threads hold it with so many, else
/// kVectors. What of a row is beyond 1024 threads' is not held.
template <int kVectors, int kOfShort, class Launch>
void launch_by_team(int vectors, Launch launch) {
  constexpr std::integral_constant<int, kOfShort> few;
  constexpr std::integral_constant<int, kVectors> many;
  if (vectors <= 16 * kOfShort) return launch(LaneTeam<16>{}, few);
  if (vectors <= 32 * kOfShort) return launch(LaneTeam<32>{}, few);
  if (vectors <= 64 * kOfShort) return launch(BlockTeam<64>{}, few);
  if (vectors <= 128 * kOfShort) return launch(BlockTeam<128>{}, few);
  if (vectors <= 256 * kOfShort) return launch(BlockTeam<256>{}, few);
  if (vectors <= 512 * kOfShort) return launch(BlockTeam<512>{}, few);
  if constexpr (kOfShort < kVectors) {
    if (vectors <= 512 * kVectors) return launch(BlockTeam<512>{}, many);
  }
  launch(BlockTeam<1024>{}, many);
}

}  // namespace ladder
