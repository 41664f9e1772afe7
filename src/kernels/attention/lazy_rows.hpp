// As online_rows.hpp, but what weights are relative to is a row's maximum of some K-tiles ago, as long as
// no score is far beyond it. Then nothing that was summed up changes.
#pragma once

#include "accumulators.hpp"

#include <limits>

class LazyRows {
 public:
  /// `first` is the row g of this thread.
  template <class Op, class T>
  __device__ LazyRows(Op, const Head<T>& head, int first, float scale)
      : seen_{head.template visible<Op>(first), head.template visible<Op>(first + 8)},
        scale_(scale * ladder::ptx::kLog2E) {}

  /// Turns the scores of the keys from key0 on into weights. Returns whether what was summed up with
  /// weights before is to be multiplied with `factor`, for all lanes alike.
  template <int kScores>
  __device__ bool weigh(float (&s)[kScores], int key0, bool is_masked, float (&factor)[2]) {
    float max[2];
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (is_masked) mask_row(s, part, seen_[part] - key0);
      max[part] = quarter_max(s, part, -INFINITY);
    }
    const bool is_far =
        __any_sync(0xffffffff, is_far_beyond(max[0], 0) || is_far_beyond(max[1], 1));
    if (is_far) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const float from = fmaxf(from_[part], row_max(max[part]) * scale_);
        factor[part] = ladder::ptx::exp2_approx(from_[part] - from);
        from_[part] = from;
        sum_[part] *= factor[part];
      }
    }
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
      for (int i = part * 2; i < kScores; i += 4) {
        s[i] = ladder::ptx::exp2_approx(fmaf(s[i], scale_, -from_[part]));
        s[i + 1] = ladder::ptx::exp2_approx(fmaf(s[i + 1], scale_, -from_[part]));
        sum_[part] += s[i] + s[i + 1];
      }
    }
    return is_far;
  }

  /// Divides by the sums, and stores o and the log-sum-exp.
  template <class T, int kSums>
  __device__ void store(const Head<T>& head, int first, const float (&acc)[kSums]) {
    store_rows(head, first, acc, sum_, from_);
  }

 private:
  /// Weights up to 2^8 are far from where 16 bits end, and sums of them from where fp32 does.
  __device__ bool is_far_beyond(float max, int part) const {
    return fmaf(max, scale_, -from_[part]) > 8;
  }

  // No infinity, as that of a row that sees no key stays what it is: -inf - -inf is no number.
  static constexpr float kLowest = std::numeric_limits<float>::lowest();

  int seen_[2];                                       // keys
  float scale_;                                       // exponentials are powers of 2
  float from_[2] = {kLowest, kLowest}, sum_[2] = {};  // scaled: what weights are relative to
};
