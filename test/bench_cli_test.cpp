// ./bench as a user meets it: what it prints, what it writes, how it exits.
#include "cli.hpp"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class BenchCli : public InEmptyFolder<testing::Test> {
 protected:
  /// Runs ./bench, on the host executor unless told otherwise.
  Result bench(const std::string& arguments, const std::string& backend = "--backend=host ") {
    return run(LADDER_BENCH, backend + arguments);
  }

  /// Expects a refusal: exit code 1, nothing on stdout, one line on stderr that has `sentence`.
  void expect_refused(const std::string& arguments, const std::string& sentence,
                      const std::string& backend = "--backend=host ") {
    const Result result = bench(arguments, backend);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(lines(result.err), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence)) << arguments;
  }

  /// Runs ./bench by a shell that may redirect its output.
  Result bench_in_shell(const std::string& arguments) {
    return run("sh", "-c \"exec '" LADDER_BENCH "' --backend=host " + arguments + "\"");
  }

  /// What the folder's files hold, but for out.txt and err.txt.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(file(""))) {
      all[entry.path().filename()] = slurp(entry.path());
    }
    all.erase("out.txt");
    all.erase("err.txt");
    return all;
  }

  /// Starts ./bench on a problem and on one that would take minutes, in a process group of its own.
  pid_t start(const char* on = "--backend=host", const char* problems = "8x8x8,2048x2048x2048") {
    const pid_t process = fork();
    if (process == 0) {
      setpgid(0, 0);
      for (const int signal : {SIGINT, SIGTERM}) {
        std::signal(signal, SIG_DFL);  // whatever the test was started with
      }
      if (chdir(file("").c_str()) != 0) _exit(99);
      dup2(open("out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666), STDOUT_FILENO);
      dup2(open("err.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO);
      execl(LADDER_BENCH, "bench", on, "--benchmark_filter=gemm/f32/v0[12]",
            (std::string("--gemm=") + problems).c_str(), "--benchmark_out=out.json", nullptr);
      _exit(99);
    }
    return process;
  }

  static void wait_until(auto condition) {
    const auto began = std::chrono::steady_clock::now();
    while (!condition() && std::chrono::steady_clock::now() - began < std::chrono::seconds(60)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  /// Starts ./bench and sends a signal once the first problem is measured. Its environment is this
  /// process's.
  Result interrupted_by(int signal, const char* on = "--backend=host") {
    std::filesystem::remove(file("results.csv"));
    const pid_t process = start(on);
    wait_until([&] { return lines(slurp(file("results.csv"))) >= 1 + 2; });
    kill(-process, signal);  // to the whole group, as Ctrl-C and timeout(1) do
    int status = 0;
    waitpid(process, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp(file("out.txt")),
            slurp(file("err.txt"))};
  }
};

TEST_F(BenchCli, RunsAFamilyAndWritesItsRows) {
  const Result result = bench("--benchmark_filter=gemm/f32/v0[1-5]");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("Backend host"), HasSubstr("v05 tile2d"), HasSubstr("gemm f32: All"),
                    HasSubstr("passed their checks"), Not(HasSubstr("elementwise"))));
  const std::string csv = slurp(file("results.csv"));
  EXPECT_THAT(csv, AllOf(testing::StartsWith("family,op,kernel"), HasSubstr("gemm,,v05_tile2d"),
                         HasSubstr(",passed,")));
  EXPECT_GE(lines(csv), 1 + 2 * 5);
}

TEST_F(BenchCli, AnExactNameSelectsOneBenchmark) {
  const Result names =
      bench("--benchmark_list_tests --benchmark_filter='^gemm/f32/v05_tile2d/128x128x128$'");
  EXPECT_EQ(names.exit_code, 0);
  EXPECT_EQ(names.out, "gemm/f32/v05_tile2d/128x128x128\n");
}

TEST_F(BenchCli, ALeadingMinusInvertsTheFilter) {
  const Result names = bench("--benchmark_list_tests --benchmark_filter=-gemm");
  EXPECT_THAT(names.out,
              AllOf(HasSubstr("elementwise/relu/f16/v01_naive"), Not(HasSubstr("gemm"))));
}

TEST_F(BenchCli, BestIsTheVersionThatTheLibraryTakesForAProblem) {
  const auto names = [&](const std::string& arguments) {
    return bench("--benchmark_list_tests " + arguments).out;
  };
  EXPECT_EQ(names("--benchmark_filter=softmax/bf16/best --softmax=8x100,3x5"),
            "softmax/bf16/v10d_by_shape/8x100\nsoftmax/bf16/v10d_by_shape/3x5\n");
  EXPECT_EQ(names("--benchmark_filter=layernorm/add/f16/best/8x --layernorm=3x5,8x100"),
            "layernorm/add/f16/v22_cluster_add/8x100\n");
  EXPECT_EQ(names("'--benchmark_filter=^(soft|trans).*/best/' --dtype=f16 --softmax=3x5 "
                  "--transpose=3x5"),
            "softmax/f16/v10d_by_shape/3x5\n"
            "softmax/backward/f16/v35_backward_by_shape/3x5\n"
            "softmax/causal/f16/v22_causal_by_length/3x5\n"
            "softmax/log/f16/v13_log_by_length/3x5\n"
            "softmax/log_backward/f16/v35_backward_by_shape/3x5\n"
            "transpose/f16/v11_by_shape/3x5\n");
  EXPECT_EQ(names("'--benchmark_filter=softmax/f32/(v01|best|v10d)' --softmax=3x5"),
            "softmax/f32/v01_naive/3x5\nsoftmax/f32/v10d_by_shape/3x5\n");

  const std::string inverted = names("--benchmark_filter=-/best --softmax=3x5");
  EXPECT_THAT(inverted, AllOf(HasSubstr("softmax/f32/v10c"), Not(HasSubstr("softmax/f32/v10d"))));
  EXPECT_EQ(names("--benchmark_filter=softmax/f32/b --softmax=3x5"), "") << "the word is whole";
}

TEST_F(BenchCli, BestMayBeAnotherVersionForEachProblem) {
  EXPECT_EQ(bench("--benchmark_list_tests --benchmark_filter=^attention/bf16/best "
                  "--attention=1x1x1:40x64,1x1x40x64,1x1x40x128")
                .out,
            "attention/bf16/v56_one_kernel/1x1x1:40x64\n"
            "attention/bf16/v17_three_warpgroups/1x1x40x64\n"
            "attention/bf16/v16_no_maximum/1x1x40x128\n");
}

TEST_F(BenchCli, TheBestVersionRunsUnderItsOwnName) {
  const Result result =
      bench("--benchmark_filter=elementwise/relu/f32/best --elementwise=100,random:2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(slurp(file("results.csv")), HasSubstr("\nelementwise,relu,v07_by_size,"));
  EXPECT_EQ(lines(slurp(file("results.csv"))), 1 + 1 + 2);

  const Result profiled = bench(
      "'--profile=softmax/f32/best,softmax/f16/best/2x3,softmax/l.*/bf16/best' --softmax=3x5,4x7");
  EXPECT_EQ(profiled.exit_code, 0) << profiled.err;
  EXPECT_THAT(profiled.out, AllOf(HasSubstr("softmax/f32/v10d_by_shape/3x5: passed"),
                                  HasSubstr("softmax/f32/v10d_by_shape/4x7: passed"),
                                  HasSubstr("softmax/f16/v10d_by_shape/2x3: passed"),
                                  HasSubstr("softmax/log/bf16/v13_log_by_length/3x5: passed")));
  EXPECT_EQ(lines(profiled.out), 2 + 1 + 2 * 2 + 1);
}

TEST_F(BenchCli, AFilterThatTriesEveryWayIsReadInNoTime) {
  const Result names = bench("--benchmark_list_tests '--benchmark_filter=gemm/f32/v01.**/128'");
  EXPECT_EQ(names.out, "gemm/f32/v01_naive/128x128x128\n");
}

TEST_F(BenchCli, KernelsFillTheSmsTheyAreTold) {
  const std::string one = "--benchmark_filter=reduction/sum/f32/v12 --reduction=100000 ";
  for (const auto& [flag, sms] : {std::pair("", "2"), {"--sms=5", "5"}}) {
    const Result result = bench(one + flag);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(slurp(file("results.csv")), AllOf(HasSubstr(std::string(",,") + sms + ",passed,"),
                                                  HasSubstr(std::string(",") + sms + "x1x1,")));
  }
}

TEST_F(BenchCli, OwnProblemsAndTypes) {
  const Result result = bench(
      "--gemm=33x44x55,8x8x8 --elementwise=1000 --dtype=f32 "
      "'--benchmark_filter=^(gemm|elem).*v0[12]'");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("gemm f32 33x44x55"), HasSubstr("gemm f32 8x8x8"),
                                HasSubstr("elementwise add f32 1000"), Not(HasSubstr("f16")),
                                Not(HasSubstr("128x128x128"))));
}

TEST_F(BenchCli, ProblemsInRangesAndAtRandom) {
  const std::string list = "--benchmark_list_tests --benchmark_filter=softmax/f32/v01 ";
  EXPECT_EQ(bench(list + "'--softmax=[2:9:*2]x[1,7],3x3,4x7'").out,
            "softmax/f32/v01_naive/2x1\nsoftmax/f32/v01_naive/2x7\nsoftmax/f32/v01_naive/4x1\n"
            "softmax/f32/v01_naive/4x7\nsoftmax/f32/v01_naive/8x1\nsoftmax/f32/v01_naive/8x7\n"
            "softmax/f32/v01_naive/3x3\n");
  const std::string drawn = bench(list + "--softmax=3x3,random:9 --seed=7").out;
  EXPECT_EQ(lines(drawn), 10) << drawn;
  EXPECT_EQ(bench(list + "--seed=7 --softmax=random:9,3x3").out, drawn);
  EXPECT_NE(bench(list + "--seed=8 --softmax=random:9,3x3").out, drawn);
  EXPECT_THAT(bench("--profile=gemm/f32/v01_naive --gemm=random:3").out,
              HasSubstr("gemm/f32/v01_naive/"));
}

TEST_F(BenchCli, ResumesRandomProblems) {
  const std::string sweep = "--benchmark_filter=gemm/f32/v01 --gemm=random:3 ";
  EXPECT_EQ(bench(sweep).exit_code, 0);
  EXPECT_THAT(bench(sweep + "--resume=results.csv").out,
              HasSubstr("3 of 3 problems are measured already"));
}

TEST_F(BenchCli, ASeedRepeatsARun) {
  bench("--benchmark_filter=gemm/f32/v01 --gemm=64x64x64 --seed=7 --csv=a.csv");
  bench("--benchmark_filter=gemm/f32/v01 --gemm=64x64x64 --seed=7 --csv=b.csv");
  bench("--benchmark_filter=gemm/f32/v01 --gemm=64x64x64 --seed=8 --csv=c.csv");
  auto error = [&](const char* name) {  // the fields after the verdict: reason, error
    const std::string text = slurp(file(name));
    const std::size_t at = text.find(",passed,,");
    return text.substr(at + 9, text.find(',', at + 9) - at - 9);
  };
  EXPECT_NE(error("a.csv"), "");
  EXPECT_EQ(error("a.csv"), error("b.csv"));
  EXPECT_NE(error("a.csv"), error("c.csv"));
}

TEST_F(BenchCli, ListsFamiliesVersionsAndIdeas) {
  const Result result = bench("--list");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("gemm · f32"), HasSubstr("v05 tile2d"),
                                HasSubstr("per thread, in registers"),
                                HasSubstr("elementwise: add, "), HasSubstr("v01 naive")));
}

