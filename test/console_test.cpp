// What ./bench prints of rows measured on a GPU, in a pipe and on a terminal, and how far it has come.
#include "report/console.hpp"
#include "report/progress.hpp"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace ladder {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFiles[] = {"v00_cublas.gpu.cu", "v01_naive.cu", "v02_fast.cu", "v03_odd.cu"};

struct Example {
  std::vector<Kernel> kernels;
  Group group{};
  std::vector<Row> rows;

  Example() {
    for (const char* file : kFiles) {
      kernels.push_back({"gemm",
                         "",
                         DType::f32,
                         {"idea", kernels.empty()},
                         file,
                         Backend::cuda,
                         nullptr,
                         nullptr});
    }
    const Family& family = family_of(kernels[0]);
    group = {&family, DType::f32, family.problem("4096x4096x4096"), Cache::cold, {}, {}};
    for (const Kernel& kernel : kernels) group.kernels.push_back(&kernel);
    const double us[] = {2000, 50000, 1900};
    for (std::size_t i = 0; i < 3; ++i) {
      Row& row = rows.emplace_back(unmeasured_row(group, kernels[i]));
      row.samples.us = {us[i]};
      row.roof = "fma f32";
      row.roof_us = 1800;
      row.library = "v00_cublas";
      row.vs_library = Estimate{2000 / us[i], 2000 / us[i] - 0.01, 2000 / us[i] + 0.01};
      row.aa = Estimate{1.0002, 0.9992, 1.0013};
      row.fastest = i == 2;
    }
    rows.push_back(unmeasured_row(group, kernels[3]));
    rows.back().check = {.verdict = Verdict::failed, .reason = "an illegal memory access"};
  }
};

/// A terminal, and the file that a program would print to.
struct Terminal {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  std::FILE* file = nullptr;

  Terminal() {
    grantpt(master);
    unlockpt(master);
    if (const char* const name = ptsname(master)) file = std::fopen(name, "w");
  }
  ~Terminal() {
    if (file) std::fclose(file);
    close(master);
  }
  bool is_there() const { return file; }
  void has_columns(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(master, TIOCSWINSZ, &size);
  }
  /// What was printed since the last call. A terminal hands it over in its own time, so that an end
  /// mark is needed.
  std::string text() const {
    constexpr char kEnd = '\a';
    std::fputc(kEnd, file);
    std::fflush(file);
    std::string all;
    for (char c; read(master, &c, 1) == 1 && c != kEnd;) all += c;
    return all;
  }
};

std::string in_a_pipe(const Example& example) {
  std::FILE* const file = std::tmpfile();
  Console console(file, Backend::cuda);
  console.table(example.group, example.rows);
  console.summary("results.csv");
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Console, SuspectVersionsAreNamed) {
  Example example;
  EXPECT_THAT(in_a_pipe(example), Not(HasSubstr("Suspect")));
  example.rows[1].samples.us = {1700};
  EXPECT_THAT(in_a_pipe(example),
              HasSubstr("1 of 4 did not pass: v03_odd failed. Suspect, as above the roof: " +
                        label(example.kernels[1]) + ".\n"));
}

