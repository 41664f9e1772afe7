// What a family may ask of the harness: arrays of several types and roles, what is in them, how many of
// their elements are valid, inputs that it makes itself, results that it judges itself.
#include "forwarding_device.hpp"
#include "harness/family.hpp"
#include "harness/variation.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

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
  static Args<T> bind(const Problem& p, Operands of) {
    return {.x = of["x"], .total = of["total"], .negative = of["negative"], .n = p.n};
  }
  template <class T>
  static std::vector<Expected> reference(const Problem& p, Operands of) {
    const T* const x = of["x"];
    const float* const total = of["total"];
    Expected sum = zeros(p.n), negative = zeros(1);
    for (std::size_t i = 0; i < p.n; ++i) {
      const double value = static_cast<float>(x[i]);
      sum.values[i] = total[i] + value;
      sum.magnitude[i] = std::abs(total[i]) + std::abs(value);
      negative.values[0] += value < 0;
    }
    return answers(std::move(sum), std::move(negative));
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
    return {input<T>("x", p.n), input<std::int32_t>("order", p.n).tied(), output<T>("y", p.n)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands of) {
    return {.x = of["x"], .order = of["order"], .y = of["y"], .n = p.n};
  }
  /// From any number on, and round.
  template <class T>
  static void arrange_inputs(const Problem& p, std::uint64_t seed, Operands of) {
    const std::span<std::int32_t> order = of["order"];
    for (std::size_t i = 0; i < p.n; ++i) {
      order[i] = static_cast<std::int32_t>((i + random_bits(seed, 1, 0)) % p.n);
    }
  }
  template <class T>
  static std::string mistake(const Problem&, Operands before, Operands after) {
    const std::span<const T> x = before["x"], y = after["y"];
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
    return {in_place<T>("x", p.n)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands of) {
    return {.x = of["x"], .n = p.n};
  }
  template <class T>
  static std::string mistake(const Problem&, Operands before, Operands after) {
    const std::span<const T> x = before["x"], y = after["x"];
    if (!std::is_permutation(x.begin(), x.end(), y.begin())) return "x has other numbers";
    return std::is_sorted(y.begin(), y.end()) ? "" : "x is not sorted";
  }
};

/// The numbers above zero, in their order, and how many they are.
struct Compact {
  struct Problem {
    std::size_t n;
  };
  template <class T>
  struct Args {
    const T* x;
    T* values;
    std::int32_t* count;
    std::size_t n;
  };

  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {input<T>("x", p.n), output<T>("values", p.n).valid_by("count"),
            output<std::int32_t>("count", 1)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands of) {
    return {.x = of["x"], .values = of["values"], .count = of["count"], .n = p.n};
  }
  template <class T>
  static std::vector<Expected> reference(const Problem&, Operands of) {
    const std::span<const T> x = of["x"];
    Expected values;
    std::ranges::copy_if(x, std::back_inserter(values.values), [](T one) { return one > 0; });
    const auto count = static_cast<double>(values.values.size());
    return answers(std::move(values), Expected{{count}, {}});
  }

  static inline bool on_gpu = false;
  static bool wants_gpu_reference(const Problem&) { return on_gpu; }
  template <class T>
  static void reference_on_gpu(const Args<T>& a, std::span<const AnswerOnGpu> answers) {
    std::fill_n(answers[0].values, a.n, std::nan(""));
    std::fill_n(answers[0].magnitude, a.n, 0);
    double* const end =
        std::copy_if(a.x, a.x + a.n, answers[0].values, [](T one) { return one > 0; });
    *answers[1].values = static_cast<double>(end - answers[0].values);
    *answers[1].magnitude = 0;
  }
};

/// Element i of an array of any type.
template <class T>
auto get(const T* array, std::size_t i) {
  if constexpr (Packed<T>) {
    return array[i / 2][i % 2];
  } else {
    return array[i];
  }
}
template <class T>
void put(T* array, std::size_t i, auto element) {
  if constexpr (Packed<T>) {
    T& pair = array[i / 2];
    pair = i % 2 == 0 ? T(element, pair[1]) : T(pair[0], element);
  } else {
    array[i] = element;
  }
}

/// The numbers but for the last, in the opposite order, and how many they are.
struct Reverse {
  struct Problem {
    std::size_t n;
  };
  template <class T>
  struct Args {
    const T* x;
    T* y;
    std::uint8_t* count;
    std::size_t n;
  };

  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {input<T>("x", p.n), output<T>("y", p.n).valid_by("count"),
            output<std::uint8_t>("count", 1)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands of) {
    return {.x = of["x"], .y = of["y"], .count = of["count"], .n = p.n};
  }
  template <class T>
  static std::vector<Expected> reference(const Problem& p, Operands of) {
    const T* const x = of["x"];
    Expected y{Doubles(p.n - 1), {}};
    for (std::size_t i = 0; i + 1 < p.n; ++i) y.values[i] = value_at(x, p.n - 2 - i);
    const auto count = static_cast<double>(p.n - 1);
    return answers(std::move(y), Expected{{count}, {}});
  }
};

/// The same without their number: of their type is all that is written.
struct Uncounted : Reverse {
  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {input<T>("x", p.n), output<T>("y", p.n - 1)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, Operands of) {
    return {.x = of["x"], .y = of["y"], .count = nullptr, .n = p.n};
  }
  template <class T>
  static std::vector<Expected> reference(const Problem& p, Operands of) {
    return {Reverse::reference<T>(p, of).front()};
  }
};

/// What every family has, and no test here asks for.
template <class Own>
struct Contract : Own {
  using typename Own::Problem;
  static constexpr const char *family = "test", *op = "";
  static std::vector<Field> fields() { return {}; }
  static std::vector<Problem> test_problems() { return {}; }
  static std::vector<Problem> bench_problems(Backend) { return {}; }
  static std::vector<InputSet> input_sets() { return {}; }
  static double flops(const Problem&) { return 7; }
};

/// On which a family may make its answers, in host memory.
struct Gpu final : ForwardingDevice {
  Backend backend() const override { return Backend::cuda; }
  std::size_t canary_bytes() const override { return Device::canary_bytes(); }
};

/// What the check says of a kernel.
template <class Own, class T>
CheckResult check_of(std::function<void(const typename Own::template Args<T>&)> kernel,
                     typename Own::Problem problem = {100},
                     const InputSet& set = {"uniform", uniform_value}) {
  static std::function<void(const typename Own::template Args<T>&)> body;
  body = std::move(kernel);
  Gpu device;
  Workload workload(std::make_unique<BindingOf<Contract<Own>, T>>(problem), set, 7, device);
  const auto launch = [](const Call& call, cudaStream_t) {
    body(*static_cast<const typename Own::template Args<T>*>(call.args));
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

TEST(Arrays, AreCheckedEachByItsType) {
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

TEST(Arrays, WhatIsInPlaceIsPutBackBeforeEveryCheck) {
  EXPECT_THAT(wrong_accumulate([](const auto& a) {
                accumulate(a);
                accumulate(a);
              }),
              testing::StartsWith("total: 100 of 100 elements wrong"));
  EXPECT_THAT(wrong_accumulate([](const auto& a) { *a.negative = 50; }),
              testing::StartsWith("total: 100 of 100 elements wrong"));
}

TEST(Arrays, WhatNobodyWritesIsFound) {
  EXPECT_THAT(wrong_accumulate([](const auto& a) {
                std::int32_t negative = 0;
                auto other = a;
                other.negative = &negative;
                accumulate(other);
              }),
              testing::StartsWith("negative: 1 of 1 elements wrong"));
}

TEST(Arrays, TakenForAnotherTypeAreAnError) {
  const Array array = input<bfloat16>("x", 1);
  bfloat16 x{};
  const Operand operand(array, &x);
  EXPECT_EQ(static_cast<const bfloat16*>(operand), &x);
  EXPECT_THROW(static_cast<void>(static_cast<const float*>(operand)), std::logic_error);
}

TEST(Arrays, AreKnownByTheirNames) {
  const std::vector<Array> arrays{input<float>("x", 2), output<float>("y", {2, 3})};
  float x[2], y[6];
  void* const addresses[] = {x, y};
  const Operands of(arrays, addresses);
  EXPECT_EQ(static_cast<float*>(of["y"]), y);
  const std::span<const float> all = of["y"];
  EXPECT_EQ(all.data(), y);
  EXPECT_EQ(all.size(), 6);
  EXPECT_TRUE(of.has("x"));
  EXPECT_FALSE(of.has("bias"));
  try {
    of["bias"];
    FAIL() << "there is no bias";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "no array is called bias, there are x, y");
  }
}

/// Arrays of a family that has been described wrongly.
struct Wrong : Sort {
  static inline std::vector<Array> all;
  template <class T>
  static std::vector<Array> arrays(const Problem&) {
    return all;
  }
};

std::string refused(std::vector<Array> arrays) {
  Wrong::all = std::move(arrays);
  try {
    const BindingOf<Contract<Wrong>, float> binding({1});
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(Arrays, ThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refused({input<float>("x", 1), output<float>("x", 1)}), "two arrays are called x");
  const Array y = output<float>("y", 5).valid_by("n");
  EXPECT_EQ(refused({y, output<std::int64_t>("n", 1)}), "");
  EXPECT_EQ(refused({y, output<std::uint8_t>("n", 1)}), "");
  for (const Array& n : {output<std::int32_t>("m", 1), output<std::int32_t>("n", 2),
                         output<float>("n", 1), input<std::int32_t>("n", 1)}) {
    EXPECT_EQ(refused({y, n}), "y is valid by n, which is no integer that is written");
  }
  EXPECT_NE(refused({input<float>("x", 5).valid_by("n"), output<std::int32_t>("n", 1)}), "");
  EXPECT_EQ(refused({input<float>("x", 1), table<float>("all", {"x", "y"})}),
            "all has the address of y, which is no array of f32");
  EXPECT_EQ(refused({input<double>("x", 1), table<float>("all", {"x"})}),
            "all has the address of x, which is no array of f32");
}

TEST(Table, IsOfPointersToWhatItSays) {
  float x = 0;
  void* addresses[] = {&x};
  const Array all = table<float>("all", {"x"}), numbers = input<std::uint64_t>("numbers", 1);
  const float* const* pointers = Operand(all, addresses);
  EXPECT_EQ(*pointers, &x);
  EXPECT_THROW(static_cast<void>(static_cast<const double* const*>(Operand(all, addresses))),
               std::logic_error);
  EXPECT_THROW(static_cast<void>(static_cast<const float* const*>(Operand(numbers, addresses))),
               std::logic_error);
}

TEST(Arrays, AreTheBytesOfACost) {
  const BindingOf<Contract<Accumulate>, bfloat16> binding({100});
  const Cost cost = binding.cost(sizes_of(binding.arrays()));
  EXPECT_EQ(cost.flops, 7);
  EXPECT_EQ(cost.bytes_read, 100 * (2 + 4));
  EXPECT_EQ(cost.bytes_written, 100 * 4 + 4);
}

TEST(Arrays, TakeMemoryForWhatTheyWereAndForTheAnswers) {
  const BindingOf<Contract<Accumulate>, bfloat16> binding({100});
  EXPECT_EQ(memory_of(binding), 100 * (2 + 2 * 4 + 16) + (4 + 16));
}

// --- Of every type --------------------------------------------------------------------------------

template <class T>
constexpr DType kDType = DTypeOf<T>::value;

template <class T = std::int32_t>
std::vector<T> made(const Array& array, std::uint64_t seed = 7,
                    double (*value)(std::uint64_t, const Array&) = uniform_value) {
  std::vector<T> all(bytes_of(array.dtype, array.size) / sizeof(T));
  make_input(array, all.data(), {"some", value}, RandomBits(seed, 0));
  return all;
}

/// From -5 to 5 in quarters.
double quarters(std::uint64_t bits, const Array&) { return static_cast<double>(bits % 41) / 4 - 5; }

template <class T>
class EveryType : public testing::Test {
 protected:
  using Args = Reverse::Args<T>;
  static void reverse(const Args& a) {
    for (std::size_t i = 0; i + 1 < a.n; ++i) put(a.y, i, get(a.x, a.n - 2 - i));
    *a.count = static_cast<std::uint8_t>(a.n - 1);
  }
  static std::string wrong(std::function<void(const Args&)> kernel, std::size_t n,
                           double (*value)(std::uint64_t, const Array&) = quarters) {
    return check_of<Reverse, T>(std::move(kernel), {n}, {"some", value}).reason;
  }
};
using Types = testing::Types<float, half, bfloat16, tfloat32, float8_e4m3, float8_e5m2,
                             float4_e2m1x2, double, int4x2, std::int8_t, std::int32_t, std::int64_t,
                             std::uint8_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(EveryType, Types);

TYPED_TEST(EveryType, IsRightWhereEachElementIs) {
  for (const std::size_t n : {1, 2, 100, 101}) EXPECT_EQ(this->wrong(this->reverse, n), "");
}

TYPED_TEST(EveryType, IsWrongInExactlyTheElementThatIs) {
  for (const std::size_t i : {0, 6, 7, 98}) {
    const std::string why = this->wrong(
        [&](const auto& a) {
          this->reverse(a);
          auto* const byte =
              reinterpret_cast<unsigned char*>(a.y + i / (Packed<TypeParam> ? 2 : 1));
          *(byte + sizeof(TypeParam) - 1) ^= Packed<TypeParam> && i % 2 == 0 ? 0x04 : 0x40;
        },
        100);
    EXPECT_THAT(why,
                testing::StartsWith(fmt::format("y: 1 of 99 elements wrong; element {} is ", i)));
  }
}

TYPED_TEST(EveryType, SaysNothingBehindTheValidElements) {
  for (const std::size_t n : {100, 101}) {
    EXPECT_EQ(this->wrong(
                  [&](const auto& a) {
                    this->reverse(a);
                    put(a.y, n - 1, get(a.x, n - 1));
                  },
                  n),
              "");
  }
  EXPECT_EQ(this->wrong([](const auto&) {}, 100), "count is 255, and y has 100 elements");
}

TYPED_TEST(EveryType, IsWrittenThoughItsPoisonWouldBeRight) {
  if (has_nan(kDType<TypeParam>)) return;
  const auto poison = [](std::uint64_t, const Array& array) {
    return array.dtype == DType::e2m1 ? -6 : range_of(array.dtype).least < 0 ? -1 : 0x1p64;
  };
  const auto wrong = [&](std::function<void(const Reverse::Args<TypeParam>&)> kernel) {
    return check_of<Uncounted, TypeParam>(std::move(kernel), {100}, {"poison", poison}).reason;
  };
  EXPECT_EQ(wrong([](const auto& a) {
              for (std::size_t i = 0; i < 99; ++i) put(a.y, i, get(a.x, 98 - i));
            }),
            "");
  EXPECT_THAT(wrong([](const auto&) {}), testing::StartsWith("99 of 99 elements wrong"));
}

TYPED_TEST(EveryType, HasItsBytes) {
  const BindingOf<Contract<Reverse>, TypeParam> binding({101});
  const std::size_t bytes = Packed<TypeParam> ? 51 : 101 * sizeof(TypeParam);
  const auto all = static_cast<double>(bytes);
  EXPECT_EQ(bytes_of(kDType<TypeParam>, std::size_t{101}), bytes);
  EXPECT_EQ(bytes_of(kDType<TypeParam>, 101.0), all);
  const Cost cost = binding.cost(sizes_of(binding.arrays()));
  EXPECT_EQ(cost.bytes_read, all);
  EXPECT_EQ(cost.bytes_written, all + 1);
  EXPECT_EQ(memory_of(binding), 2 * all + 101 * 16 + 1 + 16);
  std::vector<TypeParam> x(bytes / sizeof(TypeParam));
  const std::span<const TypeParam> span = Operand(binding.arrays()[0], x.data());
  EXPECT_EQ(span.size_bytes(), bytes);
}

TYPED_TEST(EveryType, HoldsWhatAnInputSetSays) {
  const Array array = input<TypeParam>("x", 1001);
  const auto some = made<TypeParam>(array, 7, quarters);
  for (std::size_t i = 0; i < array.size; ++i) {
    const double value = quarters(random_bits(7, 0, i), array), found = value_at(some.data(), i);
    if (!is_integer(array.dtype)) {
      ASSERT_LE(std::abs(found - value),
                unit_roundoff(array.dtype) * std::max(1.0, std::abs(value)));
    } else if (range_of(array.dtype).least == 0) {
      ASSERT_EQ(found, std::trunc(std::max(value, 0.0)));
    } else {
      ASSERT_EQ(found, std::trunc(value));
    }
  }
}

TYPED_TEST(EveryType, IsSorted) {
  const Array array = input<TypeParam>("x", 1001).sorted();
  const auto all = made<TypeParam>(array, 7, quarters);
  for (std::size_t i = 1; i < array.size; ++i) {
    ASSERT_LE(value_at(all.data(), i - 1), value_at(all.data(), i));
  }
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

TEST(Inputs, AreOtherNumbersInEachArrayAndOfEachSeed) {
  std::vector<std::vector<float>> all;
  const CheckResult result = check_of<Accumulate, float>([&](const auto& a) {
    all.emplace_back(a.x, a.x + a.n);
    all.emplace_back(a.total, a.total + a.n);
    throw std::runtime_error("seen");
  });
  EXPECT_EQ(result.verdict, Verdict::failed);
  ASSERT_EQ(all.size(), 4);
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
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
  for (const auto& order : orders) {
    for (std::size_t i = 1; i < 100; ++i) EXPECT_EQ(order[i], (order[i - 1] + 1) % 100);
  }
}

// --- How many elements are valid ----------------------------------------------------------------

void compact(const Compact::Args<float>& a) {
  *a.count = 0;
  for (std::size_t i = 0; i < a.n; ++i) {
    if (a.x[i] > 0) a.values[(*a.count)++] = a.x[i];
  }
}

/// Where the answer is made on the CPU and where it is made on the GPU.
class ValidElements : public testing::TestWithParam<bool> {
 protected:
  ValidElements() { Compact::on_gpu = GetParam(); }
  static CheckResult of(std::function<void(const Compact::Args<float>&)> kernel) {
    return check_of<Compact, float>(std::move(kernel));
  }
};
INSTANTIATE_TEST_SUITE_P(AnswersOf, ValidElements, testing::Bool(),
                         [](const auto& on_gpu) { return on_gpu.param ? "theGpu" : "theCpu"; });

TEST_P(ValidElements, AreAllThatIsCompared) {
  EXPECT_EQ(of(compact).reason, "");
  EXPECT_EQ(of([](const auto& a) {
              compact(a);
              std::fill(a.values + *a.count, a.values + a.n, 7.0f);
            }).reason,
            "")
      << "behind them anything may be";
  EXPECT_THAT(of([](const auto& a) {
                compact(a);
                a.values[*a.count - 1] = 7;
              }).reason,
              testing::MatchesRegex("values: 1 of .. elements wrong; element .. is 7, .*"));
}

TEST_P(ValidElements, AreTheBytesOfACost) {
  Gpu device;
  Workload workload(std::make_unique<BindingOf<Contract<Compact>, float>>(Compact::Problem{100}),
                    {"uniform", uniform_value}, 7, device);
  const std::span<const float> x(static_cast<const float*>(workload.buffers()[0].data()), 100);
  const auto above_zero = std::ranges::count_if(x, [](float one) { return one > 0; });
  EXPECT_EQ(workload.cost().bytes_read, 400);
  EXPECT_EQ(workload.cost().bytes_written, 4 * static_cast<double>(above_zero) + 4);
}

TEST_P(ValidElements, AreAsManyAsThereShouldBe) {
  EXPECT_THAT(of([](const auto& a) {
                compact(a);
                a.values[--*a.count] = 7;
              }).reason,
              testing::StartsWith("count: 1 of 1 elements wrong"));
  EXPECT_THAT(of([](const auto& a) {
                compact(a);
                a.values[(*a.count)++] = 0.5;
              }).reason,
              testing::StartsWith("count: 1 of 1 elements wrong"));
}

TEST_P(ValidElements, AreNoMoreThanTheArrayHasAndNoFewerThanNone) {
  for (const int count : {-3, 101}) {
    EXPECT_EQ(of([&](const auto& a) {
                compact(a);
                *a.count = count;
              }).reason,
              "count is " + std::to_string(count) + ", and values has 100 elements");
  }
  EXPECT_EQ(of([](const auto&) {}).reason, "count is -1, and values has 100 elements");
}

/// With a reference whose answer has an element too few.
struct TooShort : Accumulate {
  template <class T>
  static std::vector<Expected> reference(const Problem& p, Operands) {
    return answers(zeros(p.n - 1), zeros(1));
  }
};
/// With one that miscounts.
struct Miscounted : Compact {
  template <class T>
  static std::vector<Expected> reference(const Problem&, Operands) {
    return answers(zeros(3), Expected{{4}, {}});
  }
};

TEST(References, HaveAnAnswerForEveryElement) {
  Compact::on_gpu = false;
  EXPECT_THROW((check_of<TooShort, float>([](const auto&) {})), std::logic_error);
  EXPECT_THROW((check_of<Miscounted, float>([](const auto&) {})), std::logic_error);
}

// --- What is in arrays ---------------------------------------------------------------------------

constexpr std::size_t kN = 200'000;

/// Pearson's statistic of whether integers below shares.size() are as frequent as that, and how far it
/// is beyond its mean, in standard deviations.
double beyond_chance(const std::vector<std::int32_t>& all, std::vector<double> shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<double> found(shares.size());
  for (const std::int32_t one : all) found.at(static_cast<std::size_t>(one)) += 1;
  double statistic = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double expected = shares[i] / sum * static_cast<double>(all.size());
    EXPECT_GE(expected, 5) << "too few to tell";
    statistic += (found[i] - expected) * (found[i] - expected) / expected;
  }
  const auto degrees = static_cast<double>(shares.size() - 1);
  return (statistic - degrees) / std::sqrt(2 * degrees);
}

const Array kIntegers = input<std::int32_t>("x", kN);

TEST(Generators, MakeTheSameOfASeedAndOtherElementsOfAnother) {
  for (const Array& array : {kIntegers.below(1000), kIntegers.offsets(1 << 20),
                             kIntegers.permutation(), kIntegers.zipf(1000, 1)}) {
    EXPECT_EQ(made(array), made(array));
    EXPECT_NE(made(array), made(array, 8));
  }
}

TEST(Generators, MakeIntegersBelowABound) {
  EXPECT_LT(std::abs(beyond_chance(made(kIntegers.below(1000)), std::vector<double>(1000, 1))), 5);
  EXPECT_EQ(made(input<std::int32_t>("x", 3).below(1)), (std::vector{0, 0, 0}));
  EXPECT_TRUE(made(input<std::int32_t>("x", 0).below(0)).empty());
  const auto wide = made<std::int64_t>(input<std::int64_t>("x", kN).below(std::int64_t{1} << 60));
  EXPECT_GT(std::ranges::max(wide), (std::int64_t{1} << 60) - (std::int64_t{1} << 50));
}

template <class T>
class Integers : public testing::Test {};
using IntegerTypes = testing::Types<int4x2, std::int8_t, std::int32_t, std::int64_t, std::uint8_t,
                                    std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

TYPED_TEST(Integers, AreGeneratedInEveryType) {
  const Array array = input<TypeParam>("x", kN);
  const auto bound =
      static_cast<std::int64_t>(std::min<std::uint64_t>(range_of(array.dtype).most, 999)) + 1;
  const auto numbers = [](const Array& of) {
    const auto all = made<TypeParam>(of);
    std::vector<std::int32_t> values(of.size);
    for (std::size_t i = 0; i < of.size; ++i) {
      values[i] = static_cast<std::int32_t>(value_at(all.data(), i));
    }
    return values;
  };
  std::vector<double> even(static_cast<std::size_t>(bound), 1), by_law;
  for (std::int64_t k = 1; k <= bound; ++k) by_law.push_back(1 / static_cast<double>(k));
  EXPECT_LT(std::abs(beyond_chance(numbers(array.below(bound)), even)), 5);
  EXPECT_LT(std::abs(beyond_chance(numbers(array.zipf(bound, 1)), by_law)), 5);
  EXPECT_TRUE(std::ranges::is_sorted(numbers(array.below(bound).sorted())));
  const auto offsets = numbers(array.offsets(bound - 1));
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), bound - 1);
  auto permutation = numbers(input<TypeParam>("x", bound).permutation());
  std::ranges::sort(permutation);
  for (std::size_t i = 0; i < permutation.size(); ++i) EXPECT_EQ(permutation[i], i);
}

TYPED_TEST(Integers, HaveTheRangeOfTheirType) {
  const Array array = input<TypeParam>("x", 1);
  std::int64_t least = -8;
  std::uint64_t most = 7;
  if constexpr (!Packed<TypeParam>) {
    least = std::numeric_limits<TypeParam>::min();
    most = std::numeric_limits<TypeParam>::max();
  }
  const auto of = [&](double (*value)(std::uint64_t, const Array&)) {
    return get(made<TypeParam>(array, 7, value).data(), 0);
  };
  EXPECT_TRUE(std::cmp_equal(of([](auto, const Array&) { return -0x1p70; }), least));
  EXPECT_TRUE(std::cmp_equal(of([](auto, const Array&) { return 0x1p70; }), most));
  if (most >= std::uint64_t{1} << 62) {
    EXPECT_NO_THROW(array.below(std::numeric_limits<std::int64_t>::max()));
    return;
  }
  const auto bound = static_cast<std::int64_t>(most) + 1;
  EXPECT_NO_THROW(array.below(bound));
  EXPECT_THROW(array.below(bound + 1), std::logic_error);
  EXPECT_THROW(array.zipf(bound + 1, 1), std::logic_error);
}

TEST(Generators, MakeOffsetsThatAddUp) {
  const auto offsets = made(kIntegers.offsets(1 << 20));
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), 1 << 20);
  EXPECT_TRUE(std::ranges::is_sorted(offsets));
  // Between random points exponentially distributed, then rounded off; so many in one's mean.
  const double points = kN / 0x1p20, next = std::exp(-points);
  std::vector<double> shares{1 - (1 - next) / points};
  for (double share = (1 - next) * (1 - next) / points; shares.size() < 40; share *= next) {
    shares.push_back(share);
  }
  std::vector<std::int32_t> parts;
  for (std::size_t i = 1; i < kN; ++i) {
    const std::int32_t part = offsets[i] - offsets[i - 1];
    if (part < 40) parts.push_back(part);
  }
  EXPECT_LT(std::abs(beyond_chance(parts, shares)), 5);
  EXPECT_EQ(made(input<std::int32_t>("x", 2).offsets(9)), (std::vector{0, 9}));
  EXPECT_EQ(made(input<std::int32_t>("x", 1).offsets(0)), (std::vector{0}));
}

