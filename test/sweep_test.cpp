// A sweep measures in a process of its own, and survives what happens there.
#include "measure/sweep.hpp"

#include "report/csv.hpp"

#include "forwarding_device.hpp"
#include "measure/wire.hpp"
#include "relu_kernel.hpp"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ladder {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Verdict::failed;
using Verdict::incorrect;
using Verdict::passed;

/// The run of a kernel that is timed, after those on both of relu's input sets and in another order.
constexpr int kTimedRun = 4;

/// Not on a test problem.
bool is_on_the_groups(const Call& call) { return static_cast<const Relu*>(call.args)->n == 1000; }

Opened open_host() { return {open_host_device(), "asked for"}; }

Group group_of(std::initializer_list<const Kernel*> kernels) {
  const Family& family = family_of(**kernels.begin());
  return {&family, DType::f32, family.problem("1000"), Cache::cold, kernels, {}};
}

/// What a listener was told.
struct Told {
  std::vector<std::string> steps, faults;
  std::vector<const Kernel*> blamed;
  Sweep::Listener listener() {
    return {.on_step = [this](const Step& step) { steps.push_back(step.doing); },
            .on_fault =
                [this](const Group&, const Fault& fault) {
                  faults.push_back(fault.reason);
                  blamed.push_back(fault.kernel);
                }};
  }
};

std::vector<Verdict> verdicts(const std::vector<Row>& rows) {
  std::vector<Verdict> all;
  for (const Row& row : rows) all.push_back(row.check.verdict);
  return all;
}

TEST(Sweep, MeasuresInAnotherProcess) {
  static int runs = 0;
  const Kernel counted = relu_kernel("v01_counted.cu", [](const Call& call, cudaStream_t) {
    ++runs;
    right(call, nullptr);
  });
  Told told;
  Sweep sweep(open_host, 1, {});
  EXPECT_EQ(sweep.machine().backend, Backend::host);
  EXPECT_EQ(sweep.machine().why_host, "asked for");
  EXPECT_EQ(sweep.machine().info.name, open_host_device()->info().name);
  const auto rows = sweep.measure(group_of({&counted}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed));
  EXPECT_TRUE(rows[0].timed());
  EXPECT_EQ(rows[0].label, "v01_counted");
  EXPECT_EQ(runs, 0) << "in this process";
  EXPECT_THAT(told.steps, testing::Contains("checking"));
  EXPECT_THAT(told.faults, testing::IsEmpty());
}

TEST(Sweep, AFaultLosesItsOwnRow) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel killed =
      relu_kernel("v02_killed.cu", [](const Call&, cudaStream_t) { std::raise(SIGKILL); });
  const Kernel exits =
      relu_kernel("v03_exits.cu", [](const Call&, cudaStream_t) { std::_Exit(3); });
  const Kernel last = relu_kernel("v04_right.cu", right);
  Told told;
  Sweep sweep(open_host, 1, {});
  const auto rows = sweep.measure(group_of({&first, &killed, &exits, &last}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed, failed, passed));
  EXPECT_EQ(rows[1].check.reason,
            "its process was ended by signal 9 (Killed, as the system does when memory runs out) "
            "while checking");
  EXPECT_EQ(rows[2].check.reason, "its process ended with exit code 3 while checking");
  EXPECT_TRUE(rows[0].timed() && rows[3].timed());
  EXPECT_EQ(told.faults.size(), 2);
  EXPECT_THAT(verdicts(sweep.measure(group_of({&first}), told.listener())), ElementsAre(passed))
      << "the next group";
}

