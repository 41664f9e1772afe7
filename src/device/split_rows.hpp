// Rows so long, or so few, that many blocks share each: in one launch the blocks first read the parts
// of a row, and find what the row has in common (its maximum, its sums); the last of them to finish
// publishes it; then others read the parts again, mostly from the L2 cache, and store the results.
//
//   __global__ void kernel(args, SplitPlan plan, SplitCounters counters) {
//     const SplitPart<T> part(plan, cols);
//     if (part.is_first_pass) {
//       …                                                    reads part.begin to part.end
//       publish(plan, counters, part, of_block, merge);
//     } else {
//       const Total total = await_total<Total>(plan, counters, part);
//       …                                                    stores the results
//     }
//   }
//
// A block of the second pass waits for blocks of lower numbers only, which by ascending dispatch have
// begun before it: nobody waits for what can't run, on however few SMs. The first passes are `ahead`
// rows ahead of the second ones, so that as a rule these find the total published.
#pragma once

#include "device/ptx/memory_order.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"

namespace ladder {

constexpr int kSplitBlock = 256;       // threads
constexpr int kSplitLoads = 4;         // vectors in flight per thread
constexpr int kSplitBlocksOfSm = 4;    // at least
constexpr int kMostSplitRows = 16384;  // of a launch

/// Of each row: how many parts are done in the first pass and in the second; whether its total is
/// there. State of a launch: zeros before and after it.
struct SplitCounters {
  unsigned *first, *second, *ready;  // [rows] each

  SplitCounters(void* state, int rows)
      : first(static_cast<unsigned*>(state)), second(first + rows), ready(second + rows) {}
};
inline std::size_t state_of_split(int rows, int cols) {
  return cols == 0 ? 0 : 3 * sizeof(unsigned) * static_cast<std::size_t>(rows);
}

struct SplitPlan {
  int rows, parts, ahead;
  void* workspace;  // [rows][parts + 1] of what a part has, the last of the row

  __host__ __device__ unsigned blocks() const { return 2u * rows * parts; }
};

/// The smallest parts are two vectors of each thread, and as a rule four; there are at most as many of
/// a row as blocks run at once.
template <class T>
SplitPlan plan_split(int rows, int cols, int matrices, void* workspace) {
  const int at_once = sm_count() * kSplitBlocksOfSm;
  const int vectors = ceil_div(cols, Vec128<T>::size);
  const int most = max(1, min(at_once, vectors / (2 * kSplitBlock)));
  const int wanted = max(ceil_div(at_once, max(rows, 1)), vectors / (kSplitLoads * kSplitBlock));
  const int parts = max(1, min(wanted, most));
  // So many rows ahead that their blocks fill the GPU, if the L2 cache, of 50 MB, keeps them.
  constexpr std::int64_t kKept = 24 << 20;  // bytes
  const std::int64_t row = std::int64_t{cols} * static_cast<int>(sizeof(T)) * matrices;
  const int ahead = ceil_div(at_once, parts) + 1;
  return {rows, parts, ahead * row <= kKept ? ahead : 1, workspace};
}

/// Whether there is a GPU of which is_split_faster is true.
template <class T>
bool may_be_split_faster(int rows, int cols) {
  constexpr std::int64_t kLeast = 1 << 20;  // bytes
  return rows <= kMostSplitRows && std::int64_t{cols} * static_cast<int>(sizeof(T)) >= kLeast;
}

/// Whether the GPU is done sooner with rows that it shares, reading what they are made of twice, than
/// with a cluster of 8 SMs for each: where the clusters have few rows each, and a row takes longer than
/// the two passes wait for each other. The bound was measured on an H100, with 16 to 128 rows: there
/// it is 66.
template <class T>
bool is_split_faster(int rows, int cols) {
  constexpr int kSmsOfRow = 2;  // at least
  return may_be_split_faster<T>(rows, cols) && rows <= max(1, sm_count() / kSmsOfRow);
}

template <class Total>
std::size_t workspace_of_split(const SplitPlan& plan) {
  return static_cast<std::size_t>(plan.rows) * (plan.parts + 1) * sizeof(Total);
}

/// What a block does: a part of a row, elements begin to end of the matrix, and of them the vectors
/// first to last at multiples of 16 bytes.
template <class T>
struct SplitPart {
  using Vec = Vec128<T>;
  bool is_first_pass;
  int row, part;
  std::int64_t start, begin, first, last, end;  // start: of the row

