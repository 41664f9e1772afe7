// Every registered kernel, on every test problem and every set of inputs, against its reference.
// Built once for the host executor and once for the GPU.
//
// On the host executor a kernel has two tests. The quick one runs every problem twice: with the
// first inputs on 2 SMs, the threads in the order of their numbers, and with one of the other sets of
// inputs, another one in each run of the test, under a random order on a random number of SMs; and it
// looks at what the kernel does to memory. What is for many SMs runs with a file's first operation
// alone. The full one runs every problem with every set of inputs under a random order, on random
// numbers of SMs. Both run it beside another launch of itself.
//
// On the GPU, kernels whose copies and products no sanitizer watches (vNN_name.sm90a.cu) run 100
// times more, and must give the same bits each time, but for a sum that they add up in any order.
#include "harness/family.hpp"
#include "harness/host/api.hpp"
#include "harness/registry.hpp"
#include "kernel_counts.hpp"
#include "result_bits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>

namespace ladder {
namespace {

/// A fresh seed per run, or LADDER_SEED to repeat one.
std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* fixed = std::getenv("LADDER_SEED");
    const std::uint64_t made = fixed ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::cout << "LADDER_SEED=" << made << "\n";
    return made;
  }();
  return value;
}

/// How the host executor runs a kernel.
struct Way {
  unsigned lane_order = 0;
  int sms = 2;
};

std::ostream& operator<<(std::ostream& to, const Way& way) {
  return to << "lane order " << way.lane_order << " on " << way.sms
            << " SMs, LADDER_SEED=" << seed();
}

constexpr int kManySms = 132;  // of an H200

/// As many SMs for kernels of the host executor while this lives.
struct OnSms {
  explicit OnSms(int sms) { set_host_sm_count(sms); }
  ~OnSms() { set_host_sm_count(Way{}.sms); }
  OnSms(const OnSms&) = delete;
};

/// Another one in each run of the test, for each number. Threads of blocks that wait for each other have
/// their stacks at the same time, two mappings each: of 1024 on each of 32 SMs a process has too few.
Way random_way(std::size_t number) {
  constexpr int kSms[] = {2, 5, 13, 23};
  return {static_cast<unsigned>(seed()) | 1,
          kSms[random_bits(seed(), 0, number) % std::size(kSms)]};
}

/// For scripts/test, which says in the end what was checked on what: a line for each kernel, with
/// the number of checks, in the file that LADDER_TEST_SUMMARY names.
void note_checks(std::string_view device, const Kernel& kernel, int checks) {
  if (const char* path = std::getenv("LADDER_TEST_SUMMARY")) {
    std::ofstream(path, std::ios::app)
        << (std::string(device) + '\t' + full_name(kernel) + '\t' + std::to_string(checks) + '\n');
  }
}

/// The problems of one ladder (family, operation, element type) with their inputs and answers, which
/// its versions share where their tests run in one process, one ladder after the other.
class Workloads {
 public:
  Workload& get(const Kernel& kernel, const Problem& problem, const InputSet& set, Device& device) {
    const std::string ladder = ladder_of(kernel);
    if (ladder != ladder_) workloads_.clear();
    ladder_ = ladder;
    auto& workload = workloads_[{problem.text(), set.name}];
    if (!workload) workload = family_of(kernel).open(problem, kernel.dtype, set, seed(), device);
    return *workload;
  }
  /// After a failure: what the kernel left of the inputs is nobody else's.
  void clear() { workloads_.clear(); }

  static std::string ladder_of(const Kernel& kernel) {
    const std::string name = full_name(kernel);
    return name.substr(0, name.rfind('/'));
  }

 private:
  std::string ladder_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Workload>> workloads_;
};
Workloads workloads;  // cleared before their device is closed

/// By ladder; the versions of each in their order.
std::vector<Kernel> in_ladders(std::vector<Kernel> kernels) {
  std::ranges::stable_sort(kernels, {}, &Workloads::ladder_of);
  return kernels;
}

enum class Part { quick, full };

#if !defined(LADDER_TEST_GPU)

