// Problems as ranges, and at random.
#include "cli/problems.hpp"

#include "cli/options.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

namespace ladder {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Texts = std::vector<std::string>;

Texts drawn(std::string_view family, std::size_t count, Backend backend, std::uint64_t seed) {
  return draw_problems(operations_of(family), {{}, count}, backend, seed);
}

/// A family whose problems are numbers, any or one of two, and which orders of keys it has.
template <bool kOneOfTwo>
struct Sort {
  static constexpr const char *family = "stub", *op = "";
  enum class Order { random, sorted, reversed };
  struct Problem {
    std::int64_t n;
    Order order = Order::random;
  };
  template <class T>
  struct Args {};

  static std::vector<Field> fields() {
    Field n = size<&Problem::n>("N");
    if (kOneOfTwo) n = std::move(n).among({7, 50});
    return {n, word<&Problem::order>("ORDER", {"random", "sorted", "reversed"})};
  }
  static std::vector<Problem> test_problems() { return {}; }
  static std::vector<Problem> bench_problems(Backend) { return {{7}, {50}}; }
  static std::vector<InputSet> input_sets() { return {}; }
  static Cost cost(const Problem&, DType) { return {1, 1, 1}; }
  template <class T>
  static std::vector<Array> arrays(const Problem&) {
    return {};
  }
  template <class T>
  static Args<T> bind(const Problem&, Operands) {
    return {};
  }
  template <class T>
  static std::vector<Expected> reference(const Problem&, Operands) {
    return {};
  }
};
template <bool kOneOfTwo>
Family stub() {
  return RegisterFamily<Sort<kOneOfTwo>, float>::made();
}

TEST(Problems, RangesAreTheirNumbers) {
  EXPECT_THAT(expand_ranges("12x34"), ElementsAre("12x34"));
  EXPECT_THAT(expand_ranges("[3:5]"), ElementsAre("3", "4", "5"));
  EXPECT_THAT(expand_ranges("[7:7]x1"), ElementsAre("7x1"));
  EXPECT_THAT(expand_ranges("9x[128:384:128]"), ElementsAre("9x128", "9x256", "9x384"));
  EXPECT_THAT(expand_ranges("[0:10:4]"), ElementsAre("0", "4", "8"));
  EXPECT_THAT(expand_ranges("[3:50:*3]"), ElementsAre("3", "9", "27"));
  EXPECT_THAT(expand_ranges("[3:27:*3]"), ElementsAre("3", "9", "27"));
  EXPECT_THAT(expand_ranges("[5,1,3]x2"), ElementsAre("5x2", "1x2", "3x2"));
  EXPECT_THAT(expand_ranges("9@[sorted,random]"), ElementsAre("9@sorted", "9@random"));
  EXPECT_THAT(expand_ranges("[1,2]x[3:4]"), ElementsAre("1x3", "1x4", "2x3", "2x4"));
  EXPECT_THAT(expand_ranges("[1:1099511627776:*1099511627776]"), ElementsAre("1", "1099511627776"));
  EXPECT_EQ(expand_ranges("[1:100]x[1:100]").size(), 10'000);
}

TEST(Problems, RangesThatAreNoneAreRefused) {
  const std::map<std::string, std::string> mistakes{{"[5:4]", "ends before it begins"},
                                                    {"[1:9:0]", "a step is at least 1"},
                                                    {"[1:9:*1]", "a factor is at least 2"},
                                                    {"[1:9:*0]", "a factor is at least 2"},
                                                    {"[0:9:*2]", "it begins at 1 or more"},
                                                    {"[]", "is no range"},
                                                    {"[:]", "is no range"},
                                                    {"[1:]", "is no range"},
                                                    {"[1:2:]", "is no range"},
                                                    {"[1:2:3:4]", "is no range"},
                                                    {"[1,]", "is no range"},
                                                    {"[1,2:3]", "is no range"},
                                                    {"[-1:3]", "is no range"},
                                                    {"[1:9:-1]", "is no range"},
                                                    {"[a:b]", "is no range"},
                                                    {"[1:1099511627777]", "is no range"},
                                                    {"4x[1:2", "not closed"},
                                                    {"[1:10001]", "more than 10,000"},
                                                    {"[1:101]x[1:100]", "more than 10,000"},
                                                    {"[0:1099511627776]", "more than 10,000"}};
  for (const auto& [text, mistake] : mistakes) {
    try {
      expand_ranges(text);
      ADD_FAILURE() << text << " is taken";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(mistake)) << text;
    }
  }
}

TEST(Problems, AreParsedOnce) {
  const Problems problems = parse_problems("--elementwise", "[1:3],1x2,random:3,7,random:4,07");
  EXPECT_THAT(problems.named, ElementsAre("1", "2", "3", "7"));
  EXPECT_EQ(problems.random, 7);
  EXPECT_THROW(parse_problems("--elementwise", "[1:9999],random:2"), UsageError);
  EXPECT_THROW(parse_problems("--gemm", "random:99999999999999999999"), UsageError);
}

// Pages are decode's alone; a forward operation has nothing to do with them, nor decode with a
// thousand queries.
TEST(Problems, AreThoseOfAnyOperation) {
  const char* const texts = "1x4:2x1:70x64@page16,2x4x1000x64,1x4:2x1:70x64";
  EXPECT_THAT(parse_problems("--attention", texts).named,
              ElementsAre("1x4:2x1:70x64@page16", "2x4x1000x64", "1x4:2x1:70x64"));
  EXPECT_THROW(parse_problems("--attention", "2x4x1000x64@page16"), UsageError);
}

TEST(RandomProblems, AreTheSameOnEveryMachine) {
  EXPECT_THAT(drawn("gemm", 3, Backend::host, 5), ElementsAre("17x46x43", "120x124x8", "3x115x6"));
  Texts fewer = drawn("softmax", 30, Backend::cuda, 5);
  const Texts more = drawn("softmax", 60, Backend::cuda, 5);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), more.begin()));
  EXPECT_NE(drawn("softmax", 30, Backend::cuda, 6), fewer);
}

