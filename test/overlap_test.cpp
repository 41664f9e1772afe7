// Launches may overlap: every version's launches on two streams, and in two graphs, with arrays, scratch
// memory and state of their own, give the bits that each gives alone, then and afterwards; where both are
// planned for half of the SMs, and beside a kernel that holds a quarter of them until both have ended. CUPTI's
// time stamps tell whether they overlapped: a version whose launches were never seen to has not passed.
#include "cupti_kernels.hpp"
#include "device/sm_count.hpp"
#include "harness/cuda/error.hpp"
#include "harness/cuda/event.hpp"
#include "harness/family.hpp"
#include "holding_kernels.hpp"
#include "result_bits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ladder {
namespace {

constexpr int kRounds = 25;      // of each way; all four are a hundred
constexpr int kLaunches = 8;     // one after the other in each stream, at most,
constexpr double kSideUs = 200;  // and of slow ones as many as take about that
constexpr double kGateUs = 150;  // in which they are enqueued

/// When CUPTI says that a kernel ran, in ns. Not of those that hold others.
struct Span {
  std::uint32_t stream;
  std::uint64_t begin, end;
};
std::vector<Span> spans;

void note_span(const KernelRecord& kernel) {
  if (std::string_view(kernel.name).find("ladder_hold") != std::string_view::npos) return;
  spans.push_back({kernel.streamId, kernel.start, kernel.end});
}

/// Whether kernels of different streams ran at the same time.
bool overlapped() {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Span &a = spans[i], &b = spans[j];
      if (a.stream != b.stream && a.begin < b.end && b.begin < a.end) return true;
    }
  }
  return false;
}

class Stream {
 public:
  Stream() { LADDER_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A flag of the host's that kernels read.
class Flag {
 public:
  Flag() {
    LADDER_CUDA(
        cudaHostAlloc(reinterpret_cast<void**>(&value_), sizeof *value_, cudaHostAllocMapped));
  }
  ~Flag() { cudaFreeHost(value_); }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  void set(int value) { *static_cast<volatile int*>(value_) = value; }
  const volatile int* on_device() const {
    void* pointer = nullptr;
    LADDER_CUDA(cudaHostGetDevicePointer(&pointer, value_, 0));
    return static_cast<const volatile int*>(pointer);
  }

 private:
  int* value_ = nullptr;
};

/// A problem with inputs of its own, and what a kernel makes of it alone.
struct Side {
  std::unique_ptr<Workload> workload;
  Call call{};
  std::vector<std::uint64_t> alone{};
  double us = 0;  ///< about, of a launch
};

/// The workloads of one ladder, which its versions share.
class Ladder {
 public:
  std::array<Side, 2>& sides(const Kernel& kernel, const Problem& problem, Device& device) {
    const std::string name = full_name(kernel);
    const std::string of = name.substr(0, name.rfind('/')) + "/" + problem.text();
    if (of != name_) sides_ = {};
    name_ = of;
    const Family& family = family_of(kernel);
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      if (sides_[i].workload) continue;
      sides_[i].workload =
          family.open(problem, kernel.dtype, family.input_sets().front(), 1 + i, device);
    }
    return sides_;
  }
  void clear() { sides_ = {}; }

 private:
  std::string name_;
  std::array<Side, 2> sides_;
};
Ladder ladder;  // cleared before its device is closed

class OverlapTest : public testing::Test {
 public:
  OverlapTest(const Kernel& kernel, Device& device) : kernel_(kernel), device_(device) {}

  void TestBody() override {
    if (const Support support = architecture_supports(kernel_.file, device_.info()); !support.ok) {
      GTEST_SKIP() << support.reason;
    }
    const std::optional<Problem> problem = chosen_problem();
    ASSERT_TRUE(problem);
    const int half = device_.info().sm_count / 2;
    try_streams(*problem, 0, 0, "two streams");
    try_streams(*problem, half, 0, "two streams, each planned for half of the SMs");
    try_streams(*problem, half, half / 2, "beside a kernel that holds a quarter of the SMs");
    if (kernel_.version.capturable) try_graphs(*problem);
    if (HasFailure()) return ladder.clear();
    EXPECT_TRUE(seen_) << "its launches were never seen to overlap, at " << problem->text();
  }

