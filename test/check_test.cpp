// The checker's own tests: it must reject each kind of wrong kernel. The kernels here are plain C++
// on the host device's memory, launched the way real ones are.
#include "forwarding_device.hpp"
#include "harness/family.hpp"
#include "relu_kernel.hpp"

#include "kernels/gemm/gemm.hpp"
#include "kernels/reduction/reduction.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ladder {
namespace {

using Gemm = gemm::Args<float>;
using IntegerMax = reduction::Args<reduction::max, std::int32_t>;

constexpr auto right_gemm = [](const Gemm& g) {
  for (int i = 0; i < g.m; ++i) {
    for (int j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int k = 0; k < g.k; ++k) sum += g.a[i * g.k + k] * g.b[k * g.n + j];
      g.c[i * g.n + j] = sum;
    }
  }
};

constexpr auto right_max = [](const IntegerMax& m) { *m.y = *std::max_element(m.x, m.x + m.n); };

template <class Args, class F>
void launch(const Call& call, cudaStream_t) {
  F{}(*static_cast<const Args*>(call.args));
}

class Check : public testing::Test {
 protected:
  template <class F>
  CheckResult gemm_on(F, const char* problem, int input_set = 0) {
    return run(
        {"gemm", "", DType::f32, {""}, "v01_test.cu", Backend::host, &launch<Gemm, F>, nullptr},
        problem, input_set);
  }
  template <class F>
  CheckResult relu_on(F, const char* problem) {
    return run({"elementwise",
                "relu",
                DType::f32,
                {""},
                "v01_test.cu",
                Backend::host,
                &launch<Relu, F>,
                nullptr},
               problem, 0);
  }
  /// Of many negative integers, -1 among them.
  template <class F>
  CheckResult max_on(F) {
    return run({"reduction",
                "max",
                DType::i32,
                {""},
                "v01_test.cu",
                Backend::host,
                &launch<IntegerMax, F>,
                nullptr},
               "1000", 1);
  }

 private:
  CheckResult run(const Kernel& kernel, const char* problem, int input_set) {
    const Family& family = family_of(kernel);
    const auto sets = family.input_sets();
    const auto workload = family.open(family.problem(problem), kernel.dtype,
                                      sets[static_cast<std::size_t>(input_set)], 7, *device_);
    return check(kernel, *workload, *device_);
  }
  std::unique_ptr<Device> device_ = std::make_unique<Unwatched>();
};

MATCHER_P(IsIncorrect, reason, "") {
  *result_listener << to_string(arg.verdict) << ": " << arg.reason;
  return arg.verdict == Verdict::incorrect && arg.reason.find(reason) != std::string::npos;
}

TEST_F(Check, AcceptsARightKernel) {
  const CheckResult result = gemm_on(right_gemm, "33x17x65");
  EXPECT_EQ(result.verdict, Verdict::passed) << result.reason;
  EXPECT_GT(result.error, 0);
  EXPECT_EQ(gemm_on(right_gemm, "33x17x65", 1).error, 0) << "small integers are exact";
  EXPECT_EQ(relu_on(right_relu, "1000").verdict, Verdict::passed);
}

TEST_F(Check, RejectsAKernelThatWritesNothing) {
  EXPECT_THAT(relu_on([](const Relu&) {}, "1000"), IsIncorrect("1000 of 1000 elements wrong"));
}

TEST_F(Check, RejectsOneNaN) {
  auto kernel = [](const Relu& r) {
    right_relu(r);
    r.y[r.n / 2] = NAN;
  };
  EXPECT_THAT(relu_on(kernel, "1000"), IsIncorrect("1 of 1000 elements wrong; element 500 is nan"));
}

TEST_F(Check, RejectsAllNaN) {
  auto kernel = [](const Relu& r) { std::fill(r.y, r.y + r.n, NAN); };
  EXPECT_THAT(relu_on(kernel, "64"), IsIncorrect("64 of 64"));
}

