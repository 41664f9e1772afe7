// As lazy_rows.hpp, but no maximum is looked for: weights are made relative to what they were before, and
// their sum, which is needed in any case, tells if one of them was too large. Only then, and for a
// row's first keys, are the maxima found, and the weights made again.
#pragma once

#include "accumulators.hpp"

#include <limits>

class SumCheckedRows {
 public:
  /// `first` is the row g of this thread.
  template <class Op, class T>
  __device__ SumCheckedRows(Op, const Head<T>& head, int first, float scale)
      : seen_{head.template visible<Op>(first), head.template visible<Op>(first + 8)},
        scale_(scale * ladder::ptx::kLog2E) {}

  /// Makes the weights of the first keys.
  template <class T, int kScores>
  __device__ __forceinline__ void begin(std::uint32_t (&weights)[kScores / 8][4],
                                        float (&s)[kScores], bool is_masked) {
    float factor[2];  // of no sums
    if (is_masked) mask(s, 0);
    find_maxima(s, factor);
    make<T>(weights, s, sum_);
  }

  /// Makes those of the keys from key0 on. Returns whether what was summed up with weights before is to
  /// be multiplied with `factor`, for all lanes alike.
  template <class T, int kScores>
  __device__ __forceinline__ bool weigh(std::uint32_t (&weights)[kScores / 8][4],
                                        float (&s)[kScores], int key0, bool is_masked,
                                        float (&factor)[2]) {
    float sum[2];
    if (is_masked) mask(s, key0);
    make<T>(weights, s, sum);
    // No weight is larger than the sum. 2^11 is far from where 16 bits end, and from the sum of weights
    // of which none is beyond the maximum. Infinities and NaNs are not less.
    const bool is_far = __any_sync(0xffffffff, !(sum[0] + sum[1] < 2048));
    if (is_far) {
      find_maxima(s, factor);
      make<T>(weights, s, sum);
    }
    sum_[0] += sum[0];
    sum_[1] += sum[1];
    return is_far;
  }

  /// Divides by the sums, and stores o and the log-sum-exp.
  template <class T, int kSums>
  __device__ void store(const Head<T>& head, int first, const float (&acc)[kSums]) {
    store_rows(head, first, acc, sum_, from_);
  }

 private:
  template <int kScores>
  __device__ __forceinline__ void mask(float (&s)[kScores], int key0) const {
    mask_row(s, 0, seen_[0] - key0);
    mask_row(s, 1, seen_[1] - key0);
  }

  template <int kScores>
  __device__ __forceinline__ void find_maxima(const float (&s)[kScores], float (&factor)[2]) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const float max = row_max(quarter_max(s, part, -INFINITY));
      const float from = fmaxf(from_[part], max * scale_);
      factor[part] = ladder::ptx::exp2_approx(from_[part] - from);
      from_[part] = from;
      sum_[part] *= factor[part];
    }
  }

  /// Both rows by turns, and two sums of each, so that no addition waits for the one before.
  template <class T, int kScores>
  __device__ __forceinline__ void make(std::uint32_t (&weights)[kScores / 8][4],
                                       const float (&s)[kScores], float (&sum)[2]) const {
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      const int part = i % 2;
      const float x = ladder::ptx::exp2_approx(fmaf(s[i * 2], scale_, -from_[part]));
      const float y = ladder::ptx::exp2_approx(fmaf(s[i * 2 + 1], scale_, -from_[part]));
      sums[part][0] += x;
      sums[part][1] += y;
      weights[i / 4][i % 4] = ladder::pack<T>(x, y);
    }
    sum[0] = sums[0][0] + sums[0][1];
    sum[1] = sums[1][0] + sums[1][1];
  }

  // No infinity, as that of a row that sees no key stays what it is: -inf - -inf is no number.
  static constexpr float kLowest = std::numeric_limits<float>::lowest();

  int seen_[2];                                       // keys
  float scale_;                                       // exponentials are powers of 2
  float from_[2] = {kLowest, kLowest}, sum_[2] = {};  // scaled: what weights are relative to
};