 private:
  /// The first of the benchmarks', made small, that the version can run; else of the tests' that with the
  /// most bytes.
  std::optional<Problem> chosen_problem() const {
    const Family& family = family_of(kernel_);
    const auto bytes = [&](const Problem& one) {
      const bool can = supports(kernel_, one).ok && family.devices(one, kernel_.dtype) == 1;
      return can ? family.cost(one, kernel_.dtype).bytes() : 0;
    };
    for (const Problem& one : family.bench_problems(Backend::cuda)) {
      if (Problem small = family.smaller(one); bytes(small) > 0) return small;
    }
    std::vector<Problem> problems = family.own_test_problems(kernel_);
    std::ranges::move(family.test_problems(), std::back_inserter(problems));
    const auto largest = std::ranges::max_element(problems, {}, bytes);
    if (largest == problems.end() || bytes(*largest) <= 0) return {};
    return *largest;
  }

  bool both_end_within(std::chrono::seconds limit) const {
    const auto begin = std::chrono::steady_clock::now();
    for (const Stream* stream : {&streams_[0], &streams_[1]}) {
      cudaError_t status = cudaErrorNotReady;
      while ((status = cudaStreamQuery(*stream)) == cudaErrorNotReady) {
        if (std::chrono::steady_clock::now() - begin > limit) return false;
        std::this_thread::yield();
      }
      LADDER_CUDA(status);
    }
    return true;
  }

  /// What is launched has ended without the SMs that are held, or the test has failed. What does not end
  /// with them either ends the process.
  void wait(const char* what) {
    using std::chrono::seconds;
    if (!both_end_within(seconds(3))) {
      ADD_FAILURE() << "does not end: " << what;
      released_.set(1);
      if (!both_end_within(seconds(5))) {
        std::cerr << full_name(kernel_) << " does not end: " << what << std::endl;
        std::_Exit(1);
      }
    }
    released_.set(1);
    LADDER_CUDA(cudaDeviceSynchronize());
  }