TEST(Console, ATableHasTimesSharesAndRatiosInColumns) {
  const std::string text = in_a_pipe(Example());
  EXPECT_THAT(text, HasSubstr("\ngemm f32 4096x4096x4096 · cold L2 · "));
  EXPECT_THAT(text, HasSubstr(" · 1 rounds, resolution 0.13 %\n"));
  EXPECT_THAT(text, HasSubstr("  v00 cublas              2.000 ms    68.7 TFLOP/s  "
                              "██████████████████░░  90 %  1.000 ± 0.010\n"));
  EXPECT_THAT(text, HasSubstr("  █░░░░░░░░░░░░░░░░░░░   4 %  0.040 ± 0.010\n"));
  EXPECT_THAT(text, HasSubstr("  v03 odd              failed: an illegal memory access\n"));
  EXPECT_THAT(text, HasSubstr("gemm f32: v02 fast is the fastest at 4096x4096x4096, 72.3 TFLOP/s, "
                              "1.05x cublas, 95 % of the fma f32 roof. 1 of 4 did not pass: "
                              "v03_odd failed.\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  std::size_t versus = 0, ratio = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.find("fastest") != std::string::npos) continue;
    EXPECT_LE(width_of(line), 100) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    if (line.ends_with("vs cublas")) versus = width_of(line);
    if (line.find("±") != std::string::npos) ratio = width_of(line);
  }
  EXPECT_EQ(versus, ratio) << "the heading is not above its column";
}

TEST(Console, TheLibraryIsNamedWithoutItsNumber) {
  Example example;
  for (Row& row : example.rows) row.library = "v00b_cublaslt";
  EXPECT_THAT(in_a_pipe(example),
              AllOf(HasSubstr(" vs cublaslt\n"), HasSubstr(", 1.05x cublaslt, 95 % of the ")));
}

TEST(Console, VersionsThatAreNotToldApartAreTied) {
  Example example;
  example.rows[1].fastest = true;
  EXPECT_THAT(in_a_pipe(example),
              HasSubstr("gemm f32: v01 naive is the fastest (tied with v02) at 4096x4096x4096, "));
  for (Row& row : example.rows) row.samples.settled = true;
  EXPECT_THAT(in_a_pipe(example), HasSubstr(" resolution 0.13 %, at the power limit\n"));
  for (Row& row : example.rows) {
    if (!row.timed()) continue;
    row.samples.us.assign(3, row.us());
    row.of_processes = {1, 1, 1};
  }
  EXPECT_THAT(in_a_pipe(example), Not(HasSubstr("empty launches")));
  for (Row& row : example.rows) row.is_short = true;
  EXPECT_THAT(in_a_pipe(example), HasSubstr(", less than three empty launches\n"));
  EXPECT_THAT(in_a_pipe(example), HasSubstr(" · 3 rounds in 3 processes, resolution 0.13 %"));
}

TEST(Console, ARoofIsToldInItsOwnUnit) {
  const auto text = [](const char* op, DType dtype, const char* problem) {
    Example example;
    const Kernel kernel{"roofs",       op,      dtype,  {"idea"}, "v01_roof.cu",
                        Backend::cuda, nullptr, nullptr};
    const Family& family = family_of(kernel);
    example.group = {&family, dtype, family.problem(problem), Cache::cold, {}, {}};
    example.rows = {unmeasured_row(example.group, kernel)};
    example.rows[0].samples.us = {1000};
    return in_a_pipe(example);
  };
  EXPECT_THAT(text("shared_atomics", DType::i32, "1056x1024"), HasSubstr(", 277 Gatomic/s. "));
  EXPECT_THAT(text("gather", DType::f32, "1073741824x16777216"), HasSubstr(", 16.8 Gload/s. "));
  EXPECT_THAT(text("dram", DType::f32, "2147483648x0"), HasSubstr(", 2.15 TB/s. "));
  EXPECT_THAT(text("fma", DType::f16, "16896x1024"), HasSubstr(", 142 TFLOP/s. "));
  EXPECT_THAT(text("latency_l2", DType::f32, "4194304x16384"), HasSubstr(", 61.0 ns/load. "));
  EXPECT_THAT(text("launch", DType::f32, "1"), Not(HasSubstr("/s")));
}

constexpr const char* kNoTerminal = "no pseudo-terminal can be had here";

TEST(Console, ATableFitsItsTerminal) {
  const Example example;
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << kNoTerminal;
  setenv("NO_COLOR", "1", 1);
  for (const unsigned short columns : {80, 100}) {
    terminal.has_columns(columns);
    Console(terminal.file, Backend::cuda).table(example.group, example.rows);
    std::string text = terminal.text();
    std::erase(text, '\r');
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) EXPECT_LE(width_of(line), columns) << line;
    EXPECT_THAT(text, AllOf(HasSubstr(" 90 %  1.000 ± 0.010\n"), HasSubstr("resolution 0.13 %"),
                            HasSubstr("roof: fma f32 76.4 TFLOP/s"), HasSubstr("vs cublas\n")));
    EXPECT_EQ(text.find("█") != std::string::npos, columns == 100);
  }
  unsetenv("NO_COLOR");
}