/// Two launches at the same time, each with inputs, scratch memory and state of its own, under a random
/// order of their blocks, give the bits that each gives alone, then and afterwards. What they share and
/// one of them writes the executor names.
void expect_the_same_beside_another(const Kernel& kernel, Device& device, const Way& way) {
  const Family& family = family_of(kernel);
  std::vector<Problem> problems = family.bench_problems(Backend::host);
  std::ranges::stable_sort(problems, {},
                           [&](const Problem& one) { return family.memory(one, kernel.dtype); });
  std::ranges::move(family.own_test_problems(kernel), std::back_inserter(problems));
  const auto problem = std::ranges::find_if(problems, [&](const Problem& one) {
    return supports(kernel, one).ok && family.devices(one, kernel.dtype) == 1;
  });
  ASSERT_NE(problem, problems.end());
  const InputSet set = family.input_sets().front();
  std::unique_ptr<Workload> sides[2];
  std::vector<std::uint64_t> alone[2];
  std::vector<std::function<void()>> streams;
  device.set_lane_order(0);
  const OnSms on_sms(way.sms);
  for (int i = 0; i < 2; ++i) {
    sides[i] = family.open(*problem, kernel.dtype, set, seed() + static_cast<unsigned>(i), device);
    const Call call = sides[i]->prepare(kernel).call;
    streams.emplace_back([&kernel, call] { kernel.launch(call, nullptr); });
    device.run(kernel, call);
    alone[i] = result_bits(kernel, *sides[i]);
    sides[i]->reset_results(0xFF);
  }
  const auto expect_the_same = [&](const char* when) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(result_bits(kernel, *sides[i]), alone[i])
          << when << ", " << problem->text() << ", " << way;
      sides[i]->reset_results(0xFF);
    }
  };
  device.set_lane_order(way.lane_order);
  ladder_host_api()->run_together(streams);
  expect_the_same("beside another launch");
  device.set_lane_order(0);
  for (const auto& side : sides) device.run(kernel, side->prepare(kernel).call);
  expect_the_same("after launches that overlapped");
}

#endif

class KernelTest : public testing::Test {
 public:
  KernelTest(const Kernel& kernel, Device& device, Part part, bool on_many_sms = true)
      : kernel_(kernel), device_(device), part_(part), on_many_sms_(on_many_sms) {}

  void TestBody() override {
    if (const Support support = architecture_supports(kernel_.file, device_.info()); !support.ok) {
      note_checks("compiled", kernel_, 0);
      GTEST_SKIP() << support.reason;
    }
    const Family& family = family_of(kernel_);
    std::vector<Problem> problems = family.test_problems();
    std::ranges::move(family.own_test_problems(kernel_), std::back_inserter(problems));
    std::erase_if(problems,
                  [&](const Problem& one) { return !supports(kernel_, one, device_.info()).ok; });
    EXPECT_FALSE(problems.empty()) << "supports no test problem";

    const std::vector<InputSet> sets = family.input_sets();
    const bool on_host = device_.backend() == Backend::host;
    const unsigned random_order = random_way(0).lane_order;
    std::size_t ways = 0;
    const auto next_way = [&] { return on_host ? random_way(ways++) : Way{}; };
    for (std::size_t p = 0; p < problems.size(); ++p) {
      if (on_host && part_ == Part::quick) {
        check_one(problems[p], sets.front(), {});
        const std::size_t others = sets.size() - 1;
        check_one(problems[p], others == 0 ? sets[0] : sets[1 + (seed() + p) % others], next_way());
      } else {
        for (const InputSet& set : sets) check_one(problems[p], set, next_way());
      }
    }
    for (const Problem& problem : family.many_sms_test_problems(kernel_)) {
      if (!on_many_sms_) break;
      ASSERT_TRUE(supports(kernel_, problem, device_.info()).ok) << problem.text();
      if (part_ == Part::quick) {
        check_one(problem, sets.front(), {.sms = kManySms});
      } else {
        for (const InputSet& set : sets) check_one(problem, set, {random_order, kManySms});
      }
    }
#if !defined(LADDER_TEST_GPU)
    if (part_ == Part::quick) expect_counts(kernel_, device_, random_order);
    expect_the_same_beside_another(kernel_, device_, next_way());
#endif
    note_checks(on_host ? "host" : device_.info().name, kernel_, checks_);
  }

 private:
  void check_one(const Problem& problem, const InputSet& set, const Way& way) {
    if (!must_pass(kernel_, set, device_.backend())) return;
    device_.set_lane_order(way.lane_order);
    Workload& workload = workloads.get(kernel_, problem, set, device_);
    std::optional<OnSms> on_sms;
    if (device_.backend() == Backend::host) {
      on_sms.emplace(way.sms);
      workload.forget(kernel_);  // its plan is of another number of SMs
    }
    const CheckResult result = check(kernel_, workload, device_);
    EXPECT_EQ(result.verdict, Verdict::passed)
        << to_string(result.verdict) << ": " << problem.text() << ", " << set.name << " inputs, "
        << way << ": " << result.reason;
    if (result.verdict != Verdict::passed) workloads.clear();
    ++checks_;
  }

  Kernel kernel_;
  Device& device_;
  Part part_;
  bool on_many_sms_;
  int checks_ = 0;
};

/// The first problem of ./bench that the kernel supports, or of its own, many times.
class RepeatTest : public testing::Test {
 public:
  RepeatTest(const Kernel& kernel, Device& device) : kernel_(kernel), device_(device) {}

