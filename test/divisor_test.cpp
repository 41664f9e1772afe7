// Division by what a launch divides by.
#include "device/divisor.hpp"

#include <gtest/gtest.h>

#include <climits>

namespace ladder {
namespace {

TEST(Divisor, DividesAsIntegersDo) {
  constexpr int kMost = INT_MAX;
  for (const int divisor : {1, 2, 3, 5, 7, 60, 66, 127, 128, 129, 641, 65535, 65537, 1 << 30,
                            (1 << 30) + 1, kMost - 1, kMost}) {
    const Divisor by(divisor);
    for (const int near :
         {0, 1, divisor / 2, divisor, kMost / 2, kMost / divisor * divisor, kMost}) {
      for (const int step : {-1, 0, 1}) {
        if ((near == 0 && step < 0) || (near == kMost && step > 0)) continue;
        const int x = near + step;
        ASSERT_EQ(by.quotient(x), x / divisor) << x << " / " << divisor;
        ASSERT_EQ(by.remainder(x), x % divisor) << x << " % " << divisor;
      }
    }
  }
}

}  // namespace
}  // namespace ladder