TEST(Console, ADumbTerminalGetsNoEscapes) {
  const Example example;
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << kNoTerminal;
  const char* const kind = std::getenv("TERM");
  const std::string before = kind ? kind : "";
  setenv("TERM", "dumb", 1);
  Console(terminal.file, Backend::cuda).table(example.group, example.rows);
  Progress(terminal.file, 40).show(example.group, {.doing = "timing"});
  EXPECT_THAT(terminal.text(), AllOf(HasSubstr("v02 fast"), Not(HasSubstr("\033"))));
  kind ? setenv("TERM", before.c_str(), 1) : unsetenv("TERM");
}

TEST(Console, ATerminalHasColours) {
  const Example example;
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << kNoTerminal;
  unsetenv("NO_COLOR");
  Console(terminal.file, Backend::cuda).table(example.group, example.rows);
  EXPECT_THAT(terminal.text(),
              AllOf(HasSubstr("\033[32mv02 fast"), HasSubstr("\033[1;31m  v03 odd"),
                    Not(HasSubstr("\033[32mv00"))));

  setenv("NO_COLOR", "1", 1);
  Console(terminal.file, Backend::cuda).table(example.group, example.rows);
  EXPECT_THAT(terminal.text(), AllOf(HasSubstr("v02 fast"), Not(HasSubstr("\033"))));
  unsetenv("NO_COLOR");
}

TEST(Progress, ASimulationOfMinutesIsAnnounced) {
  Example example;
  const Family& family = *example.group.family;
  const auto of = [&](const char* problem) {
    Group group = example.group;
    group.problem = family.problem(problem);
    return group;
  };
  EXPECT_EQ(long_simulation(std::vector{of("128x128x128"), of("8x8x8")}, 1), "");
  EXPECT_THAT(
      long_simulation(std::vector{of("8x8x8"), of("4096x4096x4096")}, 2),
      testing::StartsWith(
          "Simulating this takes about 6 h 53 min on the CPU, gemm f32 at 4096x4096x4096 the "
          "longest. A smaller problem takes seconds; --time-limit=SECONDS "));
  const std::vector<Group> many(60, of("256x256x256"));
  EXPECT_NE(long_simulation(many, 1), "");
  EXPECT_EQ(long_simulation(many, 8), "");
}

TEST(Progress, TellsWhatIsDoneAndHowLongItTakes) {
  const Example example;
  Progress progress(stderr, 40);
  const Step step{.doing = "checking", .kernel = &example.kernels[1], .kernels = 1};
  EXPECT_EQ(progress.text(example.group, step, 3),
            "[0/40] gemm f32 4096x4096x4096 · checking v01 naive");
  progress.advance(4);
  EXPECT_EQ(progress.text(example.group, {.doing = "timing"}, 20),
            "[4/40] gemm f32 4096x4096x4096 · timing · about 3 min left");
}

TEST(Progress, IsOneLineOfATerminalAndGoesAway) {
  const Example example;
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << kNoTerminal;
  Progress progress(terminal.file, 40);
  progress.show(example.group, {.doing = "timing"});
  progress.show(example.group, {.doing = "checking again"});
  EXPECT_THAT(terminal.text(), AllOf(HasSubstr("· checking again"), Not(HasSubstr("\n"))));
  progress.clear();
  EXPECT_EQ(terminal.text(), "\r\033[K");
}

TEST(Progress, SaysNothingInAPipe) {
  const Example example;
  std::FILE* const file = std::tmpfile();
  Progress progress(file, 40);
  progress.show(example.group, {.doing = "timing"});
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

TEST(Progress, DurationsAreRough) {
  EXPECT_EQ(rough_duration(0.2), "1 s");
  EXPECT_EQ(rough_duration(59), "59 s");
  EXPECT_EQ(rough_duration(59.9), "1 min");
  EXPECT_EQ(rough_duration(150), "3 min");
  EXPECT_EQ(rough_duration(7500), "2 h 05 min");
}

}  // namespace
}  // namespace ladder