TEST_F(BenchCli, TheListIsOfWhatTheFilterSelects) {
  const Result versions = bench("--list --benchmark_filter='transpose/f32/v0[12]'");
  EXPECT_EQ(versions.exit_code, 0);
  EXPECT_THAT(versions.out,
              testing::MatchesRegex("transpose · f32\n  v01 naive .*\n  v02 smem_tile .*\n"));
  EXPECT_THAT(bench("--list --gemm=8x8x8 --dtype=f32").out,
              AllOf(testing::StartsWith("gemm · f32\n"), Not(HasSubstr("\ngemm_tensor"))));
  EXPECT_EQ(lines(bench("--list --softmax=3x5 --benchmark_filter=softmax/f32/best").out), 2);
  expect_refused("--list --benchmark_filter=softmaz", "near it is softmax");
}

TEST_F(BenchCli, AProblemSelectsItsFamilyUnlessAFilterSaysOtherwise) {
  const auto families = [&](const std::string& arguments, const std::string& before = "") {
    const Result result =
        run(LADDER_BENCH, "--backend=host --benchmark_list_tests " + arguments, before);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::set<std::string> found;
    std::istringstream names(result.out);
    for (std::string name; std::getline(names, name);) found.insert(name.substr(0, name.find('/')));
    return found;
  };
  const std::set<std::string> two{"gemm", "softmax"};
  EXPECT_THAT(families("--gemm=8x8x8"), testing::ElementsAre("gemm"));
  EXPECT_THAT(families("--gemm=random:2"), testing::ElementsAre("gemm"));
  EXPECT_EQ(families("--gemm=8x8x8 --softmax=3x5"), two);
  EXPECT_THAT(families("--gemm=8x8x8 --benchmark_filter=^softmax/"),
              testing::ElementsAre("softmax"));
  EXPECT_GT(families("--gemm=8x8x8 --benchmark_filter=all").size(), 5u);
  EXPECT_EQ(families("--gemm=8x8x8", "BENCHMARK_FILTER='^gemm/|^softmax'"), two);
}

TEST_F(BenchCli, GoogleBenchmarkFormatsWork) {
  const std::string filter = "--benchmark_filter=gemm/f32/v0[12]_.*/128x128x128 ";
  const Result json = bench(filter + "--benchmark_format=json");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_THAT(json.out, AllOf(testing::StartsWith("{"),
                              HasSubstr("\"name\": \"gemm/f32/v01_naive/128x128x128\""),
                              Not(HasSubstr("manual_time"))));
  EXPECT_THAT(json.err, HasSubstr("gemm f32"));

  const Result out = bench(filter + "--benchmark_out=out.csv --benchmark_out_format=csv");
  EXPECT_EQ(out.exit_code, 0);
  EXPECT_THAT(slurp(file("out.csv")), HasSubstr("\n\"gemm/f32/v02_coalesced/128x128x128\",1,"));
}