TEST(Generators, MakePermutations) {
  auto all = made(kIntegers.permutation());
  int fixed = 0;
  for (std::size_t i = 0; i < kN; ++i) fixed += all[i] == static_cast<std::int32_t>(i);
  EXPECT_LT(fixed, 10);
  std::ranges::sort(all);
  for (std::size_t i = 0; i < kN; ++i) ASSERT_EQ(all[i], i);
  std::map<std::vector<std::int32_t>, int> seen;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    ++seen[made(input<std::int32_t>("x", 3).permutation(), seed)];
  }
  EXPECT_EQ(seen.size(), 6);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, 1000, 150);
}

TEST(Generators, FollowZipfsLaw) {
  for (const double exponent : {0.0, 0.5, 1.0, 1.2}) {
    std::vector<double> shares;
    for (int k = 1; k <= 1000; ++k) shares.push_back(std::pow(k, -exponent));
    const double beyond = beyond_chance(made(kIntegers.zipf(1000, exponent)), shares);
    EXPECT_LT(std::abs(beyond), 5) << exponent;
  }
}

TEST(Generators, SortWhatElseThereIs) {
  for (const Array& array : {kIntegers.below(1000), kIntegers.zipf(100, 1)}) {
    auto all = made(array);
    std::ranges::sort(all);
    EXPECT_EQ(made(array.sorted()), all);
  }
  const Array x = input<half>("x", 1000).sorted();
  std::vector<half> all(x.size);
  const auto some_nan = [](std::uint64_t bits, const Array&) {
    return bits % 10 == 0 ? std::nan("") : uniform(bits);
  };
  make_input(x, all.data(), {"some NaN", some_nan}, RandomBits(7, 0));
  const auto end = std::ranges::find_if(all, [](half one) { return std::isnan(widen(one)); });
  EXPECT_TRUE(std::is_sorted(all.begin(), end, [](half a, half b) { return widen(a) < widen(b); }));
  EXPECT_TRUE(std::all_of(end, all.end(), [](half one) { return std::isnan(widen(one)); }));
  EXPECT_NE(end, all.end());
}

