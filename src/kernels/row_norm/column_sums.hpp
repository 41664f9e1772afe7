// The sums over rows of the backward kernels, dweight and dbias, in persistent teams of threads: a
// thread has the same columns of every row, and accumulates them in registers; each block, or
// cluster, stores its partial sums to memory; a second launch adds those.
#pragma once

#include "device/ptx/griddepcontrol.hpp"
#include "device/row_length.hpp"
#include "device/row_partition.hpp"
#include "device/sm_count.hpp"

#include <bit>
#include <type_traits>

namespace row_norm {

/// Where a block's or cluster's partial sums of a row's columns are, in floats. A column is element e of
/// vector v, which is thread v % threads' vector number v / threads; what a thread moves at once lies
/// side by side with what its neighbours move. The parts of a cluster's blocks follow each other.
struct PartLayout {
  /// All but the floats of a block are powers of two.
  constexpr PartLayout(unsigned vec, unsigned at_once, unsigned threads, int block, int cluster = 1)
      : log_vec(std::countr_zero(vec)),
        log_four(std::countr_zero(at_once)),
        log_threads(std::countr_zero(threads)),
        of_block(block),
        blocks(cluster) {}

  int log_vec, log_four, log_threads;
  int of_block, blocks;  ///< floats of a block, and blocks of a cluster

  __device__ int place_of_column(int c) const {
    const int v = c >> log_vec, e = c & ((1 << log_vec) - 1);
    const int four = (v >> log_threads << (log_vec - log_four)) + (e >> log_four);
    const int t = v & ((1 << log_threads) - 1);
    return (((four << log_threads) + t) << log_four) + (e & ((1 << log_four) - 1));
  }
};

/// How a row is held: by a team, kElements elements in each thread. Thread t has vectors t,
/// t + kThreads, … of the row.
template <class Team_, class Vec_, int kElements_>
struct Held {
  using Team = Team_;
  using Vec = Vec_;
  static constexpr int kElements = kElements_;
  static constexpr int kVectors = kElements / Vec::size;    // of a thread
  static constexpr int kPart = kElements * Team::kThreads;  // floats that hold a row's sums

  /// Partial sums are moved by fours, or one by one where the vectors have one element.
  using Four = std::conditional_t<Vec::size == 1, ladder::Vec1<float>, ladder::Vec128<float>>;
  static constexpr int kFours = kElements / Four::size;  // of a thread

