// The online softmax of the rows that a thread has of a warpgroup's accumulators (wgmma.hpp): rows
// g and g + 8 of its warp, of which four lanes have a quarter each.
#pragma once

#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "head.hpp"

class OnlineRows {
 public:
  /// `first` is the row g of this thread.
  template <class Op, class T>
  __device__ OnlineRows(Op, const Head<T>& head, int first, float scale)
      : seen_{head.template visible<Op>(first), head.template visible<Op>(first + 8)},
        scale_(scale * ladder::ptx::kLog2E) {}

  /// Turns the scores of the keys from key0 on into weights relative to the rows' maxima so far.
  /// What was summed up with weights before is to be multiplied with `factor`.
  template <int kScores>
  __device__ void weigh(float (&s)[kScores], int key0, bool is_masked, float (&factor)[2]) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (is_masked) {
        const int left = seen_[part] - key0 - static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
        for (int i = part * 2; i < kScores; i += 4) {
          if (i / 4 * 8 >= left) s[i] = -INFINITY;
          if (i / 4 * 8 + 1 >= left) s[i + 1] = -INFINITY;
        }
      }
      float max = max_[part];
#pragma unroll
      for (int i = part * 2; i < kScores; i += 4) max = fmaxf(max, fmaxf(s[i], s[i + 1]));
      max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, 2));
      const float from = max == -INFINITY ? 0 : max * scale_;  // -inf - -inf is no number
      factor[part] = ladder::ptx::exp2_approx(max_[part] * scale_ - from);
      max_[part] = max;
      sum_[part] *= factor[part];
#pragma unroll
      for (int i = part * 2; i < kScores; i += 4) {
        s[i] = ladder::ptx::exp2_approx(fmaf(s[i], scale_, -from));
        s[i + 1] = ladder::ptx::exp2_approx(fmaf(s[i + 1], scale_, -from));
        sum_[part] += s[i] + s[i + 1];
      }
    }
  }

  /// Divides by the sums, and stores o and the log-sum-exp.
  template <class T, int kSums>
  __device__ void store(const Head<T>& head, int first, const float (&acc)[kSums]) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      float sum = sum_[part];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      const int row = first + part * 8, column = static_cast<int>(threadIdx.x % 4);
      if (row >= head.queries) continue;
      if (column == 0) head.lse[row] = (max_[part] * scale_ + log2f(sum)) / ladder::ptx::kLog2E;
      const float factor = sum > 0 ? 1 / sum : 0;
      T* const o = head.o + row * head.q_pitch + column * 2;
#pragma unroll
      for (int i = part * 2; i < kSums; i += 4) {
        *reinterpret_cast<std::uint32_t*>(o + i / 4 * 8) =
            ladder::pack<T>(acc[i] * factor, acc[i + 1] * factor);
      }
    }
  }

 private:
  int seen_[2];                                          // keys
  float scale_;                                          // exponentials are powers of 2
  float max_[2] = {-INFINITY, -INFINITY}, sum_[2] = {};  // of unscaled scores
};

/// Multiplies both rows.
template <int kSums>
__device__ __forceinline__ void scale_rows(float (&acc)[kSums], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) acc[i] *= factor[i / 2 % 2];
}

/// Weights as the left operand of the next product: for 16 keys four words each.
template <class T, int kScores>
__device__ __forceinline__ void pack_weights(std::uint32_t (&a)[kScores / 8][4],
                                             const float (&s)[kScores]) {
#pragma unroll
  for (int i = 0; i < kScores / 2; ++i) a[i / 4][i % 4] = ladder::pack<T>(s[i * 2], s[i * 2 + 1]);
}