TEST_F(BenchCli, GoogleBenchmarksJsonIsStrictAndSaysWhatFailed) {
  if (*LADDER_PYTHON == '\0') GTEST_SKIP() << "no Python";
  const Result json = bench(
      "--benchmark_filter=elementwise/relu/f32/v0[12] --elementwise=100,1000000000000 "
      "--benchmark_repetitions=2 --benchmark_context=$(printf 'key=a\\001\\377b') "
      "--benchmark_format=json --benchmark_out=out.json");
  EXPECT_EQ(json.exit_code, 1) << json.err;
  std::ofstream(file("read.py")) << R"(import json
def refuse(word):
    raise ValueError(word)
for name in "out.txt", "out.json":
    with open(name, encoding="utf-8") as file:
        all = json.load(file, parse_constant=refuse)
    assert all["context"]["key"] == "a\1\uFFFDb", all["context"]
    rows = all["benchmarks"]
    assert len(rows) == 2 * (2 + 2) + 2 * 4, len(rows)  # repetitions, and the aggregates of what has times
    for row in rows:
        if "1000000000000" in row["name"]:
            assert row["error_occurred"] is True and row["real_time"] == row["cpu_time"] == 0, row
            assert row["error_message"].startswith("failed: 1000000000000 needs "), row
        else:
            assert "error_occurred" not in row and row["real_time"] == row["cpu_time"], row
            assert row["real_time"] > 0 or row["name"].endswith("v"), row  # a deviation may be 0
)";
  const std::string python = "cd '" + file("") + "' && " LADDER_PYTHON " read.py";
  EXPECT_EQ(std::system(python.c_str()), 0) << json.out;
}

TEST_F(BenchCli, NewerFlagsOfGoogleBenchmarkAreTaken) {
  const std::string small = "--benchmark_filter=gemm/f32/v01 --gemm=8x8x8 ";
  for (const char* time : {"0.01s", "0.01", "5x"}) {
    const Result result = bench(small + "--benchmark_min_time=" + time);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "") << "Google Benchmark's opinion of " << time;
  }
  EXPECT_EQ(bench(small + "--benchmark_dry_run --benchmark_repetitions=3").exit_code, 0);
  EXPECT_EQ(lines(slurp(file("results.csv"))), 1 + 1);
}

TEST_F(BenchCli, ResultsGoToStdoutByADash) {
  const std::string small = "--benchmark_filter=transpose/f32/v01 --transpose=8x8 ";
  const Result csv = bench(small + "--csv=-");
  EXPECT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_EQ(lines(csv.out), 1 + 1);
  EXPECT_THAT(csv.out, AllOf(testing::StartsWith("family,op,kernel,"),
                             HasSubstr("\ntranspose,,v01_naive,")));
  EXPECT_THAT(csv.err, AllOf(HasSubstr("v01 naive"), HasSubstr("Rows: stdout\n")));
  const Result json = bench(small + "--benchmark_out=-");
  EXPECT_THAT(json.out, AllOf(testing::StartsWith("{\n"), testing::EndsWith("]\n}\n")));
  EXPECT_THAT(bench(small + "--samples=-").out,
              AllOf(testing::StartsWith("["), testing::EndsWith("]\n")));
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_THAT(bench(small + "--trace=-").out,
              AllOf(testing::StartsWith("["), testing::EndsWith("]\n")));
#endif
  for (const auto& [name, text] : files()) EXPECT_THAT(name, testing::StartsWith("results.csv"));
}

TEST_F(BenchCli, TellsWhichVersionItIs) {
  const Result result = bench("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out,
              testing::MatchesRegex("Kernel Ladder, commit [0-9a-z-]+, build type [A-Za-z]+.*\n"));
  EXPECT_TRUE(files().empty());
}

#if !defined(__SANITIZE_ADDRESS__)  // which reserves more

TEST_F(BenchCli, ALimitOfAddressSpaceIsNamed) {
  const Result result =
      run(LADDER_BENCH, "--backend=host --softmax=8x8 --benchmark_filter=softmax/f32/v01",
          "ulimit -v 4000000;");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("are free; raise the limit of address space (ulimit -v)"));
}

#endif

TEST_F(BenchCli, ClustersRunWhereThereIsOneSm) {
  const Result result =
      bench("--sms=1 --benchmark_filter=gemm_tensor/nt/bf16/v14 --gemm_tensor=8x16x8");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("The version passed its checks."));
}

TEST_F(BenchCli, RepetitionsMeasureAgain) {
  const Result result =
      bench("--benchmark_filter=gemm/f32/v01_naive/128x128x128 --benchmark_repetitions=3");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(lines(slurp(file("results.csv"))), 1 + 3);
  EXPECT_THAT(result.out, HasSubstr("gemm/f32/v01_naive/128x128x128_median"));
}

TEST_F(BenchCli, ProfileLaunchesOneKernel) {
  const Result result = bench("--profile=gemm/f32/v05_tile2d/64x64x64");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("gemm/f32/v05_tile2d/64x64x64: passed"));
}

TEST_F(BenchCli, ProfileTakesPatternsAndProblems) {
  const Result result =
      bench("'--profile=^reduction/sum/f32/v0[12],gemm/f32/v01_naive' --gemm=8x8x8,9x9x9");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("reduction/sum/f32/v01_divergent/16384: passed"),
                    HasSubstr("reduction/sum/f32/v02_strided/50021: passed"),
                    HasSubstr("gemm/f32/v01_naive/8x8x8: passed"),
                    HasSubstr("gemm/f32/v01_naive/9x9x9: passed"), Not(HasSubstr("v03"))));
  EXPECT_EQ(lines(result.out), 2 * 2 + 2 + 1);
}

TEST_F(BenchCli, ProfileNamesTheProfilers) {
  const Result result = bench("--profile=gemm/f32/v05_tile2d/64x64x64", "--backend=cuda ");
  if (result.err.find("Without a GPU") != std::string::npos)
    GTEST_SKIP() << "nothing ran on a GPU: " << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string what = LADDER_BENCH " --profile='gemm/f32/v05_tile2d/64x64x64'\n";
  EXPECT_THAT(result.out, AllOf(HasSubstr("ncu --profile-from-start off --nvtx --set full " + what),
                                HasSubstr("nsys profile --trace=cuda,nvtx " + what)));
}

