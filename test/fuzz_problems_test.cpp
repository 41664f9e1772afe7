// Random problems through the host executor: every family's parser, every version on small problems
// nobody thought of, and checks of results that were spoilt. Takes a few seconds;
//
//   fuzz_problems_test --seconds=600          longer
//   fuzz_problems_test --seed=7               again what --seed=7 was printed with
//
// Problems are made from a family's own test problems by changing their numbers, so that a new
// family needs no edit here. A case that crashes or hangs is printed too.
#include "harness/family.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <random>

namespace ladder {
namespace {

double seconds = 7;  // per test that runs kernels
std::uint64_t seed = std::random_device{}();

// ---- What runs now, for when it crashes or hangs

constexpr unsigned kHangs = 120;  // seconds; a case takes a tenth of one, or more if sanitized
constexpr int kFatal[] = {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
struct sigaction before[NSIG];  // what a signal did before, such as a sanitizer's report
char current[512];

void fatal(int number) {
  constexpr char kWhat[] = "\ncrashed, or took too long: ";
  if (write(STDERR_FILENO, kWhat, sizeof kWhat - 1) < 0 ||
      write(STDERR_FILENO, current, std::strlen(current)) < 0) {
    _exit(1);
  }
  sigaction(number, &before[number], nullptr);
  raise(number);
}

/// Names the case that begins.
void begin(const std::string& name) {
  std::snprintf(current, sizeof current, "%s\n", name.c_str());
  alarm(kHangs);
}

class Watched : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action = {};
    action.sa_handler = fatal;
    for (int number : kFatal) sigaction(number, &action, &before[number]);
    std::cout << "--seed=" << seed << "\n";
  }
  void TearDown() override {
    alarm(0);
    for (int number : kFatal) sigaction(number, &before[number], nullptr);
  }
};

// ---- Random problems

class Random {
 public:
  Random() : bits_(seed) {}
  std::uint64_t operator()() { return bits_(); }
  std::size_t below(std::size_t n) { return bits_() % n; }
  template <class List>
  auto& of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 bits_;
};

/// The numbers of a text, and what stands before, between and behind them.
struct Pattern {
  std::vector<std::string> words;  // one more than numbers
  std::vector<std::int64_t> numbers;

  explicit Pattern(const std::string& text) : words(1) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool digit = text[i] >= '0' && text[i] <= '9';
      const bool more = digit && i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9';
      if (!digit) {
        words.back() += text[i];
      } else if (more) {
        numbers.back() = numbers.back() * 10 + (text[i] - '0');
      } else {
        numbers.push_back(text[i] - '0');
        words.emplace_back();
      }
    }
  }
  std::string text() const {
    std::string made = words[0];
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      made += std::to_string(numbers[i]) + words[i + 1];
    }
    return made;
  }
};

/// The problems that a family's kernels run in tests: how long they take is known.
std::vector<std::string> known_problems(const Family& family) {
  std::vector<std::string> texts;
  for (const Problem& problem : family.test_problems()) texts.push_back(problem.text());
  for (const Problem& problem : family.bench_problems(Backend::host)) {
    texts.push_back(problem.text());
  }
  return texts;
}

/// A small problem: the numbers of a known one changed, to no more than known ones have in their
/// place. It is a known one where a family refuses all others.
Problem small_problem(const Family& family, Random& random) {
  const double share = 1.0 / static_cast<double>(1 << random.below(8));  // small ones are quick
  const double most_bytes = 1e6 * share, most_flops = 4e6 * share;
  const std::vector<std::string> known = known_problems(family);
  std::vector<std::int64_t> most;
  for (const std::string& problem : known) {
    const Pattern pattern(problem);
    most.resize(std::max(most.size(), pattern.numbers.size()));
    for (std::size_t i = 0; i < pattern.numbers.size(); ++i) {
      most[i] = std::max(most[i], pattern.numbers[i]);
    }
  }
  for (int attempt = 0; attempt < 100; ++attempt) {
    Pattern pattern(random.of(known));
    for (std::size_t i = 0; i < pattern.numbers.size(); ++i) {
      std::int64_t& number = pattern.numbers[i];
      switch (random.below(5)) {
        case 0:  // as it was
          break;
        case 1:
          number += static_cast<std::int64_t>(random.below(5)) - 2;
          break;
        case 2:  // around a power of two
          number = (std::int64_t{1} << random.below(17)) + static_cast<int>(random.below(3)) - 1;
          break;
        case 3:  // small ones more often
          number = static_cast<std::int64_t>(random.below(1 << random.below(17)));
          break;
        case 4:
          number = pattern.numbers[random.below(pattern.numbers.size())];
          break;
      }
      number = std::clamp<std::int64_t>(number, 0, most[i]);
    }
    const auto problem = family.parse(pattern.text());
    if (!problem) continue;
    const Cost cost = family.cost(*problem, DType::f32);
    if (cost.bytes() <= most_bytes && cost.flops <= most_flops) return *problem;
  }
  return family.problem(random.of(known));
}