TEST(Sweep, AKernelThatExitsRunsNoHandlerOfTheParent) {
  static int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  std::atexit([] { [[maybe_unused]] const auto written = write(ends[1], "!", 1); });
  const Kernel exits = relu_kernel("v01_exits.cu", [](const Call&, cudaStream_t) { std::exit(0); });
  Told told;
  Sweep sweep(open_host, 1, {});
  const auto rows = sweep.measure(group_of({&exits}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(failed));
  EXPECT_EQ(rows[0].check.reason, "its process ended with exit code 0 while checking");
  char written;
  EXPECT_EQ(read(ends[0], &written, 1), -1) << "a handler of the parent ran in the worker";
  for (int& end : ends) close(std::exchange(end, -1));
}

TEST(Sweep, TimeInWhichItIsStoppedIsNoKernels) {
  const Kernel stops = relu_kernel("v01_stops.cu", [](const Call& call, cudaStream_t) {
    static bool first = true;
    if (std::exchange(first, false)) {
      kill(getppid(), SIGSTOP);
      sleep(3);
      kill(getppid(), SIGCONT);
    }
    right(call, nullptr);
  });
  const pid_t process = fork();  // a shell would take a test that stops for a job to be put aside
  if (process == 0) {
    Told told;
    Sweep sweep(open_host, 1, 2);
    const auto rows = sweep.measure(group_of({&stops}), told.listener());
    _exit(told.faults.empty() && verdicts(rows) == std::vector{passed} ? 0 : 1);
  }
  int status = 0;
  waitpid(process, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Sweep, AFaultOnATestProblemIsNotRepeatedOnOtherProblems) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel small = relu_kernel("v02_small.cu", [](const Call& call, cudaStream_t) {
    if (!is_on_the_groups(call)) std::_Exit(3);
    right(call, nullptr);
  });
  Told told;
  Sweep sweep(open_host, 1, {});
  Group group = group_of({&first, &small});
  for (const char* problem : {"1000", "2000"}) {
    group.problem = group.family->problem(problem);
    const auto rows = sweep.measure(group, told.listener());
    EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed));
    EXPECT_THAT(rows[1].check.reason,
                AllOf(HasSubstr("its process ended with exit code 3 while checking (inputs: "),
                      HasSubstr(" at the test problem ")));
    EXPECT_EQ(rows[1].problem, problem);
  }
  EXPECT_THAT(told.blamed, ElementsAre(&small));
}

TEST(Sweep, GroupsThatAreBegunBeforeTheirTurnGetTheirOwnRows) {
  const Kernel good = relu_kernel("v01_right.cu", right);
  const Kernel bad = relu_kernel("v02_wrong.cu", [](const Call&, cudaStream_t) {});
  const Kernel killed =
      relu_kernel("v03_killed.cu", [](const Call&, cudaStream_t) { std::raise(SIGKILL); });
  std::vector<Group> groups;
  for (int i = 0; i < 9; ++i) groups.push_back(group_of({&good, &bad, &killed}));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].problem = groups[i].family->problem(std::to_string(1000 + i));
  }
  for (std::size_t i = 2; i < groups.size(); i += 3) groups[i].kernels = {&killed};
  Told told;
  Sweep sweep(open_host, 1, {});
  sweep.plan(groups);
  for (const std::size_t i : {0, 1, 2, 2, 3, 5, 4, 7}) {  // and some again, early or never
    const auto rows = sweep.measure(groups[i], told.listener());
    ASSERT_EQ(rows.size(), groups[i].kernels.size());
    EXPECT_EQ(rows.back().check.verdict, failed);
    EXPECT_EQ(rows.back().problem, groups[i].problem.text());
    if (rows.size() == 1) continue;
    EXPECT_THAT(verdicts(rows), ElementsAre(passed, incorrect, failed));
    EXPECT_TRUE(rows[0].timed());
  }
  // A row of another group would be a fault, too.
  EXPECT_EQ(told.faults.size(), 8);
  EXPECT_THAT(told.faults, testing::Each(HasSubstr("signal 9")));
}

/// What is told of processes by what they append to a file.
class Marks {
 public:
  void operator()() const { std::ofstream(path_, std::ios::app) << getpid() << "\n"; }
  /// The processes, each as often as it made one.
  std::map<std::string, int> processes() const {
    std::map<std::string, int> all;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) ++all[line];
    return all;
  }
  ~Marks() { std::remove(path_.c_str()); }

 private:
  std::string path_ = testing::TempDir() + "ladder_sweep_marks_" + std::to_string(getpid());
};

