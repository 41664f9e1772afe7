// The mean of a row's elements from their sum.
#pragma once

namespace ladder {

/// sum / count, where the inverse of count is at hand: 1.0f / count, rounded. The product alone would
/// not be the mean of equal elements, so what it leaves of the sum is divided, too. Two instructions
/// more than the product, where a division is a function.
inline __device__ float mean(float sum, int count, float inverse) {
  const float rounded = sum * inverse;
  return fmaf(fmaf(-rounded, static_cast<float>(count), sum), inverse, rounded);
}

}  // namespace ladder
