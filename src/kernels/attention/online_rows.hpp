// The online softmax of the rows that a thread has of a warpgroup's accumulators.
#pragma once

#include "accumulators.hpp"

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
      if (is_masked) mask_row(s, part, seen_[part] - key0);
      const float max = row_max(quarter_max(s, part, max_[part]));
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
    store_rows(head, first, acc, sum_, {max_[0] * scale_, max_[1] * scale_});
  }

 private:
  int seen_[2];                                          // keys
  float scale_;                                          // exponentials are powers of 2
  float max_[2] = {-INFINITY, -INFINITY}, sum_[2] = {};  // of unscaled scores
};