TEST_F(BenchCli, CountersOfTheGpuAreTheHostExecutors) {
  const Result result = bench(
      "--counters "
      "--benchmark_filter='^(transpose/f32/v0[123]|reduction/sum/f32/v0[123]|gemm/f32/v05)_' "
      "--transpose=128x128,100x130 --reduction=16384 --gemm=128x128x128",
      "--backend=cuda ");
  for (const char* lacks :
       {"Without a GPU", "NVreg_Restrict", "this build has no CUPTI", "cannot be loaded"}) {
    if (result.err.find(lacks) != std::string::npos)
      GTEST_SKIP() << "nothing ran on a GPU: " << result.err;
  }
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto fields = [](const std::string& line) {
    std::vector<std::string> all(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ',' && !quoted) {
        all.emplace_back();
      } else {
        all.back() += c;
      }
    }
    return all;
  };
  std::istringstream csv(slurp(file("results.csv")));
  std::string line;
  std::getline(csv, line);
  const std::vector<std::string> names = fields(line);
  std::size_t rows = 0;
  while (std::getline(csv, line)) {
    std::map<std::string, std::string> row;
    const std::vector<std::string> values = fields(line);
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = values.at(i);
    if (row["global_ld_requests"].empty()) continue;  // the vendor's
    ++rows;
    for (const char* counter :
         {"global_ld_requests", "global_ld_sectors", "global_st_requests", "global_st_sectors",
          "shared_ld_wavefronts", "shared_st_wavefronts"}) {
      EXPECT_EQ(row[std::string("hw_") + counter], row[counter])
          << row["family"] << ' ' << row["kernel"] << ' ' << row["problem"] << ' ' << counter;
    }
    for (const char* counter : {"hw_dram_bytes", "hw_issue_pct", "hw_warps_pct"}) {
      EXPECT_GT(std::stod("0" + row[counter]), 0) << counter;
    }
    EXPECT_EQ(row["time_us"], "");
    if (row["kernel"] == "v03_padded" && row["problem"] == "128x128") {
      // It reads one half of its bytes; the other stays in an L2 that had nothing to write back.
      EXPECT_LT(std::stod("0" + row["hw_dram_bytes"]), std::stod(row["bytes"]));
    }
  }
  EXPECT_EQ(rows, 2u * 3 + 3 + 1);
}

TEST_F(BenchCli, ProfileGoesOnAfterAFailure) {
  const Result result =
      bench("--profile=elementwise/relu/f32/v01_naive/1000000000000,gemm/f32/v01_naive/8x8x8");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("1000000000000: failed: "), HasSubstr("8x8x8: passed")));
}

#if !defined(__SANITIZE_ADDRESS__)  // whose instrumentation takes the place of the counters'

TEST_F(BenchCli, ExplainPrintsCountsAndWritesNoRows) {
  const Result result = bench("--explain --benchmark_filter='gemm/f32/v0[12]_.*/128x128x128'");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("no GPU times"), HasSubstr("\ngemm f32 128x128x128 · "),
                                HasSubstr("\n  v01 naive "), HasSubstr("\n  v02 coalesced "),
                                Not(HasSubstr("\033"))));
  EXPECT_FALSE(std::filesystem::exists(file("results.csv")));
}

TEST_F(BenchCli, WhatIsExplainedHasALimitOfTime) {
  const Result result =
      bench("--explain --gemm=32x32x200000,8x8x8 --benchmark_filter=f32/v01 --time-limit=1");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("failed: did not end within 1 s while checking"),
                                HasSubstr("gemm f32 8x8x8 · ")));
}

TEST_F(BenchCli, SimulationsOfMinutesAreAnnounced) {
  for (const char* what :
       {"", "--explain ", "--explain=json "}) {  // the memory is too small for it
    const Result result =
        bench(std::string(what) + "--benchmark_filter=relu/f32/v01 --elementwise=1000000000000");
    EXPECT_THAT(
        result.out + result.err,
        testing::ContainsRegex("Simulating this takes about [0-9]+ h [0-9]+ min on the CPU, "
                               "elementwise relu f32 at 1000000000000 the longest\\. "));
  }
}

TEST_F(BenchCli, ExplainedLinesAreTheKernels) {
  const Result result = bench("--explain=lines --benchmark_filter=gemm/f32/v01_naive/128x128x128");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\n  gemm/v01_naive.cu\n"), HasSubstr(" │ __global__"),
                                HasSubstr(" too many, the most\n")));
}

TEST_F(BenchCli, ExplainOnAGpuIsRefused) {
  const Result names = bench("--benchmark_list_tests", "--backend=cuda ");
  if (names.exit_code != 0) GTEST_SKIP() << "nothing ran on a GPU: " << names.err;
  expect_refused("--explain", "not on a GPU: add --backend=host", "");
}

TEST_F(BenchCli, ExplanationsFitIn100Columns) {
  const std::string small =
      "--dtype=f32 --gemm=100x77x30 --gemm_tensor=144x272x80 --elementwise=5000 --reduction=5000 "
      "--softmax=5x4097 --layernorm=2x1031 --rmsnorm=2x1031 --matrix_reduction=64x1031 ";
  for (const char* what : {"--explain", "--explain=lines --benchmark_filter='transpose|softmax'"}) {
    const Result result = bench(small + what);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::istringstream in(result.out);
    for (std::string line; std::getline(in, line);) {
      const auto columns =
          std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_LE(columns, 100) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
}

TEST_F(BenchCli, ExplainedJsonIsJson) {
  if (*LADDER_PYTHON == '\0') GTEST_SKIP() << "no Python";
  const std::string what =
      "--explain=json --softmax=3x1031 "
      "--benchmark_filter='transpose/.*/128x128|softmax/(backward/)?f32'";
  const Result result = bench(what);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::ofstream(file("read.py")) << R"(import json
rows = json.load(open("out.txt", encoding="utf-8"))
naive = next(r for r in rows if (r["family"], r["kernel"], r["dtype"]) == ("transpose", "v01_naive", "f32"))
store = naive["counters"]["global_store"]
assert store["units"] == 8 * store["ideal"] == 8 * 128 * 128 * 4 // 32, store
for row in rows:
    for kind, requests in (row["counters"] or {}).items():
        if kind.startswith("bulk_"):
            continue
        lines = [l for l in row["lines"] if f"{l['space']}_{l['access']}" == kind]
        for name, value in requests.items():
            assert value == sum(line[name] for line in lines), (row["kernel"], kind, name)
)";
  const std::string python = "cd '" + file("") + "' && " LADDER_PYTHON " read.py";
  EXPECT_EQ(std::system(python.c_str()), 0) << result.out;
}

TEST_F(BenchCli, TheLadderScriptShowsWhatMoved) {
  if (*LADDER_PYTHON == '\0') GTEST_SKIP() << "no Python";
  const std::string build = std::filesystem::path(LADDER_BENCH).parent_path();
  const std::string command = LADDER_PYTHON " " LADDER_SOURCE_DIR "/scripts/ladder.py --build='" +
                              build + "' transpose 2 v03 >'" + file("out.txt") + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(slurp(file("out.txt")),
              AllOf(HasSubstr("\n+++ src/kernels/transpose/v03_padded.cu\n"),
                    HasSubstr("shared loads 32-way → 1-way\n")));
}

#endif

TEST_F(BenchCli, SignalsEndASweepWithWhatItHas) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Result result = interrupted_by(signal);
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    EXPECT_EQ(lines(slurp(file("results.csv"))), 1 + 2);
    EXPECT_THAT(result.out, HasSubstr("gemm f32: All 2 versions passed their checks.\nRows: "));
    EXPECT_EQ(result.err,
              "bench: ended by signal " + std::to_string(signal) + " (" + strsignal(signal) +
                  "). 1 of 2 problems were measured; --resume=results.csv measures the rest.\n");
    EXPECT_THAT(slurp(file("out.json")),
                AllOf(HasSubstr("gemm/f32/v02_coalesced/8x8x8"), HasSubstr("not measured"),
                      testing::EndsWith("]\n}\n")));
  }
}