TEST(Generators, RefuseWhatATypeDoesNotHold) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_NO_THROW(kIntegers.below(most + 1));
  EXPECT_THROW(kIntegers.below(most + 2), std::logic_error);
  EXPECT_THROW(kIntegers.below(0), std::logic_error);
  EXPECT_THROW(kIntegers.zipf(most + 2, 1), std::logic_error);
  EXPECT_NO_THROW(kIntegers.offsets(most));
  EXPECT_THROW(kIntegers.offsets(most + 1), std::logic_error);
  EXPECT_THROW(input<std::int32_t>("x", 1).offsets(1), std::logic_error);
  EXPECT_THROW(input<std::int32_t>("x", std::int64_t{1} << 32).permutation(), std::logic_error);
  EXPECT_THROW(input<float>("x", 1).below(1), std::logic_error);
  EXPECT_THROW(input<float4_e2m1x2>("x", 1).below(1), std::logic_error);
}

/// What is at an array, as it is now.
template <class U>
std::vector<U> now(Workload& workload, std::size_t array) {
  const Buffer& buffer = workload.buffers()[array];
  std::vector<U> all(buffer.bytes() / sizeof(U));
  buffer.device().download(all.data(), buffer.data(), buffer.bytes());
  return all;
}

std::size_t changed(const auto& before, const auto& after) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    count += std::memcmp(&before[i], &after[i], sizeof before[i]) != 0;
  }
  return count;
}

