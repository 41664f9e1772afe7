// What a family may ask of the harness beside one output of the inputs' type: arrays of several types
// and roles, inputs that it makes itself, results that it judges itself.
#include "forwarding_device.hpp"
#include "harness/family.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace ladder {
namespace {

/// total += x, in place and in fp32, of x in its type; and how many x are below zero.
struct Accumulate {
  struct Problem {
    std::size_t n;
  };
  template <class T>
  struct Args {
    const T* x;
    float* total;
    std::int32_t* negative;
    std::size_t n;
  };

  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {input<T>("x", p.n), in_place<float>("total", p.n, {.scaled = 0x1p-24}),
            output<std::int32_t>("negative", 1, {})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands arrays) {
    return {.x = arrays[0], .total = arrays[1], .negative = arrays[2], .n = p.n};
  }
  template <class T>
  static std::vector<Expected> reference(const Problem& p, Operands arrays) {
    const T* const x = arrays[0];
    const float* const total = arrays[1];
    std::vector<Expected> all{{filled(p.n), filled(p.n)}, {filled(1), {}}};
    for (std::size_t i = 0; i < p.n; ++i) {
      const double value = static_cast<float>(x[i]);
      all[0].values[i] = total[i] + value;
      all[0].magnitude[i] = std::abs(total[i]) + std::abs(value);
      all[1].values[0] += value < 0;
    }
    return all;
  }
};

/// The numbers in an order that is given, those below zero first; any order of either will do.
struct Partition {
  struct Problem {
    std::size_t n;
  };
  template <class T>
  struct Args {
    const T* x;
    const std::int32_t* order;
    T* y;
    std::size_t n;
  };

  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {input<T>("x", p.n), input<std::int32_t>("order", p.n), output<T>("y", p.n, {})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands arrays) {
    return {.x = arrays[0], .order = arrays[1], .y = arrays[2], .n = p.n};
  }
  template <class T>
  static void arrange_inputs(const Problem&, std::uint64_t seed, Operands arrays) {
    const std::span<std::int32_t> order = arrays[1].elements<std::int32_t>();
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random_bits(seed, 1, i) % i]);
    }
  }
  template <class T>
  static std::string mistake(const Problem&, Operands before, Operands after) {
    const std::span<const T> x = before[0].elements<const T>(), y = after[2].elements<const T>();
    if (!std::is_permutation(x.begin(), x.end(), y.begin())) return "y has other numbers than x";
    const bool parted = std::is_partitioned(y.begin(), y.end(), [](T one) { return one < 0; });
    return parted ? "" : "y has one below zero behind another";
  }
};

/// The numbers in place, in ascending order.
struct Sort {
  struct Problem {
    std::size_t n;
  };
  template <class T>
  struct Args {
    T* x;
    std::size_t n;
  };

  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {in_place<T>("x", p.n, {})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands arrays) {
    return {.x = arrays[0], .n = p.n};
  }
  template <class T>
  static std::string mistake(const Problem&, Operands before, Operands after) {
    const std::span<const T> x = before[0].elements<const T>(), y = after[0].elements<const T>();
    if (!std::is_permutation(x.begin(), x.end(), y.begin())) return "x has other numbers";
    return std::is_sorted(y.begin(), y.end()) ? "" : "x is not sorted";
  }
};

/// What every family has, and no test here asks for.
template <class Own>
struct Contract : Own {
  using typename Own::Problem;
  static constexpr const char *family = "test", *op = "", *problem_help = "";
  static std::optional<Problem> parse(std::string_view) { return {}; }
  static std::string text(const Problem&) { return ""; }
  static std::vector<Problem> test_problems() { return {}; }
  static std::vector<Problem> bench_problems(Backend) { return {}; }
  static std::vector<InputSet> input_sets() { return {}; }
  static Cost cost(const Problem&, DType) { return {}; }
};

/// What the check says of a kernel.
template <class Own, class T>
CheckResult check_of(std::function<void(const typename Own::template Args<T>&)> kernel) {
  static std::function<void(const typename Own::template Args<T>&)> body;
  body = std::move(kernel);
  Unwatched device;
  Workload workload(std::make_unique<BindingOf<Contract<Own>, T>>(typename Own::Problem{100}),
                    {"uniform", uniform_value}, 7, device);
  const auto launch = [](const void* args, cudaStream_t) {
    body(*static_cast<const typename Own::template Args<T>*>(args));
  };
  const Kernel it{"test", "", DTypeOf<T>::value, {""}, "v01_test.cu", Backend::host, launch, {}};
  const CheckResult first = check(it, workload, device);
  workload.refill(8);
  EXPECT_EQ(check(it, workload, device).verdict, first.verdict) << "of other inputs";
  return first;
}

void accumulate(const Accumulate::Args<bfloat16>& a) {
  *a.negative = 0;
  for (std::size_t i = 0; i < a.n; ++i) {
    a.total[i] += static_cast<float>(a.x[i]);
    *a.negative += static_cast<float>(a.x[i]) < 0;
  }
}