TEST_F(BenchCli, AnEarlySignalLeavesNoFileAndClaimsNone) {
  const pid_t process = start("--backend=host", "2048x2048x2048");
  wait_until([&] { return slurp(file("out.txt")).find("Backend host") != std::string::npos; });
  kill(-process, SIGINT);
  waitpid(process, nullptr, 0);
  EXPECT_EQ(slurp(file("err.txt")),
            "bench: ended by signal 2 (Interrupt). 0 of 1 problems were measured; results.csv was "
            "not written.\n");
  EXPECT_FALSE(std::filesystem::exists(file("results.csv")));
}

/// With a driver whose GPU is there to have its clocks locked only: kernels run on the host executor.
class LockedClocks : public BenchCli {
 protected:
  void SetUp() override {
    BenchCli::SetUp();
    const char* before = std::getenv("LD_LIBRARY_PATH");
    libraries_ = before ? before : "";
    setenv("LD_LIBRARY_PATH", (LADDER_FAKE_DRIVER ":" + libraries_).c_str(), 1);
    setenv("FAKE_DRIVER_LOG", file("driver.log").c_str(), 1);
  }
  void TearDown() override {
    setenv("LD_LIBRARY_PATH", libraries_.c_str(), 1);
    BenchCli::TearDown();
  }

  std::string log() const { return slurp(file("driver.log")); }

 private:
  std::string libraries_;
};

TEST_F(LockedClocks, AreResetAtTheEnd) {
  const std::string what = "--benchmark_filter=gemm/f32/v01 --gemm=8x8x8 ";
  EXPECT_EQ(bench(what, "").exit_code, 0);
  EXPECT_EQ(log(), "");
  const Result result = bench(what + "--lock-clocks=1410", "");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(log(), "lock 1410\nreset 0\n");
  EXPECT_EQ(bench(what + "--lock-clocks=1410 --csv=/no/such/folder/x", "").exit_code, 1);
  EXPECT_EQ(log(), "lock 1410\nreset 0\nlock 1410\nreset 0\n");
}

TEST_F(LockedClocks, AreResetWhenBenchIsEnded) {
  EXPECT_EQ(interrupted_by(SIGTERM, "--lock-clocks=1410").exit_code, 128 + SIGTERM);
  EXPECT_EQ(log(), "lock 1410\nreset 0\n");
}

TEST_F(LockedClocks, AreResetWhenBenchIsKilled) {
  EXPECT_EQ(interrupted_by(SIGKILL, "--lock-clocks=1410").exit_code, -SIGKILL);
  wait_until([&] { return lines(log()) >= 2; });
  EXPECT_EQ(log(), "lock 1410\nreset 0\n");
}

TEST_F(LockedClocks, AreRefusedInOneSentence) {
  expect_refused("--lock-clocks=1990", "--lock-clocks=1990: the GPU's highest SM clock is 1980 MHz",
                 "");
  expect_refused("--lock-clocks=1410 --device=1", "there is no GPU number 1", "");
  setenv("FAKE_DRIVER_REFUSAL", "4", 1);
  expect_refused("--lock-clocks=1410", "sudo nvidia-smi -i 00000000:3B:00.0 -lgc 1410", "");
  setenv("FAKE_DRIVER_REFUSAL", "3", 1);
  expect_refused("--lock-clocks=1410", "the driver refuses (Not Supported)", "");
  unsetenv("FAKE_DRIVER_REFUSAL");
  EXPECT_EQ(log(), "");
}

TEST_F(BenchCli, SeveralProcessesHaveTheirSamplesApart) {
  const std::string small = "--benchmark_filter=gemm/f32/v0[12] --gemm=8x8x8 --samples=s.json ";
  ASSERT_EQ(bench(small + "--processes=3").exit_code, 0);
  EXPECT_THAT(slurp(file("s.json")), HasSubstr("\"of_processes\": [1, 1, 1], \"us\": ["));
  ASSERT_EQ(bench(small + "--processes=1").exit_code, 0);
  EXPECT_THAT(slurp(file("s.json")), Not(HasSubstr("of_processes")));
}

TEST_F(BenchCli, ResumesWhatIsMissing) {
  const std::string sweep = "--benchmark_filter=gemm/f32/v0[12] --gemm=8x8x8,9x9x9,7x7x7 ";
  bench(sweep + "--seed=7");
  const std::string whole = slurp(file("results.csv"));
  ASSERT_EQ(lines(whole), 1 + 3 * 2);
  std::string head = whole;  // the last problem has one row only, and half of another
  head.resize(head.rfind('\n', head.size() - 2) + 10);
  std::ofstream(file("cut.csv")) << head;

  const Result result = bench(sweep + "--resume=cut.csv");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("2 of 3 problems are measured already"), HasSubstr("gemm f32 7x7x7"),
                    Not(HasSubstr("8x8x8 ·")), HasSubstr("Seed 7.")));
  const std::string completed = slurp(file("cut.csv"));
  EXPECT_EQ(lines(completed), 1 + 3 * 2);
  auto first_lines = [](const std::string& text) {
    std::size_t end = 0;
    for (int i = 0; i < 1 + 2 * 2; ++i) end = text.find('\n', end) + 1;
    return text.substr(0, end);
  };
  EXPECT_EQ(first_lines(completed), first_lines(whole))
      << "rows that are kept are kept as they are";
  EXPECT_EQ(slurp(file("cut.csv.1.bak")), head);

  const Result again = bench(sweep + "--resume=cut.csv");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("3 of 3 problems are measured already"));
  EXPECT_EQ(slurp(file("cut.csv")), completed);

  expect_refused(sweep + "--resume=cut.csv --seed=8",
                 "--seed=8: the rows of cut.csv have the seed 7");
  expect_refused(sweep + "--resume=cut.csv --csv=x.csv", "leave out --csv");
  expect_refused(sweep + "--resume=cut.csv --benchmark_repetitions=2", "leave out");
  expect_refused(sweep + "--resume=cut.csv --benchmark_out=x.json", "leave out");
  expect_refused(sweep + "--resume=none.csv", "No such file or directory");
  EXPECT_EQ(slurp(file("cut.csv")), completed) << "a refusal costs no results";
}

TEST_F(BenchCli, AFullDiskEndsTheSweepWithWhatItHas) {
  // The limit stands for the disk's end; it lies behind the first problem's rows.
  const Result result = run(LADDER_BENCH,
                            "--backend=host --benchmark_filter=gemm/f32/v0[12] "
                            "--gemm=8x8x8,9x9x9,7x7x7,6x6x6,5x5x5",
                            "trap '' XFSZ; ulimit -f 4;");  // units of 512 bytes
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(testing::StartsWith("bench: results.csv cannot be written: "),
                                HasSubstr("of 5 problems were measured")));
  EXPECT_THAT(result.out, HasSubstr("Rows: results.csv"));
  const std::string csv = slurp(file("results.csv"));
  EXPECT_GT(lines(csv), 1);
  EXPECT_TRUE(csv.ends_with('\n')) << "half a row is left";

  std::filesystem::create_symlink("/dev/full", file("full.csv"));
  expect_refused("--csv=full.csv --benchmark_filter=gemm/f32/v01",
                 "full.csv cannot be written: No space left on device");
}

