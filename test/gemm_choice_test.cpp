// What gemm_tensor's v20 chooses from, on the host executor: every shape of tile that it has, in most of its
// clusters, undivided or divided, whichever its estimate prefers for the problems of kernels_test.cpp. And
// matrices that start anywhere, which callers of the library may have and the harness never makes; and how much
// shared memory blocks take.
//
// Inputs are small integers, of which fp32 holds the sums: results must be what bf16 rounds these to.
#include "kernels/gemm_tensor/choice.hpp"

#include "harness/registry.hpp"
#include "host_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using gemm_choice::Choice;
using ladder::bfloat16;
using ladder::test::Array;

/// A, B and C, each of which starts so many elements into its allocation, and ends with it.
struct Starts {
  std::size_t a = 0, b = 0, c = 0;
};

template <class Op>
class Product {
 public:
  using Args = typename Op::template Args<bfloat16>;

  Product(int m, int n, int k, Starts starts = {})
      : starts_(starts),
        a_(starts.a + size(m, k)),
        b_(starts.b + size(k, n)),
        c_(starts.c + size(m, n)),
        state_(gemm_choice::state(m, n, k)) {
    args_ = {.a = a_.begin() + starts.a,
             .b = b_.begin() + starts.b,
             .c = c_.begin() + starts.c,
             .m = m,
             .n = n,
             .k = k};
    std::uint64_t state = 1;
    for (Array<bfloat16>* const matrix : {&a_, &b_}) {
      for (bfloat16& value : *matrix) {
        state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
        value = bfloat16(static_cast<float>(static_cast<int>((state >> 33) % 5) - 2));
      }
    }
    expected_.resize(size(m, n));
    for (int i = 0; i < m; ++i) {
      for (int l = 0; l < k; ++l) {
        const double a =
            static_cast<float>(Op::kTransposedA ? args_.a[at(l, i, m)] : args_.a[at(i, l, k)]);
        for (int j = 0; j < n; ++j) {
          expected_[at(i, j, n)] += a * static_cast<float>(Op::kTransposedB ? args_.b[at(j, l, k)]
                                                                            : args_.b[at(l, j, n)]);
        }
      }
    }
  }

  const Args& args() const { return args_; }

  /// launch(args, state) with so many bytes of scratch memory; returns the first mistake.
  template <class Launch>
  std::string mistake(std::size_t workspace_bytes, unsigned lane_order, Launch launch) {
    Array<unsigned char> workspace(workspace_bytes);
    std::fill(workspace.begin(), workspace.end(), 0xff);
    const bfloat16 untouched(-1000.f);
    std::fill(c_.begin(), c_.end(), untouched);
    Args args = args_;
    args.workspace = workspace.begin();
    ladder::host::set_lane_order(lane_order);
    const std::string error = ladder::test::error_of([&] { launch(args, state_.begin()); });
    ladder::host::set_lane_order(0);
    if (!error.empty()) return error;
    if (std::ranges::any_of(state_, [](unsigned char byte) { return byte != 0; })) {
      return "left state that is not zero";
    }
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const float found = args.c[i], expected = bfloat16(static_cast<float>(expected_[i]));
      if (found == expected) continue;
      return "element " + std::to_string(i) + " is " + std::to_string(found) + ", expected " +
             std::to_string(expected);
    }
    if (std::any_of(c_.begin(), c_.begin() + starts_.c,
                    [&](bfloat16 value) { return value != untouched; })) {
      return "wrote before C";
    }
    return "";
  }

 private:
  static std::size_t size(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  static std::size_t at(int row, int column, int columns) {
    return size(row, columns) + static_cast<std::size_t>(column);
  }

  Starts starts_;
  Array<bfloat16> a_, b_, c_;
  Array<unsigned char> state_;  // of all launches
  Args args_;
  std::vector<double> expected_;
};

template <class Op>
class GemmChoice : public testing::Test {};
using Ops = testing::Types<gemm_tensor_nn, gemm_tensor_nt, gemm_tensor_tn>;

class OpNames {
 public:
  template <class Op>
  static std::string GetName(int) {
    return Op::op;
  }
};
TYPED_TEST_SUITE(GemmChoice, Ops, OpNames);

/// The ways to share a product out, by the shape of tile.
template <class Op>
std::map<int, std::vector<Choice>> by_shape(const typename Op::template Args<bfloat16>& args) {
  std::map<int, std::vector<Choice>> shapes;
  for (const Choice& one : gemm_choice::choices<Op>(args, SIZE_MAX))
    shapes[one.shape].push_back(one);
  for (auto& [shape, ways] : shapes) std::ranges::sort(ways, {}, &Choice::way);
  return shapes;
}

TYPED_TEST(GemmChoice, EveryShapeIsRightInManyWays) {
  // Of one tile or two, but for small ones; the last is ragged on every side.
  Product<TypeParam> product(72, 200, 264);
  const auto shapes = by_shape<TypeParam>(product.args());
  ASSERT_FALSE(shapes.empty());
  EXPECT_EQ(shapes.rbegin()->first + 1, static_cast<int>(shapes.size())) << "a shape has no way";
  for (const auto& [shape, ways] : shapes) {
    ASSERT_GE(ways.size(), 2u) << "shape " << shape << " is not divided";
    // A cluster has about five ways: of most clusters one, and with the next shape another. v24's few: all.
    const std::size_t step = ways.size() > 5 ? 5 : 1;
    for (std::size_t i = static_cast<std::size_t>(shape) % step; i < ways.size(); i += step) {
      const Choice& choice = ways[i];
      const std::size_t bytes = gemm_choice::workspace<TypeParam>(product.args(), choice);
      const auto lane_order = static_cast<unsigned>(i);  // odd ones: eager
      EXPECT_EQ(product.mistake(bytes, lane_order,
                                [&](const auto& args, void* state) {
                                  gemm_choice::launch<TypeParam>(args, choice, state, nullptr);
                                }),
                "")
          << "shape " << choice.shape << ", way " << choice.way;
    }
  }
}