TEST(Sweep, SeveralProcessesMeasureAGroup) {
  static const Marks marks;
  const Kernel kernel = relu_kernel("v01_right.cu", [](const Call& call, cudaStream_t) {
    if (is_on_the_groups(call)) marks();
    right(call, nullptr);
  });
  Told told;
  Sweep sweep(open_host, 1, {}, {}, 3);
  const Group group = group_of({&kernel});
  std::vector<Row> rows = sweep.measure(group, told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed));
  EXPECT_EQ(rows[0].samples.us.size(), 3);
  EXPECT_THAT(rows[0].of_processes, ElementsAre(1, 1, 1));
  EXPECT_EQ(marks.processes().size(), 3);
  EXPECT_THAT(told.steps,
              testing::IsSupersetOf({"timing in process 1 of 3", "timing in process 3 of 3"}));
  const auto is_test_problem = [](const std::string& step) {
    return step.find("test problem") != std::string::npos;
  };
  EXPECT_GT(std::ranges::count_if(told.steps, is_test_problem), 0);
  std::erase_if(told.steps, [](const std::string& step) { return step.ends_with("1 of 3"); });
  EXPECT_EQ(std::ranges::count_if(told.steps, is_test_problem), 0) << "once is enough";

  rows = sweep.measure(group, told.listener());
  EXPECT_THAT(rows[0].of_processes, ElementsAre(1, 1, 1));
  EXPECT_EQ(marks.processes().size(), 5) << "the first goes on, the others are fresh";
}

TEST(Sweep, WhatFailsInOneProcessFails) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  // The first process leaves a mark.
  static const std::string mark =
      testing::TempDir() + "ladder_sweep_once_" + std::to_string(getpid());
  static const auto is_first = [] {
    static bool is = false;
    if (std::FILE* file = std::fopen(mark.c_str(), "wx")) {
      std::fclose(file);
      is = true;
    }
    return is;
  };
  const Kernel exits = relu_kernel("v02_exits.cu", [](const Call& call, cudaStream_t) {
    if (!is_first()) std::_Exit(3);
    right(call, nullptr);
  });
  const Kernel wrong = relu_kernel("v03_wrong.cu", [](const Call& call, cudaStream_t) {
    if (is_first()) right(call, nullptr);
  });
  const Kernel never = relu_kernel("v04_never.cu", [](const Call&, cudaStream_t) {});
  const Kernel last = relu_kernel("v05_right.cu", right);
  Told told;
  Sweep sweep(open_host, 1, {}, {}, 3);
  const auto rows =
      sweep.measure(group_of({&first, &exits, &wrong, &never, &last}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed, incorrect, incorrect, passed));
  EXPECT_EQ(rows[1].check.reason,
            "process 2 of 3: its process ended with exit code 3 while checking");
  EXPECT_THAT(rows[2].check.reason, testing::StartsWith("process 2 of 3: "));
  EXPECT_THAT(rows[3].check.reason, Not(HasSubstr("process")));
  for (const std::size_t i : {1, 2, 3}) EXPECT_FALSE(rows[i].timed());
  EXPECT_THAT(rows[4].of_processes, ElementsAre(1, 1, 1));
  EXPECT_EQ(told.faults.size(), 1) << "in the third process it is left out";
  std::remove(mark.c_str());
}

/// What a kernel does that overwrites its process' memory may end in bytes like these.
void send_to_sweep(const std::string& bytes) {
  for (int file = 3; file < 64; ++file) send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

TEST(Sweep, AWorkerThatSendsNonsenseLosesItsRow) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel length = relu_kernel(
      "v02_length.cu", [](const Call&, cudaStream_t) { send_to_sweep(std::string(1000, '\xff')); });
  const Kernel content = relu_kernel("v03_content.cu", [](const Call&, cudaStream_t) {
    send_to_sweep(std::string(8, '\1') + std::string(1000, '\2'));
  });
  const Kernel cut = relu_kernel("v04_cut.cu", [](const Call&, cudaStream_t) {
    send_to_sweep({"\x20\0\0\0\0\0\0\0cut", 11});
    std::_Exit(0);
  });
  const Kernel last = relu_kernel("v05_right.cu", right);
  Told told;
  Sweep sweep(open_host, 1, 5);
  const auto rows =
      sweep.measure(group_of({&first, &length, &content, &cut, &last}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed, failed, failed, passed));
  const char* unreadable = "its process sent a message that cannot be read while checking";
  EXPECT_EQ(rows[1].check.reason, unreadable);
  EXPECT_EQ(rows[2].check.reason, unreadable);
  EXPECT_EQ(rows[3].check.reason, "its process ended with exit code 0 while checking");
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the program

void take_all_memory() {
  static std::vector<char> memory;
  memory.resize(SIZE_MAX / 4);
}

TEST(Sweep, AWorkerWithoutMemoryLosesItsRow) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel greedy = relu_kernel(
      "v02_greedy.cu", [](const Call&, cudaStream_t) { []() noexcept { take_all_memory(); }(); });
  const Kernel honest =
      relu_kernel("v03_honest.cu", [](const Call&, cudaStream_t) { take_all_memory(); });
  Told told;
  Sweep sweep(open_host, 1, {});
  const auto rows = sweep.measure(group_of({&first, &greedy, &honest}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed, failed));
  EXPECT_EQ(rows[1].check.reason, "its process ran out of memory while checking");
  EXPECT_THAT(rows[2].check.reason, AllOf(HasSubstr("out of memory: 4611686018.4 GB are needed, "),
                                          HasSubstr("are free")));
}

