// The sums over rows of the backward kernels for short rows (device/short_rows.hpp): a lane has the
// same columns of all its rows.
#pragma once

#include "column_sums.hpp"
#include "device/short_rows.hpp"

namespace row_norm {

/// Calls launch with the short rows of a backward kernel. Of 16-bit rows that are no whole number of
/// vectors a lane has single elements: in words, it has other columns of every other row.
template <class T, int kSteps, class Launch>
auto with_rows_to_sum(int cols, Launch launch) {
  if constexpr (sizeof(T) == 4) {
    return ladder::with_short_rows_of_words<T, kSteps>(cols, launch);
  } else {
    return ladder::with_short_rows<T, kSteps>(cols, launch);
  }
}

/// Adds the threads' sums to those of the block. In shared memory.
template <class Rows, int kSums>
struct ShortColumnSums {
  static constexpr int kElements = Rows::kElements, kPart = Rows::kLanes * kElements;
  static constexpr int kWarps = Rows::kBlock / 32;
  float of_warp[kSums][kWarps][kPart];

  /// Sum number `which` of this lane's columns, by all threads.
  __device__ void add(int which, float (&sum)[kElements]) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
#pragma unroll
      for (int distance = Rows::kLanes; distance < 32; distance *= 2) {
        sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], distance);
      }
      if (threadIdx.x % 32 < Rows::kLanes) {
        of_warp[which][threadIdx.x / 32][e * Rows::kLanes + Rows::lane()] = sum[e];
      }
    }
  }

  /// Stores the block's sums as its partial ones: [kSums][kPart].
  __device__ void store(float* partial) const {
    __syncthreads();
    for (int at = threadIdx.x; at < kSums * kPart; at += Rows::kBlock) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += of_warp[at / kPart][w][at % kPart];
      partial[at] = sum;
    }
  }
};

/// Where those are, for add_partials.
template <class Rows>
struct HeldShort {
  static constexpr int kPart = Rows::kLanes * Rows::kElements;
  static constexpr PartLayout kLayout{Rows::kNeighbours, 1, Rows::kLanes, kPart};
};

}  // namespace row_norm