TEST(RandomProblems, AreWithinTheFamilysLimits) {
  for (const Family& family : families()) {
    if (family.measures) continue;
    for (const Backend backend : {Backend::host, Backend::cuda}) {
      double flops = 0, bytes = 0, memory = 0, least = 1e300;
      for (const Problem& problem : family.bench_problems(backend)) {
        const Cost cost = family.cost(problem, DType::f32);
        flops = std::max(flops, cost.flops);
        bytes = std::max(bytes, cost.bytes());
        least = std::min(least, cost.bytes());
        memory = std::max(memory, family.memory(problem, DType::f32));
      }
      const Texts problems = drawn(family.name, 200, backend, 1);
      EXPECT_EQ(std::set<std::string>(problems.begin(), problems.end()).size(), 200);
      for (const std::string& text : problems) {
        const std::span<const Family> all = operations_of(family.name);
        EXPECT_TRUE(std::ranges::any_of(all, [&](const Family& one) {
          return one.parse(text).has_value();
        })) << text;
        const std::optional<Problem> parsed = family.parse(text);
        if (!parsed) continue;  // another operation's
        const Problem& problem = *parsed;
        EXPECT_EQ(problem.text(), text);
        const Cost cost = family.cost(problem, DType::f32);
        EXPECT_GT(cost.flops, 0) << text;
        EXPECT_LE(cost.flops, flops) << text;
        EXPECT_LE(cost.bytes(), bytes) << text;
        EXPECT_GE(cost.bytes(), least / 16) << text;
        EXPECT_LE(family.memory(problem, DType::f32), memory) << text;
      }
    }
  }
}

TEST(RandomProblems, AreLogUniform) {
  // From 2^16, a sixteenth of the smallest, to 2^28, what all operations of the family have.
  const std::size_t count = 2400;
  std::map<int, int> octaves;
  int odd = 0;
  for (const std::string& problem : drawn("reduction", count, Backend::cuda, 1)) {
    const std::uint64_t n = std::stoull(problem);
    ++octaves[std::bit_width(n) - 1];
    odd += n % 2;
  }
  EXPECT_EQ(octaves.begin()->first, 16);
  EXPECT_EQ(octaves.rbegin()->first, 27);
  for (const auto& [octave, problems] : octaves) {
    EXPECT_NEAR(problems, count / 12., 5 * std::sqrt(count / 12.)) << "from 2^" << octave;
  }
  EXPECT_NEAR(odd, count / 2., 5 * std::sqrt(count / 4.));
}

TEST(Problems, AreTimedInEachOfTheirOrders) {
  Texts texts;
  for (const Problem& problem : stub<false>().bench_problems(Backend::host)) {
    texts.push_back(problem.text());
  }
  EXPECT_THAT(texts, ElementsAre("7", "50", "7@sorted", "50@sorted", "7@reversed", "50@reversed"));
}

TEST(RandomProblems, HaveNoLargerNumbersAndNeedNoMoreMemory) {
  Family family = stub<false>();
  const auto numbers = [&](std::size_t count) {
    std::map<std::string, std::set<int>> all;  // by what stands behind the number
    for (const std::string& text : draw_problems({&family, 1}, {{}, count}, Backend::host, 1)) {
      std::size_t end = 0;
      const int number = std::stoi(text, &end);
      all[text.substr(end)].insert(number);
    }
    return all;
  };
  std::set<int> expected;
  for (int n = 1; n <= 50; ++n) expected.insert(n);
  EXPECT_THAT(numbers(150), ElementsAre(std::pair("", expected), std::pair("@reversed", expected),
                                        std::pair("@sorted", expected)));
  EXPECT_THROW(numbers(151), UsageError);

  family.memory = [](const Problem& problem, DType) {
    return problem.text().find('9') != std::string::npos ? 2. : 1.;
  };
  std::erase_if(expected, [](int n) { return n % 10 == 9; });
  EXPECT_EQ(numbers(135)["@sorted"], expected);
  EXPECT_THROW(numbers(136), UsageError);
}

TEST(RandomProblems, MayHaveNoNumbers) {
  const Family family = stub<true>();
  const std::span<const Family> operations(&family, 1);
  const Texts all{"7", "50", "7@sorted", "50@sorted", "7@reversed", "50@reversed"};
  EXPECT_THAT(draw_problems(operations, {{}, 6}, Backend::host, 1),
              testing::UnorderedElementsAreArray(all));
  EXPECT_THROW(draw_problems(operations, {{}, 7}, Backend::host, 1), UsageError);
}

}  // namespace
}  // namespace ladder
