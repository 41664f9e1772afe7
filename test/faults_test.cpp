// A sweep with kernels that fault: they lose their own rows, and everything else is measured. Runs
// faulty_bench, which is ./bench with the kernels of faulting_kernels.cu.
#include "cli.hpp"

#include <gmock/gmock.h>

#include <map>
#include <vector>

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Backend {
  const char* name;
  int seconds;  ///< the time limit
  // What the rows of v90, v91, v93 and v94 say, as regular expressions:
  const char *faults, *ends, *when_timed, *refused;
};

class Faults : public InEmptyFolder<testing::TestWithParam<Backend>> {
 protected:
  Result bench(const std::string& arguments) {
    return run(LADDER_FAULTY_BENCH, std::string("--backend=") + GetParam().name + " " + arguments);
  }
  void SetUp() override {
    InEmptyFolder::SetUp();
    if (const Result names = bench("--benchmark_list_tests"); names.exit_code != 0) {
      if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << names.err;
      GTEST_SKIP() << "nothing ran on a GPU: " << names.err;
    }
  }

  /// The lines of the CSV that hold `text`.
  std::vector<std::string> rows(const std::string& text) {
    std::vector<std::string> found;
    std::istringstream csv(slurp(file("results.csv")));
    for (std::string line; std::getline(csv, line);) {
      if (line.find(text) != std::string::npos) found.push_back(line);
    }
    return found;
  }
};

TEST_P(Faults, LoseTheirOwnRowsOnly) {
  const std::string seconds = std::to_string(GetParam().seconds);
  const Result result =
      bench("--transpose=66x66,67x33 --benchmark_filter=transpose/f32 --time-limit=" + seconds);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("The sweep goes on in a fresh process."));
  EXPECT_THAT(result.out, HasSubstr("6 of "));
  EXPECT_THAT(result.out, HasSubstr("did not pass: v90_faults failed, v91_ends_its_process failed, "
                                    "v92_never_ends failed, v93_faults_when_timed failed, "
                                    "v94_refused failed, v95_throws_a_number failed."));

  const std::map<std::string, std::string> reasons{
      {"v90_faults", GetParam().faults},
      {"v91_ends_its_process", GetParam().ends},
      {"v92_never_ends", "did not end within " + seconds + " s while checking"},
      {"v93_faults_when_timed", GetParam().when_timed},
      {"v94_refused", GetParam().refused},
      {"v95_throws_a_number", "the launch threw something that is no std::exception"}};
  for (const auto& [version, reason] : reasons) {
    const auto found = rows(version);
    EXPECT_EQ(found.size(), 2) << "a row for each problem: " << version;
    for (const std::string& row : found) {
      EXPECT_THAT(row, AllOf(HasSubstr(",failed,"), ContainsRegex(reason)));
    }
  }
  EXPECT_EQ(rows(",failed,").size(), 2 * reasons.size());
  EXPECT_EQ(rows(",passed,").size() + rows(",unsupported,").size(),
            rows("transpose,").size() - 2 * reasons.size());
  EXPECT_GE(rows(",passed,").size(), 2 * 6);
}

TEST_P(Faults, ALaunchThatIsRefusedCostsNoProcess) {
  const Result result = bench("--transpose=64x64 '--benchmark_filter=transpose/f32/v(0|94)'");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, Not(HasSubstr("fresh process")));
  EXPECT_EQ(rows(",failed,").size(), 1) << "the next launch was blamed too";
}

TEST_P(Faults, ALaunchThatThrowsAnythingIsExplained) {
  if (std::string_view(GetParam().name) != "host") GTEST_SKIP() << "the host executor counts";
  const Result result =
      bench("--explain --transpose=8x8 '--benchmark_filter=transpose/f32/v(01|95)'");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("v01 naive"),
                    HasSubstr("failed: the launch threw something that is no std::exception")));
}

TEST_P(Faults, ALaunchThatExitsIsNoSuccess) {
  if (std::string_view(GetParam().name) != "host") GTEST_SKIP() << "there it traps";
  const std::string one = "--transpose=8x8 --benchmark_filter=transpose/f32/v91";
  const Result explained = bench("--explain " + one);
  EXPECT_EQ(explained.exit_code, 1);
  EXPECT_THAT(explained.out, ContainsRegex(GetParam().ends));
  const Result traced = bench("--trace=steps.json " + one);  // in ./bench's own process
  EXPECT_EQ(traced.exit_code, 1);
  EXPECT_EQ(traced.err,
            "bench: exit() was called, by a launch or a library; what was left is not done.\n");
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Faults,
    testing::Values(Backend{"host", 2, "was ended by signal 6 .Aborted. while checking",
                            "its process ended with exit code 3 while checking",
                            "was ended by signal 6 .Aborted. while timing",
                            "too much shared memory"},
                    Backend{"cuda", 10, "an illegal memory access was encountered",
                            "unspecified launch failure|an illegal instruction was encountered",
                            "an illegal memory access was encountered", "invalid argument"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