std::string wrong_accumulate(std::function<void(const Accumulate::Args<bfloat16>&)> kernel) {
  return check_of<Accumulate, bfloat16>(kernel).reason;
}

TEST(SeveralArrays, AreCheckedEachByItsType) {
  EXPECT_EQ(wrong_accumulate(accumulate), "");
  EXPECT_THAT(wrong_accumulate([](const auto& a) {
                accumulate(a);
                ++*a.negative;
              }),
              testing::StartsWith("negative: 1 of 1 elements wrong"));
  EXPECT_THAT(wrong_accumulate([](const auto& a) {
                accumulate(a);
                a.total[3] = 3;
              }),
              testing::StartsWith("total: 1 of 100 elements wrong; element 3 is 3"));
  EXPECT_EQ(wrong_accumulate([](const auto& a) {
              accumulate(a);
              const_cast<bfloat16*>(a.x)[5] = bfloat16(9.0f);
            }),
            "changed its inputs");
  EXPECT_EQ(wrong_accumulate([](const auto& a) {
              accumulate(a);
              a.total[a.n] = 0;
            }),
            "wrote outside its output");
}

TEST(SeveralArrays, WhatIsInPlaceIsPutBackBeforeEveryCheck) {
  EXPECT_THAT(wrong_accumulate([](const auto& a) {
                accumulate(a);
                accumulate(a);
              }),
              testing::StartsWith("total: 100 of 100 elements wrong"));
  EXPECT_THAT(wrong_accumulate([](const auto& a) { *a.negative = 50; }),
              testing::StartsWith("total: 100 of 100 elements wrong"));
}

TEST(SeveralArrays, WhatNobodyWritesIsFound) {
  EXPECT_THAT(wrong_accumulate([](const auto& a) {
                std::int32_t negative = 0;
                auto other = a;
                other.negative = &negative;
                accumulate(other);
              }),
              testing::StartsWith("negative: 1 of 1 elements wrong"));
}

TEST(SeveralArrays, TakenForAnotherTypeAreAnError) {
  const Array array = input<bfloat16>("x", 1);
  bfloat16 x{};
  const Operand operand(array, &x);
  EXPECT_EQ(static_cast<const bfloat16*>(operand), &x);
  EXPECT_THROW(static_cast<void>(static_cast<const float*>(operand)), std::logic_error);
}

TEST(SeveralArrays, TakeMemoryForWhatTheyWereAndForTheAnswers) {
  const BindingOf<Contract<Accumulate>, bfloat16> binding({100});
  EXPECT_EQ(memory_of(binding), 100 * (2 + 2 * 4 + 16) + (4 + 16));
}

void partition(const Partition::Args<float>& a) {
  std::size_t to = 0;
  for (const bool negative : {true, false}) {
    for (std::size_t i = 0; i < a.n; ++i) {
      const float one = a.x[a.order[i]];
      if ((one < 0) == negative) a.y[to++] = one;
    }
  }
}

std::string wrong_partition(std::function<void(const Partition::Args<float>&)> kernel) {
  return check_of<Partition, float>(kernel).reason;
}

TEST(OwnJudgement, TakesWhateverIsRight) {
  EXPECT_EQ(wrong_partition(partition), "");
  EXPECT_EQ(wrong_partition([](const auto& a) {
              partition(a);
              std::sort(a.y, a.y + a.n);
            }),
            "");
  EXPECT_EQ(wrong_partition([](const auto& a) {
              partition(a);
              std::reverse(a.y, a.y + a.n);
            }),
            "y has one below zero behind another");
  EXPECT_EQ(wrong_partition([](const auto&) {}), "y has other numbers than x");
}

TEST(OwnJudgement, KnowsWhatWasInPlace) {
  const auto wrong = [](std::function<void(const Sort::Args<float>&)> kernel) {
    return check_of<Sort, float>(std::move(kernel)).reason;
  };
  EXPECT_EQ(wrong([](const auto& a) { std::sort(a.x, a.x + a.n); }), "");
  EXPECT_EQ(wrong([](const auto&) {}), "x is not sorted");
  EXPECT_EQ(wrong([](const auto& a) { std::fill(a.x, a.x + a.n, 0.0f); }), "x has other numbers");
}

TEST(OwnInputs, AreArrangedAnewForEverySeed) {
  std::vector<std::vector<std::int32_t>> orders;
  EXPECT_EQ(wrong_partition([&](const auto& a) {
              orders.emplace_back(a.order, a.order + a.n);
              partition(a);
            }),
            "");
  ASSERT_EQ(orders.size(), 2);
  EXPECT_NE(orders[0], orders[1]);
  for (auto& order : orders) {
    std::sort(order.begin(), order.end());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

}  // namespace
}  // namespace ladder