TEST_F(Check, RejectsAStaleOutput) {
  // The first run is right, the second relies on what the first one left behind.
  auto kernel = [](const Relu& r) {
    static bool done = false;
    if (!std::exchange(done, true)) right_relu(r);
  };
  EXPECT_EQ(relu_on(kernel, "1000").verdict, Verdict::passed);
  EXPECT_THAT(relu_on(kernel, "1000"), IsIncorrect("1000 of 1000"));
}

/// relu, with two words of state.
Kernel with_state(void (*launch)(const Call& call, cudaStream_t)) {
  return {.family = "elementwise",
          .op = "relu",
          .dtype = DType::f32,
          .version = {""},
          .file = "v01_test.cu",
          .backend = Backend::host,
          .launch = launch,
          .supports = nullptr,
          .state = [](const void*) { return 2 * sizeof(unsigned); }};
}

TEST_F(Check, StateIsZeroAndLeftSo) {
  const auto result = [](void (*launch)(const Call& call, cudaStream_t)) {
    Unwatched device;
    const Kernel kernel = with_state(launch);
    const Family& family = family_of(kernel);
    const auto workload =
        family.open(family.problem("1000"), kernel.dtype, family.input_sets().front(), 7, device);
    const CheckResult first = check(kernel, *workload, device);
    return first.verdict == Verdict::passed ? check(kernel, *workload, device) : first;
  };
  EXPECT_EQ(result([](const Call& call, cudaStream_t) {
              auto* const state = static_cast<unsigned*>(call.state);
              if (++state[1] == 1) right_relu(*static_cast<const Relu*>(call.args));
              state[1] = 0;
            }).verdict,
            Verdict::passed);
  EXPECT_THAT(result([](const Call& call, cudaStream_t) {
                right_relu(*static_cast<const Relu*>(call.args));
                static_cast<unsigned*>(call.state)[1] = 1;
              }),
              IsIncorrect("left its state other than zero"));
  EXPECT_THAT(result([](const Call& call, cudaStream_t) {
                right_relu(*static_cast<const Relu*>(call.args));
                static_cast<unsigned*>(call.state)[2] = 1;
              }),
              IsIncorrect("wrote outside its state"));
}

TEST_F(Check, AfterAFailureStateIsZeroAgain) {
  Unwatched device;
  static bool fails;
  fails = true;
  const Kernel kernel = with_state([](const Call& call, cudaStream_t) {
    if (std::exchange(static_cast<unsigned*>(call.state)[0], 1) != 0) return;
    if (std::exchange(fails, false)) throw std::runtime_error("ended");
    right_relu(*static_cast<const Relu*>(call.args));
    static_cast<unsigned*>(call.state)[0] = 0;
  });
  const Family& family = family_of(kernel);
  const auto workload =
      family.open(family.problem("1000"), kernel.dtype, family.input_sets().front(), 7, device);
  EXPECT_EQ(check(kernel, *workload, device).verdict, Verdict::failed);
  EXPECT_EQ(check(kernel, *workload, device).verdict, Verdict::passed);
}

TEST_F(Check, RejectsAnIntegerThatIsNeverWritten) {
  EXPECT_EQ(max_on(right_max).verdict, Verdict::passed);
  // What the first poison leaves behind is the right answer, -1.
  EXPECT_THAT(max_on([](const IntegerMax&) {}), IsIncorrect("expected -1"));
}

TEST_F(Check, RejectsIntegersThatAreNotExact) {
  auto kernel = [](const IntegerMax& m) {
    right_max(m);
    *m.y -= 1;
  };
  EXPECT_THAT(max_on(kernel), IsIncorrect("1 of 1 elements wrong"));
}

TEST_F(Check, RejectsADroppedTail) {
  auto kernel = [](const Relu& r) {
    Relu shorter = r;
    --shorter.n;
    right_relu(shorter);
  };
  EXPECT_THAT(relu_on(kernel, "1000"), IsIncorrect("1 of 1000 elements wrong; element 999"));
}

TEST_F(Check, RejectsAWriteBehindTheEnd) {
  auto kernel = [](const Relu& r) {
    right_relu(r);
    r.y[r.n] = 0;
  };
  EXPECT_THAT(relu_on(kernel, "1000"), IsIncorrect("wrote outside its output"));
}