constexpr const char* kSmall = "--benchmark_filter=gemm/f32/v0[12] --gemm=8x8x8 ";

TEST_F(BenchCli, KeepsAllEarlierFiles) {
  const std::string sweep = kSmall + std::string("--samples=s.json --benchmark_out=out.json");
  for (const char* name : {"results.csv", "s.json", "out.json"}) {
    std::ofstream(file(name)) << "precious\n";
  }
  bench(sweep);
  const auto once = files();
  bench(sweep);
  auto twice = files();
  for (const char* name : {"results.csv", "s.json", "out.json"}) {
    EXPECT_EQ(twice.at(std::string(name) + ".1.bak"), "precious\n");
    EXPECT_EQ(twice.at(std::string(name) + ".2.bak"), once.at(name));
  }
  EXPECT_EQ(twice.size(), 3 * 3) << "something else is left";
}

TEST_F(BenchCli, WhatIsRefusedLeavesEveryFileAsItWas) {
  for (const char* name : {"results.csv", "results.csv.1.bak", "s.json", "out.json"}) {
    std::ofstream(file(name)) << "precious\n";
  }
  const auto before = files();
  const std::string all = kSmall + std::string("--samples=s.json --benchmark_out=out.json ");
  for (const char* wrong :
       {"--benchmark_filter=no_such_name", "--seed=x", "--benchmark_time_unit=parsec", "--gemn=1",
        "--samples=/no/such/folder/x", "--benchmark_out=/no/such/folder/x", "--samples=results.csv",
        "--resume=results.csv", "--csv=/dev/full", "--samples=/dev/full", "--device=0x"}) {
    for (int time = 0; time < 2; ++time) {
      expect_refused(all + wrong, "");
      EXPECT_TRUE(files() == before) << wrong;
    }
  }
  // A disk that has no room for the names of the columns
  const Result full = run(LADDER_BENCH, "--backend=host " + all, "trap '' XFSZ; ulimit -f 1;");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_EQ(full.err, "bench: results.csv cannot be written: File too large\n");
  EXPECT_TRUE(files() == before);
}

TEST_F(BenchCli, AnEarlierFileStaysUntilThereIsARow) {
  std::ofstream(file("results.csv")) << "precious\n";
  const auto before = files();
  const pid_t process = start("--backend=host", "2048x2048x2048");
  wait_until([&] { return slurp(file("out.txt")).find("Backend") != std::string::npos; });
  EXPECT_EQ(slurp(file("results.csv")), "precious\n");
  kill(-process, SIGTERM);
  int status = 0;
  waitpid(process, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_THAT(slurp(file("err.txt")), HasSubstr("0 of 1 problems were measured; results.csv is as "
                                                "it was.\n"));
  EXPECT_TRUE(files() == before);
}

TEST_F(BenchCli, TwoFlagsForOneFileAreRefused) {
  std::ofstream(file("results.csv")) << "precious\n";
  std::filesystem::create_directory(file("folder"));
  std::filesystem::create_symlink("results.csv", file("link.csv"));
  std::filesystem::create_symlink("new.csv", file("link_to_new.csv"));
  std::filesystem::create_hard_link(file("results.csv"), file("hard.csv"));
  for (const char* twice :
       {"--samples=./results.csv", "--samples=folder/../results.csv", "--benchmark_out=link.csv",
        "--benchmark_out=hard.csv", "--csv=new.csv --samples=./new.csv",
        "--csv=new.csv --benchmark_out=link_to_new.csv", "--samples=s --benchmark_out=./s",
        "--csv=out.txt", "--samples=/dev/stdout", "--csv=err.txt", "--samples=.results.csv.part"}) {
    expect_refused(std::string(kSmall) + twice, "goes to this file; choose another path");
  }
  EXPECT_EQ(slurp(file("results.csv")), "precious\n");
  EXPECT_EQ(bench(kSmall + std::string("--csv=/dev/null --samples=/dev/null")).exit_code, 0);
}

TEST_F(BenchCli, ASecondSweepOnOneFileIsRefused) {
  for (const bool with_rows : {false, true}) {
    for (const char* name : {"results.csv", "out.txt"}) std::filesystem::remove(file(name));
    const pid_t process =
        start("--backend=host", with_rows ? "8x8x8,2048x2048x2048" : "2048x2048x2048");
    wait_until([&] { return slurp(file("out.txt")).find("Backend") != std::string::npos; });
    if (with_rows) wait_until([&] { return lines(slurp(file("results.csv"))) >= 1 + 2; });
    const std::string before = slurp(file("results.csv"));
    for (const char* same : {"--csv=./results.csv", "--csv=x.csv --samples=results.csv"}) {
      expect_refused(std::string(kSmall) + same, "results.csv: process " + std::to_string(process) +
                                                     " is writing it; wait for its end");
      EXPECT_EQ(slurp(file("results.csv")), before) << same;
      EXPECT_FALSE(files().contains("x.csv") || files().contains(".x.csv.part"));
    }
    kill(process, SIGKILL);  // its worker may live on for a moment
    waitpid(process, nullptr, 0);
    EXPECT_EQ(bench(kSmall).exit_code, 0);
  }
}

TEST_F(BenchCli, ClosedStreamsGetNoneOfTheFiles) {
  for (const char* closed : {"<&- >&- 2>&-", "<&- >&-", ">&-", "2>&-"}) {
    std::filesystem::remove(file("results.csv"));
    const Result result = bench_in_shell(std::string(kSmall) + closed);
    EXPECT_EQ(result.exit_code, 0) << closed;
    const std::string csv = slurp(file("results.csv"));
    EXPECT_TRUE(csv.starts_with("family,")) << closed << csv;
    EXPECT_EQ(lines(csv), 1 + 2) << closed << csv;
    EXPECT_THAT(csv, HasSubstr(",passed,"));
  }
  for (const char* prints :
       {"--list", "--help", "--benchmark_list_tests", "--benchmark_format=json",
        "--profile=gemm/f32/v01_naive/8x8x8", "--explain"}) {
    const Result result = bench_in_shell(kSmall + std::string(prints) + " >&-");
    EXPECT_EQ(result.exit_code, 1) << prints;
    EXPECT_THAT(result.err, HasSubstr("stdout, where this is to be printed, is closed")) << prints;
  }
}

TEST_F(BenchCli, WhatCannotBePrintedIsAnError) {
  for (const char* prints :
       {"", "--list", "--help", "--benchmark_list_tests", "--benchmark_format=json",
        "--benchmark_format=csv", "--profile=gemm/f32/v01_naive/8x8x8"}) {
    std::filesystem::remove(file("results.csv"));
    const Result result = bench_in_shell(kSmall + std::string(prints) + " >/dev/full");
    EXPECT_EQ(result.exit_code, 1) << prints;
    EXPECT_THAT(result.err, HasSubstr("bench: stdout cannot be written")) << prints;
    if (std::string(prints).find("format") != std::string::npos) {
      EXPECT_EQ(lines(slurp(file("results.csv"))), 1 + 2) << "rows that were measured are kept";
    } else {
      EXPECT_EQ(lines(result.err), 1) << result.err;
    }
  }
  EXPECT_EQ(bench_in_shell(kSmall + std::string(">/dev/full 2>&1")).exit_code, 1);

  const std::string piped = "cd '" + file("") + "' && { '" LADDER_BENCH "' --backend=host " +
                            std::string(kSmall) + "2>err.txt; echo $? >code.txt; } | true";
  EXPECT_EQ(std::system(piped.c_str()), 0);
  EXPECT_EQ(slurp(file("code.txt")), "1\n");
  EXPECT_THAT(slurp(file("err.txt")), HasSubstr("bench: stdout cannot be written: Broken pipe"));
}

TEST_F(BenchCli, TheEnvironmentIsReadAsFlags) {
  const std::string own = "--backend=host --gemm=8x8x8 ";
  const Result filtered = run(LADDER_BENCH, own, "BENCHMARK_FILTER=gemm/f32/v01");
  EXPECT_EQ(filtered.exit_code, 0) << filtered.err;
  EXPECT_THAT(filtered.out, AllOf(HasSubstr("v01 naive"), Not(HasSubstr("v02"))));
  EXPECT_EQ(run(LADDER_BENCH, "--backend=host " + std::string(kSmall), "BENCHMARK_FILTER=nothing")
                    .out.find("All 2 versions passed") == std::string::npos,
            false)
      << "the command line comes first";
  EXPECT_EQ(run(LADDER_BENCH, own, "BENCHMARK_FILTER=gemm/f32/v01 BENCHMARK_LIST_TESTS=1").out,
            "gemm/f32/v01_naive/8x8x8\n");
  const Result out = run(LADDER_BENCH, "--backend=host " + std::string(kSmall),
                         "BENCHMARK_OUT=out.json BENCHMARK_REPETITIONS=2");
  EXPECT_EQ(out.exit_code, 0) << out.err;
  EXPECT_EQ(lines(slurp(file("results.csv"))), 1 + 3 * 2) << "the group, and for each name again";
  EXPECT_THAT(slurp(file("out.json")), AllOf(HasSubstr("v02_coalesced/8x8x8_mean"),
                                             HasSubstr("\"executable\": \"" LADDER_BENCH "\"")));
  const auto before = files();
  const Result idle = run(LADDER_BENCH, own + " --benchmark_list_tests",
                          "BENCHMARK_REPETITIONS= BENCHMARK_MIN_TIME= BENCHMARK_NO_FLAG=x V=x");
  EXPECT_EQ(idle.exit_code, 0);
  EXPECT_EQ(idle.err, "") << "Google Benchmark reads none of them itself";
  for (const char* wrong :
       {"BENCHMARK_TIME_UNIT=foo", "BENCHMARK_CONTEXT=a=b,c", "BENCHMARK_REPETITIONS=many",
        "BENCHMARK_MIN_WARMUP_TIME=long", "BENCHMARK_FILTER=nothing", "BENCHMARK_COLOR=maybe",
        "BENCHMARK_FORMAT=xml"}) {
    const Result refused = run(LADDER_BENCH, own, wrong);
    EXPECT_EQ(refused.exit_code, 1) << wrong;
    EXPECT_EQ(lines(refused.err), 1) << refused.err;
    EXPECT_TRUE(files() == before) << wrong;
  }
}

TEST_F(BenchCli, WhatWasNotCheckedDidNotPass) {
  const std::string odd = "--dtype=f32 --softmax=3x5 ";  // v04b to v06 take rows of whole vectors
  const Result some = bench(odd + "--benchmark_filter=softmax/f32/v0[456]");
  EXPECT_EQ(some.exit_code, 0) << some.err;
  EXPECT_THAT(some.out,
              HasSubstr("softmax f32: The version passed its checks. Not checked, as unsupported: "
                        "v04b_vectors, v04c_registers, v05_vec128, v06_fast_exp.\n"));
  const Result none = bench(odd + "--benchmark_filter=softmax/f32/v0[56]");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.out, AllOf(HasSubstr("softmax f32: Not checked, as unsupported: "),
                              Not(HasSubstr("passed"))));
  EXPECT_EQ(none.err,
            "bench: nothing was checked: every version that is selected is unsupported here.\n");
  const Result partly =
      bench("--dtype=f32 --softmax=3x5,4x8 --benchmark_filter=softmax/f32/v0[56]");
  EXPECT_EQ(partly.exit_code, 0) << partly.err;
  EXPECT_THAT(partly.out,
              HasSubstr("All 2 versions passed their checks where the problem is supported.\n"));
}