/// Text that may be a problem: a known one with numbers or letters changed for the worse.
std::string broken_problem(const Family& family, Random& random) {
  constexpr const char* kNumbers[] = {"0",
                                      "-1",
                                      "2147483647",
                                      "2147483648",
                                      "4294967297",
                                      "9223372036854775807",
                                      "18446744073709551616",
                                      "1e3",
                                      "0x10",
                                      "+5",
                                      " 5",
                                      "007",
                                      "1073741824",
                                      "99999999999999999999",
                                      ""};
  constexpr char kLetters[] = "x,:-/. 0159abhsdnv\t\0\xff";
  const std::vector<std::string> known = known_problems(family);
  std::string text = random.of(known);
  for (std::size_t changes = 1 + random.below(3); changes > 0; --changes) {
    const std::size_t at = random.below(text.size() + 1);
    switch (random.below(5)) {
      case 0:
        text.insert(at, 1, random.of(kLetters));
        break;
      case 1:
        text.erase(at, 1);
        break;
      case 2:
        text += text.substr(at);
        break;
      case 3:
        text.append("x").append(random.of(kNumbers));
        break;
      case 4: {  // a number in the place of another
        const std::size_t from = std::min(text.find_first_of("0123456789", at), text.size());
        const std::size_t to = std::min(text.find_first_not_of("0123456789", from), text.size());
        text.replace(from, to - from, random.of(kNumbers));
        break;
      }
    }
  }
  return text;
}

// ---- The tests

using RandomTexts = Watched;
using RandomProblems = Watched;
using SpoiltResults = Watched;