template <class Op, class T>
Workload uniform_workload(typename Op::Problem problem, Device& device) {
  return {
      std::make_unique<BindingOf<Contract<Op>, T>>(problem), {"uniform", uniform_value}, 7, device};
}

TEST(Variation, ChangesPartsOfInputsAndPutsThemBack) {
  Gpu device;
  constexpr std::size_t kElements = 10'000;
  Workload workload = uniform_workload<Accumulate, bfloat16>({kElements}, device);
  WorkloadVariation variation(workload, device, 1, 1);
  const auto x = now<std::uint16_t>(workload, 0);
  const auto total = now<float>(workload, 1);
  const std::uint64_t results = variation.checksum();
  std::set<std::vector<std::uint16_t>> seen{x};
  for (std::uint64_t number = 1; number <= 50; ++number) {
    device.fill(workload.buffers()[1].data(), 1,
                kElements * sizeof(float));  // a launch wrote there
    variation.vary(number);
    const auto varied = now<std::uint16_t>(workload, 0);
    EXPECT_TRUE(seen.insert(varied).second) << "inputs of number " << number;
    EXPECT_GE(changed(x, varied), 32u * 8);  // of 16 in each part, some may be the same by chance
    EXPECT_LE(changed(x, varied), 32u * 16);
    EXPECT_EQ(now<float>(workload, 1), total) << "in place, so what it was";
    EXPECT_NE(variation.checksum(), results) << "the count is spoiled";
  }
  variation.restore();
  EXPECT_EQ(now<std::uint16_t>(workload, 0), x);
  EXPECT_TRUE(workload.inputs_are_intact());
  variation.vary(7);
  const auto once = now<std::uint16_t>(workload, 0);
  variation.vary(8);
  variation.vary(7);
  EXPECT_EQ(now<std::uint16_t>(workload, 0), once);
}