  void prepare(std::array<Side, 2>& sides) {
    for (Side& side : sides) {
      side.workload->forget(kernel_);  // its plan is of another number of SMs
      side.call = side.workload->prepare(kernel_).call;
      side.workload->reset_results(0xFF);
      const auto begin = std::chrono::steady_clock::now();
      device_.run(kernel_, side.call);
      side.us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                    .count();
      side.alone = result_bits(kernel_, *side.workload);
    }
  }
  void expect_same(std::array<Side, 2>& sides, const char* what, int round) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(result_bits(kernel_, *sides[i].workload), sides[i].alone)
          << what << ", round " << round << ", launcher " << i;
    }
  }
  int launches(const Side& side) const {
    const bool changes = std::ranges::any_of(
        side.workload->arrays(), [](const Array& array) { return array.role == Role::in_place; });
    return changes ? 1 : std::clamp(static_cast<int>(kSideUs / side.us), 1, kLaunches);
  }

  /// Rounds in which both sides' work is released at once. enqueue(i) puts side i's into its stream.
  void rounds(std::array<Side, 2>& sides, int held, const char* what, auto enqueue) {
    // Until they are seen; CUPTI may wait for what holds SMs, and takes long to begin and to end.
    bool traced = !seen_ && held == 0;
    if (traced) {
      ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
    }
    const auto end_trace = [&] {
      if (!std::exchange(traced, false)) return;
      EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
    };
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
      for (Side& side : sides) side.workload->reset_results(0xFF);
      LADDER_CUDA(cudaDeviceSynchronize());
      spans.clear();
      released_.set(0);
      if (held > 0) hold_sms(held, released_.on_device(), holder_);
      hold_stream(kGateUs, gate_);
      Event open;
      open.record(gate_);
      for (const Stream& stream : streams_) open.hold(stream);
      for (int i = 0; i < 2; ++i) enqueue(i);
      wait(what);
      if (traced) {
        ASSERT_EQ(cuptiActivityFlushAll(1), CUPTI_SUCCESS);
        seen_ = overlapped();
        if (seen_) end_trace();
      }
      expect_same(sides, what, round);
    }
    end_trace();
    for (Side& side : sides) {  // once more alone
      side.workload->reset_results(0xFF);
      device_.run(kernel_, side.call);
    }
    expect_same(sides, what, -1);
  }

  void try_streams(const Problem& problem, int sms, int held, const char* what) {
    if (HasFailure()) return;
    set_sm_limit(sms);
    auto& sides = ladder.sides(kernel_, problem, device_);
    prepare(sides);
    rounds(sides, held, what, [&](int i) {
      for (int n = launches(sides[i]); n > 0; --n) kernel_.launch(sides[i].call, streams_[i]);
    });
    set_sm_limit(0);
  }

  void try_graphs(const Problem& problem) {
    if (HasFailure()) return;
    auto& sides = ladder.sides(kernel_, problem, device_);
    prepare(sides);
    cudaGraphExec_t graphs[2]{};
    for (int i = 0; i < 2; ++i) {
      cudaGraph_t graph = nullptr;
      LADDER_CUDA(cudaStreamBeginCapture(streams_[i], cudaStreamCaptureModeThreadLocal));
      for (int n = launches(sides[i]); n > 0; --n) kernel_.launch(sides[i].call, streams_[i]);
      LADDER_CUDA(cudaStreamEndCapture(streams_[i], &graph));
      LADDER_CUDA(cudaGraphInstantiate(&graphs[i], graph, 0));
      LADDER_CUDA(cudaGraphDestroy(graph));
    }
    rounds(sides, 0, "two graphs",
           [&](int i) { LADDER_CUDA(cudaGraphLaunch(graphs[i], streams_[i])); });
    for (cudaGraphExec_t graph : graphs) LADDER_CUDA(cudaGraphExecDestroy(graph));
  }

  Kernel kernel_;
  Device& device_;
  std::array<Stream, 2> streams_;
  Stream gate_, holder_;
  Flag released_;
  bool seen_ = false;
};

class NoGpu : public testing::Test {
 public:
  explicit NoGpu(std::string reason) : reason_(std::move(reason)) {}
  void TestBody() override {
    if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << "LADDER_REQUIRE_GPU is set, but: " << reason_;
    GTEST_SKIP() << "nothing ran on a GPU: " << reason_;
  }

 private:
  std::string reason_;
};

void register_tests(std::unique_ptr<Device>& device) {
  try {
    device = open_cuda_device(0);
  } catch (const std::exception& error) {
    testing::RegisterTest(
        "all", "overlap", nullptr, nullptr, __FILE__, __LINE__,
        [why = std::string(error.what())]() -> testing::Test* { return new NoGpu(why); });
    return;
  }
  if (!see_kernels<note_span>()) std::abort();
  for (const Kernel& kernel : device->kernels()) {
    if (family_of(kernel).measures) continue;  // roofs are no operators
    testing::RegisterTest(full_name(kernel).c_str(), "overlap", nullptr, nullptr, kernel.file, 1,
                          [&]() -> testing::Test* { return new OverlapTest(kernel, *device); });
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  // Streams that share a hardware queue wait for each other: libraries have some, too.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/1);
  testing::InitGoogleTest(&argc, argv);
  std::unique_ptr<ladder::Device> device;
  ladder::register_tests(device);
  const int status = RUN_ALL_TESTS();
  ladder::ladder.clear();
  return status;
}