  /// Where a part has four number i of thread t: neighbouring threads' lie side by side.
  __device__ static int place(int i, int t) { return (i * Team::kThreads + t) * Four::size; }
  static constexpr PartLayout kLayout{Vec::size, Four::size, Team::kThreads, kPart};
};

/// A thread's accumulators of one sum over the rows.
template <class Held>
using ColumnSums = typename Held::Four[Held::kFours];

/// Adds the sums of a block's teams, one team after the other; the last team gets all of it. so_far
/// is shared memory, aligned to 16 bytes.
template <class Held, int kSums>
__device__ void add_teams(ColumnSums<Held> (&sums)[kSums], float (&so_far)[kSums][Held::kPart]) {
  using Team = typename Held::Team;
  using Four = typename Held::Four;
  const int mine = threadIdx.x / Team::kThreads;
  for (int team = 0; team < Team::kTeams; ++team) {
    if (team == mine) {
#pragma unroll
      for (int i = 0; i < kSums * Held::kFours; ++i) {
        Four& sum = sums[i / Held::kFours][i % Held::kFours];
        float* const at = so_far[i / Held::kFours] + Held::place(i % Held::kFours, Team::rank());
        if (team > 0) {
          const Four before = Four::load(at);
#pragma unroll
          for (int e = 0; e < Four::size; ++e) sum[e] += before[e];
        }
        sum.store(at);
      }
    }
    __syncthreads();
  }
}

/// By thread t of a team: stores its sums as the partial sums of its block or cluster, for rows of
/// `vectors` vectors.
template <class Held, int kSums>
__device__ void store_partial(const ColumnSums<Held> (&sums)[kSums], float* partials, int t,
                              int vectors) {
  using Team = typename Held::Team;
  float* const partial = partials + Team::row() / Team::kTeams * (kSums * Held::kPart);
#pragma unroll
  for (int i = 0; i < kSums * Held::kFours; ++i) {
    const int four = i % Held::kFours;
    const int v = four * Held::Four::size / Held::Vec::size * Team::kThreads + t;
    if (v >= vectors) continue;
    sums[i / Held::kFours][four].store(partial + i / Held::kFours * Held::kPart +
                                       Held::place(four, t));
  }
}

/// The sums over rows that there are: dweight, and LayerNorm's dbias.
template <class Norm>
constexpr int kSums = Norm::kCentred ? 2 : 1;

constexpr int kAddInFlight = 8;  // partial sums that a warp loads at once
constexpr int kAddMostWarps = 32;

/// dweight and dbias, from all partial sums: a lane per column, and the warps of 32 columns take turns.
/// They are added in an order that depends on their number only. Static, since the host executor knows
/// no kernel's launch bounds that several files have in common.
template <class Norm, class T>
static __global__ void __launch_bounds__(32 * kAddMostWarps)
    add_partials(typename Norm::template Args<T> a, const float* partials, int number,
                 PartLayout layout) {
  __shared__ float warp_sums[kSums<Norm>][kAddMostWarps][32];
  const int lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y;
  const int c = (blockIdx.x * blockDim.z + threadIdx.z) * 32 + lane;
  const int of_block = threadIdx.z * warps + warp;
  const int part = layout.of_block * layout.blocks;
  int rank = 0, first_column = 0;  // of the block that has the column
  if (layout.blocks > 1) {
    rank = ladder::RowPartition<T>::rank_of(c, a.cols, layout.blocks);
    first_column = ladder::RowPartition<T>(a.cols, rank, layout.blocks).first;
  }
  const int place = rank * layout.of_block + layout.place_of_column(c - first_column);
  float sums[kSums<Norm>] = {};
  // The first round is a rehearsal without partial sums: while the launch before ends, which makes them,
  // it brings the instructions.
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const bool is_rehearsal = round == 0;
    if (!is_rehearsal) ladder::ptx::griddepcontrol_wait();
    const int there = is_rehearsal ? 0 : number;
    if (c < a.cols) {
      const float* const from = partials + place;
      for (int first = warp; first < number; first += kAddInFlight * warps) {
        float in_flight[kAddInFlight][kSums<Norm>];
#pragma unroll
        for (int j = 0; j < kAddInFlight; ++j) {
          const int partial = first + j * warps;
#pragma unroll
          for (int i = 0; i < kSums<Norm>; ++i) {
            const auto at = (std::int64_t{partial} * kSums<Norm> + i) * part;
            in_flight[j][i] = partial < there ? from[at] : 0.0f;
          }
        }
#pragma unroll
        for (int j = 0; j < kAddInFlight; ++j) {
#pragma unroll
          for (int i = 0; i < kSums<Norm>; ++i) sums[i] += in_flight[j][i];
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSums<Norm>; ++i) warp_sums[i][of_block][lane] = sums[i];
  __syncthreads();
  if (warp >= kSums<Norm> || c >= a.cols) return;
  float sum = 0;
#pragma unroll 4
  for (int w = 0; w < warps; ++w) sum += warp_sums[warp][threadIdx.z * warps + w][lane];
  if constexpr (Norm::kCentred) {
    (warp == 0 ? a.dweight : a.dbias)[c] = T(sum);
  } else {
    a.dweight[c] = T(sum);
  }
}

template <class Norm, class Held>
std::size_t bytes_of_partials(int number) {
  return static_cast<std::size_t>(number) * kSums<Norm> * Held::kPart * sizeof(float);
}

/// overlapping: with the launch before it, which makes the partial sums.
template <class Norm, class T, class Held>
void launch_add_partials(const typename Norm::template Args<T>& a, int number, cudaStream_t stream,
                         bool overlapping = false) {
  const int warps = max(2, min(kAddMostWarps, ladder::ceil_div(number, kAddInFlight)));
  // Where the partial sums are few, the columns are many: then a block has more of them, because to
  // launch many small blocks takes longer than the sums.
  constexpr int kMostWarps = 16;  // of such a block, so that an SM has several
  const int groups = max(1, min(kMostWarps / warps, a.cols / 32 / ladder::sm_count()));
  ladder::launch_with({.overlapping = overlapping}, add_partials<Norm, T>,
                      ladder::ceil_div(a.cols, 32 * groups), dim3(32, warps, groups), 0, stream, a,
                      static_cast<const float*>(a.workspace), number, Held::kLayout);
}

}  // namespace row_norm