#endif

TEST(Sweep, AKernelThatNeverEndsIsEnded) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel endless = relu_kernel("v02_endless.cu", [](const Call&, cudaStream_t) {
    for (volatile bool forever = true; forever;) continue;
  });
  Told told;
  Sweep sweep(open_host, 1, 0.5);
  const auto rows = sweep.measure(group_of({&first, &endless}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed));
  EXPECT_EQ(rows[1].check.reason, "did not end within 0.5 s while checking");
}

TEST(Sweep, OfSeveralThatTakeTurnsTheOneThatFaultsIsFound) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel late = relu_kernel("v02_late.cu", [](const Call& call, cudaStream_t) {
    static int runs = 0;
    if (is_on_the_groups(call) && ++runs == kTimedRun) std::_Exit(3);
    right(call, nullptr);
  });
  const Kernel last = relu_kernel("v03_right.cu", right);
  Told told;
  Sweep sweep(open_host, 1, {});
  const auto rows = sweep.measure(group_of({&first, &late, &last}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed, passed));
  EXPECT_EQ(rows[1].check.reason, "its process ended with exit code 3 while timing");
  EXPECT_THAT(told.blamed, ElementsAre(nullptr, &late)) << "together with the others, then alone";
}

/// A device that is of no more use once a kernel has thrown.
class Fragile {
 public:
  static Opened open() { return {std::make_unique<Handle>(), ""}; }

 private:
  struct Handle : ForwardingDevice {
    bool faulted = false;

    bool lost() override { return faulted; }
    void run(const Kernel& kernel, const Call& call) override {
      if (faulted) throw std::runtime_error("the context is lost");
      try {
        host->run(kernel, call);
      } catch (const std::exception&) {
        faulted = true;
        throw;
      }
    }
    std::vector<Samples> measure(std::span<const Contestant> contestants, Cache,
                                 const Sampling&) override {
      std::vector<Samples> all(contestants.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        try {
          run(*contestants[i].kernel, contestants[i].call);
          all[i].us.push_back(1);
        } catch (const std::exception& error) {
          all[i].error = error.what();
        }
      }
      return all;
    }
  };
};

TEST(Sweep, ALostDeviceIsOpenedAnew) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel faults = relu_kernel("v02_faults.cu", [](const Call&, cudaStream_t) {
    throw std::runtime_error("an illegal memory access");
  });
  const Kernel late = relu_kernel("v03_late.cu", [](const Call& call, cudaStream_t) {
    static int runs = 0;
    if (is_on_the_groups(call) && ++runs == kTimedRun) throw std::runtime_error("a late fault");
    right(call, nullptr);
  });
  const Kernel fickle = relu_kernel("v04_fickle.cu", [](const Call& call, cudaStream_t) {
    static int runs = 0;
    if (++runs == 2) throw std::runtime_error("a fault in another order");
    right(call, nullptr);
  });
  const Kernel last = relu_kernel("v05_right.cu", right);
  Told told;
  Sweep sweep(Fragile::open, 1, {});
  const auto rows =
      sweep.measure(group_of({&first, &faults, &late, &fickle, &last}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(passed, failed, failed, failed, passed));
  EXPECT_EQ(rows[1].check.reason, "an illegal memory access");
  EXPECT_EQ(rows[2].check.reason, "a late fault");
  EXPECT_EQ(rows[3].check.reason, "inputs: uniform; lane order 1; a fault in another order");
}