TEST(Variation, LeavesTiedArraysAlone) {
  Gpu device;
  Workload workload = uniform_workload<Partition, float>({1000}, device);
  WorkloadVariation variation(workload, device, 1, 1);
  const auto x = now<float>(workload, 0);
  const auto order = now<std::int32_t>(workload, 1);
  variation.vary(1);
  EXPECT_GT(changed(x, now<float>(workload, 0)), 0u);
  EXPECT_EQ(now<std::int32_t>(workload, 1), order);
}

TEST(Variation, ReachesTheFirstAndTheLastElement) {
  Gpu device;
  for (const std::size_t n : {std::size_t{1}, std::size_t{9}, std::size_t{100}}) {
    Workload workload = uniform_workload<Accumulate, bfloat16>({n}, device);
    WorkloadVariation variation(workload, device, 1, 1);
    const auto x = now<std::uint16_t>(workload, 0);
    std::vector<bool> reached(n);
    for (std::uint64_t number = 1; number <= 2000; ++number) {
      variation.vary(number);
      const auto varied = now<std::uint16_t>(workload, 0);
      for (std::size_t i = 0; i < n; ++i) reached[i] = reached[i] || varied[i] != x[i];
      ASSERT_TRUE(workload.buffers()[0].canaries_intact());
    }
    EXPECT_EQ(std::ranges::count(reached, true), static_cast<std::ptrdiff_t>(n));
  }
}

