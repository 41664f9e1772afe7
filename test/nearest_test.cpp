// What ./bench names when it does not know a name.
#include "cli/nearest.hpp"

#include <gtest/gtest.h>

namespace ladder {
namespace {

TEST(Nearest, NamesTheFewPartsThatAreMostAlike) {
  const std::set<std::string> names{
      "gemm/f32/v01_naive/8x8x8",      "gemm/f32/v02_coalesced/8x8x8",
      "gemm/f32/v03_smem_tile/8x8x8",  "softmax/f32/v01_naive/5x7",
      "softmax/f16/v01_naive/5x7",     "softmax/log/f32/v01_naive/5x7",
      "reduction/sum/f32/v01_naive/9", "reduction/max/i32/v01_naive/9"};
  EXPECT_EQ(near_to("softmx", names), "; near it is softmax");
  EXPECT_EQ(near_to("^Softmax/f3$", names), "; near it are softmax/f32, softmax/f16");
  EXPECT_EQ(near_to("v01_nave", names), "; near it is v01_naive");
  EXPECT_EQ(near_to("gemm/f32/v03_smem_tile/9x9x9", names),
            "; near it is gemm/f32/v03_smem_tile/8x8x8");
  EXPECT_EQ(near_to("nothing_like_it", names), "");
  EXPECT_EQ(near_to(".*+", names), "");
  EXPECT_EQ(near_to("softmax", {}), "");
}

}  // namespace
}  // namespace ladder