TEST(Sweep, ADeviceThatCannotBeOpenedIsRefused) {
  try {
    Sweep sweep([]() -> Opened { throw std::runtime_error("no such GPU"); }, 1, {});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no such GPU");
  }
}

TEST(Sweep, ADeviceThatCannotBeOpenedAgainEndsTheSweep) {
  const Kernel first = relu_kernel("v01_right.cu", right);
  const Kernel exits =
      relu_kernel("v02_exits.cu", [](const Call&, cudaStream_t) { std::_Exit(3); });
  const pid_t first_process = getpid();
  const std::string mark = testing::TempDir() + "ladder_sweep_test_" + std::to_string(getpid());
  auto open_once = [&]() -> Opened {
    if (std::FILE* file = std::fopen(mark.c_str(), "wx")) {
      std::fclose(file);
      return open_host();
    }
    throw std::runtime_error("it has fallen off the bus");
  };
  Told told;
  Sweep sweep(open_once, 1, {});
  const auto rows = sweep.measure(group_of({&first, &exits}), told.listener());
  EXPECT_THAT(verdicts(rows), ElementsAre(failed, failed));
  EXPECT_THAT(rows[0].check.reason, HasSubstr("cannot be opened again: it has fallen off the bus"));
  EXPECT_EQ(sweep.device_gone(), "it has fallen off the bus");
  EXPECT_EQ(getpid(), first_process);
  std::remove(mark.c_str());
}

TEST(Wire, ARowArrivesAsItWas) {
  const Kernel k = relu_kernel("v01_right.cu", right);
  Row row = unmeasured_row(group_of({&k}), k), arrived = row;
  row.problem = "12x34";
  row.cache = Cache::hot;
  row.check = {.verdict = passed, .reason = "a, \"reason\"", .error = 1e-7, .tolerance = 2e-7};
  row.samples = {.us = {1.5, 2.5, 3},
                 .states = {{1980, 700, true, false}, {1965, 699, false, true}, {1950, 698}},
                 .settled = true,
                 .burst_us = 1.25,
                 .error = "e"};
  row.cost = {1e9, 2e9, 3e9};
  row.plan_us = 34;
  row.launch_us = 4.5;
  row.is_short = true;
  row.sm_mhz = 1755;
  row.power_w = 690;
  row.roof = "wgmma tf32 / 3";
  row.roof_us = 1.25;
  row.library = "v00_cublas";
  row.vs_library = Estimate{1.01, 1, 1.02};
  row.vs_fastest = Estimate{0.98, 0.97, 0.99};
  row.fastest = true;
  row.aa = Estimate{1.001, 0.999, 1.003};
  row.launches = {{.launch = {&k, {1, 2, 3}, {4, 5, 6}, 7},
                   .registers = 8,
                   .static_shared = 9,
                   .local_bytes = 10,
                   .occupancy = 0.5},
                  {.launch = {&k, {1, 1, 1}, {32, 1, 1}, 0}, .registers = 11}};
  row.counters.emplace();
  row.counters->global_load = {1, 2, 3, 4, 5};
  row.counters->global_store = {2, 3, 4, 5, 6};
  row.counters->global_atomic = {3, 4, 5, 6, 7};
  row.counters->shared_load = {4, 5, 6, 7, 8};
  row.counters->shared_store = {5, 6, 7, 8, 9};
  row.counters->shared_atomic = {6, 7, 8, 9, 10};
  row.counters->shared_async = {7, 8, 9, 10, 11};
  row.counters->shared_stmatrix = {8, 9, 10, 11, 12};
  row.counters->cluster_load = {9, 10, 11, 12, 13};
  row.counters->cluster_store = {10, 11, 12, 13, 14};
  row.counters->lines = {{"a.cu", 12, Space::shared, Access::stmatrix, 16, {11, 12, 13, 14, 15}},
                         {"b.hpp", 3, Space::global, Access::cluster_load, 4, {}}};
  row.counters->own_cluster_load = {11, 12, 13, 14, 15};
  row.counters->wgmma = {12, 13};
  row.counters->barriers = 14;
  row.counters->mbarrier_phases = 15;

  Packer pack;
  transfer(pack, std::as_const(row));
  Unpacker unpack(pack.message());
  transfer(unpack, arrived);
  EXPECT_EQ(csv_cells(arrived, {}, 1), csv_cells(row, {}, 1));
  EXPECT_EQ(arrived.samples.us, row.samples.us);
  EXPECT_EQ(arrived.samples.error, row.samples.error);
  EXPECT_EQ(arrived.counters, row.counters);

  Row plain, filled = row;
  Packer nothing;
  transfer(nothing, std::as_const(plain));
  Unpacker empty(nothing.message());
  transfer(empty, filled);
  EXPECT_FALSE(filled.vs_library.has_value());

  const std::string& message = pack.message();
  for (std::size_t size = 0; size < message.size(); ++size) {
    Unpacker cut(std::string_view(message).substr(0, size));
    EXPECT_THROW(transfer(cut, arrived), BrokenMessage) << size;
  }
}