TEST_F(BenchCli, RefusesBadInputInOneSentence) {
  std::ofstream(file("results.csv")) << "precious\n";
  expect_refused("--benchmark_filter=nothing_has_this_name", "here; --list shows the versions");
  expect_refused("--benchmark_filter='^softmx/f32'", "here; near it is softmax/f32; --list shows");
  expect_refused("--benchmark_filter='soft\nm\ax'", "=soft\\x0am\\x07x here; near it is softmax");
  expect_refused("--benchmark_filter='gemm('", "not a regular expression");
  expect_refused("--benchmark_filter='" + std::string(600, '(') + std::string(600, '*') + "'",
                 "more than 1000 parentheses and repetitions");
  expect_refused("--no_such_flag", "--no_such_flag is not a flag; --help lists them");
  expect_refused("--benchmark_no_such_flag=1", "--benchmark_no_such_flag=1 is not a flag");
  expect_refused("--benchmark_format=xml", "console, json, csv");
  expect_refused("--benchmark_out_format=console", "one of json, csv");
  expect_refused("--benchmark_repetitions=0", "at least 1");
  expect_refused("--benchmark_time_unit=foo", "one of ns, us, ms, s");
  for (const char* time : {"soon", "0.01m", "x", "1.5x", "s"}) {
    expect_refused(std::string("--benchmark_min_time=") + time, "is expected");
  }
  expect_refused("--csv=- --benchmark_format=json", "and --csv=- both go to stdout; name a file");
  expect_refused("--csv=- --samples=-", "both go to stdout");
  expect_refused("--benchmark_context=key", "KEY=VALUE");
  expect_refused("--benchmark_context==value", "KEY=VALUE");
  expect_refused("--benchmark_context=a=b,device=x", "device is there already");
  expect_refused("--benchmark_perf_counters=CYCLES", "leave it out");
  expect_refused("--benchmark_report_aggregates_only=maybe", "one of true, false");
  expect_refused("--benchmark_out=/no/such/folder/x", "No such file or directory; choose another");
  expect_refused("gemm", "gemm is not a flag; --benchmark_filter=gemm selects by name");
  expect_refused("--gem=8x8x8", "--gem=8x8x8 is not a flag; near it is --gemm; --help lists");
  expect_refused("--filter=gemm", "near it is --benchmark_filter;");
  expect_refused("--benchmark-filter=gemm", "near it is --benchmark_filter;");
  expect_refused("--dtype=fp32", "--dtype=fp32: one of f32, f16, ");
  expect_refused("--dtype=fp32", " is expected; near it are f32");
  expect_refused("--roofs=65536", "--roofs=65536 is not a flag");  // of which operation?
  expect_refused("--gemm=12x12", "MxNxK");
  expect_refused("--gemm=0x4x4", "nothing to compute, and so nothing to time; the least size is 1");
  expect_refused("--softmax=0x5", "nothing to compute");
  expect_refused("--reduction=0", "nothing to compute");
  expect_refused("--gemm=4x4x99999999999", "MxNxK");
  expect_refused("--elementwise=1099511627777", "[ROWSx]COLS");
  expect_refused("--gemm=", "needs a value");
  expect_refused("--elementwise=many", "[ROWSx]COLS");
  expect_refused("--dtype=f128",
                 "f32, f16, bf16, tf32, e4m3, e5m2, e2m1, f64, i4, i8, i32, i64, u8, u32, u64");
  expect_refused("--cache=warm", "cold, dirty, hot, both");
  expect_refused("--seed=x", "a whole number");
  expect_refused("--time-limit=soon", "a whole number");
  expect_refused("--time-limit=0", "at least a second");
  for (const char* other : {"--profile=gemm", "--trace=x.trace", "--asm=gemm", "--counters"}) {
    expect_refused(std::string(other) + " --time-limit=9",
                   "of a sweep and of --explain; leave it out");
  }
  expect_refused("--gemm=4x4x[4:2]", "--gemm=4x4x[4:2]: [4:2] ends before it begins");
  expect_refused("--gemm=[0:4]x4x4", "--gemm=0x4x4: there is nothing to compute");
  expect_refused("--gemm=random:0", "random:N with N from 1 to 10,000");
  expect_refused("--gemm=[1:6000]x4x4,random:6000", "more than 10,000 problems");
  for (const char* bad : {"5", "4001"}) {
    expect_refused(std::string("--min-samples=") + bad, "a whole number from 6 to 4000");
  }
  expect_refused("--min-samples=ten", "a whole number");
  for (const char* bad : {"0", "-1", "101"}) {
    expect_refused(std::string("--processes=") + bad, "a whole number from 1 to 100");
  }
  for (const char* bad : {"0", "-1", "nan", "inf", "101", "0.5%", "1e999"}) {
    expect_refused(std::string("--target=") + bad, "a percentage above 0 and at most 100");
  }
  for (const char* bad : {"0", "-1", "nan", "1e9", "soon"}) {
    expect_refused(std::string("--max-seconds=") + bad, "seconds above 0 and at most 86400");
  }
  expect_refused("--lock-clocks=0", "a clock in MHz is expected");
  expect_refused("--lock-clocks=1410", "the host executor has no GPU's clocks");
  expect_refused("--explain --lock-clocks=1410", "leave out");
  for (const char* bad : {"0", "-1", "1025"}) {
    expect_refused(std::string("--sms=") + bad, "a whole number from 1 to 1024 is expected");
  }
  expect_refused("--sms=many", "a whole number");
  expect_refused("--sms=132", "add --backend=host", "");
  expect_refused("--sms=132", "add --backend=host", "--backend=cuda ");
  expect_refused("--csv=/no/such/folder/x.csv", "No such file or directory; choose another path");
  expect_refused("--profile=gemm/f32/v99_none", "no such kernel");
  expect_refused("--profile=gem/f32/v01_nave", "no such kernel; near it are gemm/f32/v01_naive, ");
  expect_refused("--profile=softmax/f33/best", "no such kernel; near it are softmax/f32/best");
  expect_refused("--profile=softmax/f32/best/12", "ROWSxCOLS");
  expect_refused("--benchmark_filter=sofmax/bf16/best", "near it are softmax/bf16/best");
  expect_refused("--profile=,", "NAME|REGEX,… is expected");
  expect_refused("--profile=gemm/f32/v01_naive,", "NAME|REGEX,… is expected");
  expect_refused("--profile=gemm/f32/v01_naive/12", "MxNxK");
  expect_refused("'--profile=gemm('", "neither a name nor a regular expression");
  expect_refused("--explain=", "one of table (the default), lines, json");
  expect_refused("--explain=xml", "--explain=xml: one of table (the default), lines, json");
  expect_refused("--explain --csv=x.csv", "leave out --csv");
  expect_refused("--explain --benchmark_format=json", "leave out");
  expect_refused("--counters", "the host executor (asked for); --explain prints its counts");
  expect_refused("--counters --explain", "leave out --explain");
  expect_refused("--counters --profile=gemm/f32/v01_naive/8x8x8", "leave out");
  expect_refused("--counters --resume=x.csv", "leave out");
  expect_refused("--counters --benchmark_format=json", "leave out");
  expect_refused("--asm=,", "NAME|REGEX,… is expected");
  expect_refused("--asm=gemm --asm-form=xml", "one of lines, ptx, sass, all, json is expected");
  expect_refused("--asm-form=sass", "add --asm=NAME");
  expect_refused("--asm=gemm --csv=x.csv", "leave out --csv");
  expect_refused("--asm=gemm --explain", "leave out");
  expect_refused("--backend=tpu", "auto, cuda, host", "");
  expect_refused("--device=99", "--device=99: ", "");
  EXPECT_EQ(slurp(file("results.csv")), "precious\n") << "a refusal costs no results";
}