/// Whether the time of a test has not run out.
class Clock {
 public:
  explicit Clock(double length) : length_(length) {}
  bool runs() const { return std::chrono::steady_clock::now() - start_ < length_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::duration<double> length_;
};

TEST_F(RandomTexts, AreRefusedOrUnderstood) {
  const auto device = open_host_device();
  Random random;
  long accepted = 0, refused = 0;
  for (const Clock clock(seconds / 7); clock.runs();) {
    const Family& family = random.of(families());
    const std::string text = broken_problem(family, random);
    begin(fmt::format("{}/{}: {}", family.name, family.op, text));
    SCOPED_TRACE(current);
    const std::optional<Problem> problem = family.parse(text);
    ++(problem ? accepted : refused);
    if (!problem) continue;
    EXPECT_EQ(family.parse(problem->text()), problem) << "is written as what is read otherwise";
    for (DType dtype : kDTypes) {
      const Cost cost = family.cost(*problem, dtype);
      for (double value : {cost.flops, cost.bytes_read, cost.bytes_written}) {
        EXPECT_TRUE(std::isfinite(value) && value >= 0) << value;
      }
      const double memory = family.memory(*problem, dtype);
      EXPECT_TRUE(std::isfinite(memory) && memory >= 0) << memory;
    }
    for (const Kernel& kernel : device->kernels()) {
      if (kernel.family != family.name || kernel.op != family.op) continue;
      const Support support = supports(kernel, *problem, device->info());
      EXPECT_TRUE(support.ok || *support.reason) << full_name(kernel);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
  std::cout << accepted << " problems, " << refused << " texts refused\n";
}

TEST_F(RandomProblems, PassEveryVersion) {
  const auto device = open_host_device();
  Random random;
  long checked = 0, unsupported = 0;
  for (const Clock clock(seconds); clock.runs();) {
    const Kernel& kernel = random.of(device->kernels());
    const Family& family = family_of(kernel);
    const Problem problem = small_problem(family, random);
    if (!supports(kernel, problem, device->info()).ok) {
      ++unsupported;
      continue;
    }
    const std::vector<InputSet> sets = family.input_sets();
    const InputSet& set = random.of(sets);
    const auto order = static_cast<unsigned>(random());
    const std::uint64_t inputs = random();
    begin(fmt::format("{}/{}, {} inputs of seed {}, lane order {}", full_name(kernel),
                      problem.text(), set.name, inputs, order));
    const auto workload = family.open(problem, kernel.dtype, set, inputs, *device);
    device->set_lane_order(order);
    const CheckResult result = check(kernel, *workload, *device);
    ASSERT_TRUE(result.verdict == Verdict::passed) << current << result.reason;
    ++checked;
  }
  EXPECT_GT(checked, 0);
  std::cout << checked << " checked, " << unsupported << " unsupported\n";
}

/// A launch whose result is spoilt before anybody looks at it.
struct Spoilt {
  void (*launch)(const Call&, cudaStream_t) = nullptr;
  unsigned char* byte = nullptr;
  std::size_t bytes = 0;    // that become 0xFF, as if nobody had written them; or else
  unsigned char flips = 0;  // bits of the one byte that flip
};
Spoilt spoilt;

void launch_and_spoil(const Call& call, cudaStream_t stream) {
  spoilt.launch(call, stream);
  std::memset(spoilt.byte, 0xFF, spoilt.bytes);
  *spoilt.byte ^= spoilt.flips;
}

TEST_F(SpoiltResults, AreNeverAccepted) {
  const auto device = open_host_device();
  Random random;
  long rejected = 0;
  for (const Clock clock(seconds); clock.runs();) {
    Kernel kernel = random.of(device->kernels());
    const Family& family = family_of(kernel);
    const Problem problem = small_problem(family, random);
    if (!supports(kernel, problem, device->info()).ok) continue;
    const auto workload =
        family.open(problem, kernel.dtype, family.input_sets().front(), random(), *device);
    auto& results = workload->results();
    const Workload::Result& result = results[random.below(results.size())];
    const std::size_t answers = result.expected ? result.expected->bytes() / sizeof(double) : 0;
    if (answers == 0) continue;

    // An element that may not be zero is no more itself when its sign, the top bit, has changed.
    const std::size_t i = random.below(answers);
    const double expected = result.expected_values()[i];
    const Tolerance t = result.array.tolerance;
    const double magnitude = result.magnitudes() ? result.magnitudes()[i] : 0;
    if (!(std::abs(expected) > t.relative * std::abs(expected) + t.scaled * magnitude + t.absolute))
      continue;
    const DType dtype = result.array.dtype;
    const std::size_t size = bytes_of(dtype, std::size_t{1}), end = bytes_of(dtype, i + 1);
    auto* const element = static_cast<unsigned char*>(result.written->data()) + end - size;
    const bool in_low_half = bytes_of(dtype, std::size_t{2}) == size && i % 2 == 0;

    spoilt = {.launch = kernel.launch};
    std::string what = fmt::format("element {} never written", i);
    spoilt.byte = element;
    spoilt.bytes = size;
    const std::size_t kind = random.below(3);
    if (kind == 0 && !has_nan(dtype)) continue;  // what is written may be that
    if (kind == 1) {
      what = fmt::format("element {} with the other sign", i);
      spoilt = {.launch = kernel.launch,
                .byte = element + size - 1,
                .flips = static_cast<unsigned char>(in_low_half ? 0x08 : 0x80)};
    } else if (kind == 2) {
      const std::size_t which = random.below(workload->arrays().size());
      const Buffer& input = workload->buffers()[which];
      if (workload->arrays()[which].role != Role::input || input.bytes() == 0) continue;
      const std::size_t at = random.below(input.bytes());
      what = fmt::format("byte {} of an input changed", at);
      spoilt = {.launch = kernel.launch,
                .byte = static_cast<unsigned char*>(input.data()) + at,
                .flips = static_cast<unsigned char>(1U << random.below(8))};
    }
    begin(fmt::format("{}/{}: {}", full_name(kernel), problem.text(), what));
    kernel.launch = launch_and_spoil;
    const CheckResult checked = check(kernel, *workload, *device);
    ASSERT_TRUE(checked.verdict == Verdict::incorrect) << current << checked.reason;
    ++rejected;
  }
  EXPECT_GT(rejected, 0);
  std::cout << rejected << " rejected\n";
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    char rest = 0;
    if (std::sscanf(argv[i], "--seconds=%lf%c", &ladder::seconds, &rest) == 1) continue;
    if (std::sscanf(argv[i], "--seed=%lu%c", &ladder::seed, &rest) == 1) continue;
    std::cerr << argv[i] << ": only --seconds=N and --seed=N are known.\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