TEST_F(Check, RejectsAWriteBeforeAnInput) {
  auto kernel = [](const Relu& r) {
    right_relu(r);
    const_cast<float*>(r.x[0])[-1] = 0;
  };
  EXPECT_THAT(relu_on(kernel, "1000"), IsIncorrect("wrote outside an input"));
}

TEST_F(Check, RejectsAChangedInput) {
  auto kernel = [](const Relu& r) {
    right_relu(r);
    const_cast<float*>(r.x[0])[r.n - 1] += 1;
  };
  EXPECT_THAT(relu_on(kernel, "1000"), IsIncorrect("changed its inputs"));
}

TEST_F(Check, RejectsATransposedResult) {
  auto kernel = [](const Gemm& g) {
    right_gemm(g);
    for (int i = 0; i < g.m; ++i) {
      for (int j = 0; j < i; ++j) std::swap(g.c[i * g.n + j], g.c[j * g.n + i]);
    }
  };
  EXPECT_THAT(gemm_on(kernel, "16x16x16"), IsIncorrect("240 of 256"));
}

TEST_F(Check, RejectsADroppedLastProduct) {
  auto kernel = [](const Gemm& g) {
    right_gemm(g);
    for (int i = 0; i < g.m; ++i) {
      for (int j = 0; j < g.n; ++j) {
        g.c[i * g.n + j] -= g.a[i * g.k + g.k - 1] * g.b[(g.k - 1) * g.n + j];
      }
    }
  };
  EXPECT_EQ(gemm_on(kernel, "64x64x500").verdict, Verdict::incorrect);
}

TEST_F(Check, RejectsHalfPrecisionArithmetic) {
  auto kernel = [](const Gemm& g) {
    right_gemm(g);
    for (int i = 0; i < g.m * g.n; ++i) g.c[i] = __bfloat162float(__float2bfloat16(g.c[i]));
  };
  EXPECT_EQ(gemm_on(kernel, "64x64x64").verdict, Verdict::incorrect);
}

TEST_F(Check, ReportsAKernelThatThrows) {
  auto kernel = [](const Relu&) { throw std::runtime_error("too many threads"); };
  const CheckResult result = relu_on(kernel, "8");
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_EQ(result.reason, "too many threads");
}

TEST(Compare, CountsInfinitiesAndNaNsAsTheyAre) {
  auto wrong = [](double actual, double expected) {
    Comparison total;
    compare_element(total, 0, actual, expected, 1, {.relative = 0.1, .scaled = 0.1});
    return total.wrong;
  };
  EXPECT_EQ(wrong(INFINITY, INFINITY), 0U);
  EXPECT_EQ(wrong(-INFINITY, INFINITY), 1U);
  EXPECT_EQ(wrong(1, INFINITY), 1U);
  EXPECT_EQ(wrong(INFINITY, 1), 1U);
  EXPECT_EQ(wrong(NAN, 1), 1U);
  EXPECT_EQ(wrong(1, NAN), 1U);
  EXPECT_EQ(wrong(NAN, NAN), 0U);
  EXPECT_EQ(wrong(1.19, 1), 0U);
  EXPECT_EQ(wrong(1.21, 1), 1U);
}

TEST(Compare, TellsErrorAndLimitOfOneElement) {
  Comparison total, part;
  compare_element(total, 0, 1005, 1000, 0, {.relative = 0.01});  // half of its limit
  compare_element(part, 1, 1.009, 1, 0, {.relative = 0.01});     // nine tenths
  merge(total, part);
  EXPECT_EQ(total.worst, 1U);
  EXPECT_NEAR(total.error, 0.009, 1e-12);
  EXPECT_NEAR(total.limit, 0.01, 1e-12);
  compare_element(total, 2, 980, 1000, 0, {.relative = 0.01});
  EXPECT_NEAR(total.error, 20, 1e-12);
  EXPECT_NEAR(total.limit, 10, 1e-12);
}

}  // namespace
}  // namespace ladder