TEST_F(BenchCli, ShowsWhatTheCompilerMade) {
  const std::string asked = "--asm=gemm/f32/v01_naive";
  const Result result = bench(asked);
  if (result.err.find("holds PTX alone") != std::string::npos) GTEST_SKIP() << "there is no ptxas";
  if (result.exit_code != 0) {
    expect_refused(asked, "this build has no code for GPUs; build with nvcc");
    return;
  }
  const Result library = bench("--asm=transpose/f32/v00_cublas");
  EXPECT_EQ(library.exit_code, 1);
  EXPECT_THAT(library.err, HasSubstr("calls the vendor's library"));
  expect_refused("--asm=gemm_tensor/nt/f16/v01_wmma", "Use --backend=cuda on a machine with a GPU");
  for (const char* part : {"naive(gemm::Args<float>)", " per thread", "blocks of 1024 threads"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(bench(asked + " --asm-form=json").out, testing::StartsWith("[\n  {\"version\""));
  if (result.out.find("nvdisasm, which") != std::string::npos) return;
  EXPECT_THAT(result.out, HasSubstr("loop 1   v01_naive.cu:"));
  EXPECT_THAT(result.out, HasSubstr("FFMA"));
}

TEST_F(BenchCli, CudaWithoutAGpuIsRefused) {
  if (bench("--benchmark_list_tests", "--backend=cuda ").exit_code == 0)
    GTEST_SKIP() << "there is a GPU";
  expect_refused("", "Without a GPU: --backend=host", "--backend=cuda ");
  const Result automatic = bench("--benchmark_filter=gemm/f32/v01", "");
  EXPECT_EQ(automatic.exit_code, 0);
  EXPECT_THAT(automatic.out, HasSubstr("Backend host (no GPU: "));
}

TEST_F(BenchCli, AProblemTooBigForTheMemoryFailsAndTheOthersRun) {
  const Result result = bench("--elementwise=1000000000000,64 --benchmark_filter=relu/f32/v01");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("GB are free"),
                    testing::ContainsRegex(
                        "\n  v01 naive +(2 .* 0|passed, largest error 0; not counted)\n")));
  EXPECT_THAT(slurp(file("results.csv")), AllOf(HasSubstr(",failed,"), HasSubstr(",passed,")));
}

}  // namespace