  void TestBody() override {
    if (const Support support = architecture_supports(kernel_.file, device_.info()); !support.ok) {
      GTEST_SKIP() << support.reason;
    }
    const Family& family = family_of(kernel_);
    std::vector<Problem> problems = family.bench_problems(Backend::cuda);
    std::ranges::move(family.own_test_problems(kernel_), std::back_inserter(problems));
    const auto problem = std::find_if(problems.begin(), problems.end(), [&](const Problem& one) {
      return supports(kernel_, one, device_.info()).ok;
    });
    ASSERT_NE(problem, problems.end()) << "supports no problem of ./bench, and has none of its own";
    const auto workload =
        family.open(*problem, kernel_.dtype, family.input_sets().front(), seed(), device_);
    const Call call = workload->prepare(kernel_).call;
    std::vector<std::uint64_t> first;
    for (int run = 0; run < 100; ++run) {
      workload->reset_results(0xFF);
      device_.run(kernel_, call);
      const std::vector<std::uint64_t> bits = result_bits(kernel_, *workload);
      if (first.empty()) first = bits;
      const bool has_unordered_sum = *kernel_.version.unordered_sum != 0;
      ASSERT_EQ(bits.size() + has_unordered_sum, workload->results().size());
      ASSERT_EQ(bits, first) << "run " << run << " of " << problem->text();
    }
  }

 private:
  Kernel kernel_;
  Device& device_;
};

#if defined(LADDER_TEST_GPU)

/// Stands in for all kernels of a family where there is no GPU.
class NoGpu : public testing::Test {
 public:
  NoGpu(std::string_view family, std::string reason)
      : family_(family), reason_(std::move(reason)) {}
  void TestBody() override {
    for (const Kernel& kernel : registered_kernels()) {
      if (kernel.family == family_) note_checks("compiled", kernel, 0);
    }
    if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << "LADDER_REQUIRE_GPU is set, but: " << reason_;
    GTEST_SKIP() << "nothing ran on a GPU: " << reason_;
  }

 private:
  std::string_view family_;
  std::string reason_;
};

void register_tests(std::unique_ptr<Device>& device) {
  try {
    device = open_cuda_device(0);
  } catch (const std::exception& error) {
    std::set<std::string_view> names;
    for (const Family& family : families()) names.insert(family.name);
    for (std::string_view name : names) {
      testing::RegisterTest((std::string(name) + "/all").c_str(), "gpu", nullptr, nullptr, __FILE__,
                            __LINE__, [=, why = std::string(error.what())]() -> testing::Test* {
                              return new NoGpu(name, why);
                            });
    }
    return;
  }
  static const std::vector<Kernel> kernels = in_ladders(device->kernels());
  for (const Kernel& kernel : kernels) {
    testing::RegisterTest(
        full_name(kernel).c_str(), "gpu", nullptr, nullptr, kernel.file, 1,
        [&]() -> testing::Test* { return new KernelTest(kernel, *device, Part::full); });
    if (std::string_view(kernel.file).ends_with(".sm90a.cu")) {
      testing::RegisterTest(full_name(kernel).c_str(), "gpu_repeats", nullptr, nullptr, kernel.file,
                            1, [&]() -> testing::Test* { return new RepeatTest(kernel, *device); });
    }
  }
}

#else

void register_tests(std::unique_ptr<Device>& device) {
  device = open_host_device();
  static const std::vector<Kernel> kernels = in_ladders(device->kernels());
  std::set<std::string> names;
  for (const Kernel& kernel : kernels) names.insert(full_name(kernel));
  std::set<std::pair<std::string_view, DType>> tried_on_many_sms;
  for (const Kernel& kernel : kernels) {
    // Of the 16-bit types bf16 is enough to try quickly: their elements lie in the same places.
    Kernel bf16 = kernel;
    bf16.dtype = DType::bf16;
    const bool is_quick = kernel.dtype != DType::f16 || !names.contains(full_name(bf16));
    auto add = [&](const char* name, Part part, bool on_many_sms) {
      testing::RegisterTest(full_name(kernel).c_str(), name, nullptr, nullptr, kernel.file, 1,
                            [&, part, on_many_sms]() -> testing::Test* {
                              return new KernelTest(kernel, *device, part, on_many_sms);
                            });
    };
    // What is for many SMs takes long, and leads to the same branches in all of a file's operations.
    if (is_quick) {
      add("host", Part::quick, tried_on_many_sms.emplace(kernel.file, kernel.dtype).second);
    }
    add("host_full", Part::full, true);
  }
}

#endif

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::unique_ptr<ladder::Device> device;
  ladder::register_tests(device);
  const int status = RUN_ALL_TESTS();
  ladder::workloads.clear();
  return status;
}