TYPED_TEST(GemmChoice, ABlockMayHaveSeveralTiles) {
  // 27 tiles and more of the larger shapes: warpgroups that take turns have their turn again.
  Product<TypeParam> product(520, 1048, 136);
  for (const auto& [shape, ways] : by_shape<TypeParam>(product.args())) {
    if (ways.size() < 5) continue;  // v24's: of a block only one
    // Whole tiles or some divided, of another cluster with the next shape.
    const Choice& choice = ways[static_cast<std::size_t>(shape) * 5 % ways.size()];
    const std::size_t bytes = gemm_choice::workspace<TypeParam>(product.args(), choice);
    EXPECT_EQ(product.mistake(bytes, static_cast<unsigned>(shape),
                              [&](const auto& args, void* state) {
                                gemm_choice::launch<TypeParam>(args, choice, state, nullptr);
                              }),
              "")
        << "shape " << choice.shape << ", way " << choice.way;
  }
}

TYPED_TEST(GemmChoice, EveryWayThatOperandsComeIsRight) {
  Product<TypeParam> product(70, 133, 141);
  std::set<gemm_choice::Operands> seen;
  std::set<int> copied;  // shapes: of their many ways the fastest will do
  for (const Choice& choice : gemm_choice::choices<TypeParam>(product.args(), SIZE_MAX)) {
    seen.insert(choice.operands);
    const bool is_copied = choice.operands == gemm_choice::Operands::are_copied;
    if (is_copied && !copied.insert(choice.shape).second) continue;
    const std::size_t bytes = gemm_choice::workspace<TypeParam>(product.args(), choice);
    EXPECT_EQ(product.mistake(bytes, 1,
                              [&](const auto& args, void* state) {
                                gemm_choice::launch<TypeParam>(args, choice, state, nullptr);
                              }),
              "")
        << "operands " << static_cast<int>(choice.operands) << ", shape " << choice.shape
        << ", way " << choice.way;
  }
  EXPECT_EQ(seen.size(), 4u);     // all but TMA's loads of the matrices themselves
  EXPECT_GT(copied.size(), 10u);  // C's odd rows are stored from tiles of many widths
}

TYPED_TEST(GemmChoice, FewBlocksHaveAllOfAnSmsSharedMemory) {
  constexpr std::size_t kHalf = 228 * 1024 / 2;  // bytes
  Product<TypeParam> few(16, 16, 8192), many(16, 192, 8192);
  const Choice choice = gemm_choice::choices<TypeParam>(few.args(), 1).front();
  auto launched = [&](Product<TypeParam>& product) {
    ladder::recorded_launches().clear();
    EXPECT_EQ(product.mistake(gemm_choice::workspace<TypeParam>(product.args(), choice), 1,
                              [&](const auto& args, void* state) {
                                gemm_choice::launch<TypeParam>(args, choice, state, nullptr);
                              }),
              "");
    return ladder::recorded_launches().back();
  };
  const ladder::Launch of_few = launched(few), of_many = launched(many);
  EXPECT_EQ(of_few.grid.x, 8u);
  EXPECT_GT(of_few.dynamic_shared, kHalf);
  EXPECT_EQ(of_many.grid.x, 24u);  // for 16 SMs
  EXPECT_LT(of_many.dynamic_shared, kHalf);
}

/// The version whose file is named so, of bf16.
template <class Op>
const ladder::Kernel& version(std::string_view name) {
  const auto& all = ladder::registered_kernels();
  const auto found = std::ranges::find_if(all, [&](const ladder::Kernel& kernel) {
    return std::string_view(kernel.file).find(name) != std::string_view::npos &&
           std::string_view(kernel.op) == Op::op && kernel.dtype == ladder::DType::bf16;
  });
  if (found == all.end()) throw std::runtime_error("there is no " + std::string(name));
  return *found;
}

TYPED_TEST(GemmChoice, MatricesMayStartAnywhere) {
  struct Case {
    gemm_tensor::Problem problem;
    std::vector<std::string_view> versions;
  };
  const Case cases[] = {{{72, 40, 136}, {"v20_autotuned", "v27_realigned", "v27c_one_realigned"}},
                        {{33, 65, 41},
                         {"v20_autotuned", "v26_padded_rows", "v27_realigned", "v27b_short_k",
                          "v27c_one_realigned"}}};
  const Starts all[] = {{.a = 1}, {.b = 3}, {.c = 1}, {.a = 5, .b = 4, .c = 7}};
  for (const auto& [problem, versions] : cases) {
    for (const Starts& starts : all) {
      Product<TypeParam> product(problem.m, problem.n, problem.k, starts);
      for (const std::string_view name : versions) {
        const ladder::Kernel& kernel = version<TypeParam>(name);
        const void* const plan = kernel.plan ? kernel.plan(&product.args(), false) : nullptr;
        EXPECT_EQ(product.mistake(kernel.workspace({&product.args(), plan}), 1,
                                  [&](const auto& args, void* state) {
                                    kernel.launch({&args, plan, state}, nullptr);
                                  }),
                  "")
            << name << ", " << problem.m << "x" << problem.n << "x" << problem.k
            << ", A, B, C from " << starts.a << ", " << starts.b << ", " << starts.c;
        if (plan) kernel.forget(plan);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ladder::host::set_sm_count(16);  // which four clusters of four fill: more than there are tiles
  return RUN_ALL_TESTS();
}