/// Whether bytes are a row; asks for no more memory than they justify.
bool is_row(const std::string& bytes) {
  try {
    Row row;
    Unpacker unpack(bytes);
    transfer(unpack, row);
    unpack.expect_end();
    EXPECT_LE(row.check.verdict, Verdict::unsupported);
    EXPECT_LE(row.cache, Cache::hot);
    return true;
  } catch (const BrokenMessage&) {
    return false;
  }
}

TEST(Wire, ARowWithBytesOverwrittenIsRefusedOrARow) {
  Row row;
  row.problem = "12x34";
  row.samples.us = {1.5, 2.5};
  row.samples.states = {{1980, 700, true, false}};
  row.aa = Estimate{1, 1, 1};
  Packer pack;
  transfer(pack, std::as_const(row));
  ASSERT_TRUE(is_row(pack.message()));
  EXPECT_FALSE(is_row(pack.message() + "x"));
  std::size_t refused = 0;
  for (std::size_t at = 0; at < pack.message().size(); ++at) {
    for (const char byte : {'\x02', '\x7f', '\xff'}) {
      std::string message = pack.message();
      message[at] = byte;
      refused += !is_row(message);
      message.replace(at, 8, 8, byte);  // a length, perhaps
      refused += !is_row(message);
    }
  }
  EXPECT_GT(refused, pack.message().size() / 4);
}

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() { socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_); }
  ~ChannelTest() override { close(sockets_[0]); }

  void write(const std::string& bytes) {
    ASSERT_EQ(send(sockets_[0], bytes.data(), bytes.size(), 0), bytes.size());
  }
  void hang_up() { shutdown(sockets_[0], SHUT_RDWR); }
  Channel::Arrival receive() { return channel().receive(message_, 0); }
  Channel& channel() {
    if (!channel_) channel_.emplace(sockets_[1]);
    return *channel_;
  }
  static std::string length(std::size_t bytes) {
    return {reinterpret_cast<const char*>(&bytes), sizeof bytes};
  }

  std::string message_;

 private:
  int sockets_[2];
  std::optional<Channel> channel_;
};
using enum Channel::Arrival;

TEST_F(ChannelTest, AMessageThatComesInPiecesIsWhole) {
  EXPECT_EQ(receive(), nothing);
  for (const char byte : length(3) + "ab") {
    write(std::string(1, byte));
    EXPECT_EQ(receive(), nothing);
  }
  write("c" + length(0) + length(1) + "d");
  for (const char* expected : {"abc", "", "d"}) {
    EXPECT_EQ(receive(), message);
    EXPECT_EQ(message_, expected);
  }
  EXPECT_EQ(receive(), nothing);
}

TEST_F(ChannelTest, ALengthThatNobodySendsIsRefused) {
  write(length(Channel::kMostBytes + 1));
  EXPECT_THROW(receive(), BrokenMessage);
}

TEST_F(ChannelTest, AMessageThatIsCutOffIsTheEnd) {
  write(length(3) + "ab");
  hang_up();
  EXPECT_EQ(receive(), end);
}

}  // namespace
}  // namespace ladder