  __device__ SplitPart(const SplitPlan& plan, int cols) {
    const int group = blockIdx.x / plan.parts, ahead = min(plan.ahead, plan.rows);
    part = blockIdx.x % plan.parts;
    const int pair = (group - ahead) / 2, pairs = plan.rows - ahead;
    if (group < ahead) {
      is_first_pass = true;
      row = group;
    } else if (pair < pairs) {
      is_first_pass = (group - ahead) % 2 == 1;
      row = is_first_pass ? pair + ahead : pair;
    } else {
      is_first_pass = false;
      row = group - ahead - pairs;
    }
    start = std::int64_t{row} * cols;
    begin = boundary(part, plan.parts, cols);
    end = boundary(part + 1, plan.parts, cols);
    first = min(end, up(begin));
    last = end - (end - first) % Vec::size;
  }

  /// The element that thread t handles of those in no vector; -1: none.
  __device__ std::int64_t single(int t) const {
    if (t < first - begin) return begin + t;
    const std::int64_t behind = last + (t - (first - begin));
    return behind < end ? behind : -1;
  }

  /// Calls f(left, at) for kLoads vectors of this thread at a time, kSplitBlock vectors apart: the
  /// first is at `at`, and those exist that are fewer than `left` vectors behind it. From the front
  /// or from the back.
  template <bool kBackwards, int kLoads = kSplitLoads, class F>
  __device__ void for_each(F f) const {
    constexpr int kStep = kSplitBlock * kLoads;
    const auto vectors = static_cast<int>((last - first) / Vec::size);
    const int steps = ceil_div(vectors, kStep);
    for (int i = 0; i < steps; ++i) {
      const int step = kBackwards ? steps - 1 - i : i;
      const int v = step * kStep + static_cast<int>(threadIdx.x);
      f(vectors - v, first + std::int64_t{v} * Vec::size);
    }
  }

 private:
  __device__ static std::int64_t up(std::int64_t at) { return (at + Vec::size - 1) & -Vec::size; }
  __device__ std::int64_t boundary(int i, int parts, int cols) const {
    if (i == 0) return start;
    if (i == parts) return start + cols;
    return up(start + std::int64_t{cols} * i / parts);
  }
};

/// By all threads of a block that has `of_part`, the same in all of them, after the first pass; the
/// last block of the row merges the parts, and its thread 0 calls use(total). merge(first, count) is
/// given the parts' values, and has their merger in thread 0. done, a number for each row, is state:
/// zero before a launch and after it.
template <class Total, class T, class Merge, class Use>
__device__ void merge_parts(const SplitPlan& plan, unsigned* done, const SplitPart<T>& part,
                            const Total& of_part, Merge merge, Use use) {
  __shared__ bool is_last;
  Total* const of_parts =
      static_cast<Total*>(plan.workspace) + std::int64_t{part.row} * (plan.parts + 1);
  if (threadIdx.x == 0) {
    of_parts[part.part] = of_part;
    __threadfence();  // whoever sees the count sees the part's value
    const unsigned most = plan.parts - 1;
    is_last = atomicInc(&done[part.row], most) == most;
    if (is_last) __threadfence();  // this block, having seen the count, sees the parts' values
  }
  __syncthreads();
  if (!is_last) return;
  const Total total = merge(of_parts, plan.parts);
  if (threadIdx.x == 0) use(total);
}

/// The same, where others await the total: it is published.
template <class Total, class T, class Merge>
__device__ void publish(const SplitPlan& plan, const SplitCounters& counters,
                        const SplitPart<T>& part, const Total& of_part, Merge merge) {
  merge_parts(plan, counters.first, part, of_part, merge, [&](const Total& total) {
    static_cast<Total*>(plan.workspace)[std::int64_t{part.row} * (plan.parts + 1) + plan.parts] =
        total;
    ptx::store_release<ptx::Scope::gpu>(&counters.ready[part.row], 1);
  });
}

/// By all threads of a block of the second pass: waits for the row's total.
template <class Total, class T>
__device__ Total await_total(const SplitPlan& plan, const SplitCounters& counters,
                             const SplitPart<T>& part) {
  if (threadIdx.x == 0) {
    while (ptx::load_acquire<ptx::Scope::gpu>(&counters.ready[part.row]) == 0) {
    }
    const unsigned most = plan.parts - 1;
    if (atomicInc(&counters.second[part.row], most) == most) {  // all have seen it
      ptx::store_release<ptx::Scope::gpu>(&counters.ready[part.row], 0);
    }
  }
  __syncthreads();
  return static_cast<const Total*>(
      plan.workspace)[std::int64_t{part.row} * (plan.parts + 1) + plan.parts];
}

}  // namespace ladder