TEST(Variation, JudgesWhatWasKeptByTheInputsOfThen) {
  Gpu device;
  Workload workload = uniform_workload<Accumulate, bfloat16>({1000}, device);
  WorkloadVariation variation(workload, device, 1, 3);
  EXPECT_FALSE(variation.go_back()) << "nothing was kept";
  const auto launch = [&](std::uint64_t number, std::size_t contestant, bool right) {
    variation.vary(number);
    static Accumulate::Args<bfloat16> args;
    args = {.x = static_cast<const bfloat16*>(workload.buffers()[0].data()),
            .total = static_cast<float*>(workload.buffers()[1].data()),
            .negative = static_cast<std::int32_t*>(workload.buffers()[2].data()),
            .n = 1000};
    if (right) accumulate(args);
    variation.keep(contestant, number);
  };
  launch(5, 0, true);
  launch(5, 1, false);
  launch(9, 2, true);
  launch(5, 2, true);
  ASSERT_TRUE(variation.go_back());
  EXPECT_EQ(variation.judge_kept(0).reason, "");
  EXPECT_EQ(variation.judge_kept(1).verdict, Verdict::incorrect);
  EXPECT_EQ(variation.judge_kept(2).reason, "");
  EXPECT_TRUE(workload.inputs_are_intact());
}

}  // namespace
}  // namespace ladder
