#include "report/csv.hpp"
#include "report/samples_json.hpp"

#include "cli/options.hpp"
#include "harness/host/api.hpp"

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace ladder {
namespace {

std::string slurp(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(Csv, QuotesWhatMustBeQuoted) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"so\""), "\"say \"\"so\"\"\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
}

TEST(Csv, WritesEachRowAtOnceAndKeepsTheOldFiles) {
  const std::string path = testing::TempDir() + "ladder_report_test.csv";
  std::ofstream(path) << "earlier results\n";
  std::ofstream(path + ".1.bak") << "still earlier\n";
  Row row;
  row.family = "gemm";
  row.label = "v05_tile2d";
  row.idea = "an idea, with a comma";
  row.problem = "8x8x8";
  row.values = "M=8 N=8 K=8";
  row.cost = {1000, 300, 200};
  row.samples.us = {1, 2, 3};
  ResultFile file({"--csv", path});
  Csv csv(file, {}, 42);
  EXPECT_EQ(slurp(path), "earlier results\n") << "there is no row yet";
  csv.write(row);
  const std::string text = slurp(path);  // while it is still open
  EXPECT_THAT(text, testing::HasSubstr(
                        "gemm,,v05_tile2d,\"an idea, with a comma\",f32,8x8x8,M=8 N=8 K=8,,cuda"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(slurp(path + ".1.bak"), "still earlier\n");
  EXPECT_EQ(slurp(path + ".2.bak"), "earlier results\n");
  for (const char* end : {"", ".1.bak", ".2.bak"}) std::filesystem::remove(path + end);
}

TEST(Csv, NamesTheLaunchesOfAVersionWithSeveral) {
  Row row;
  const auto cell = [&](const char* column) {
    const auto cells = csv_cells(row, {}, 0);
    return std::ranges::find(cells, std::string_view(column),
                             [](const auto& one) { return std::string_view(one.first); })
        ->second;
  };
  EXPECT_EQ(cell("grid"), "");
  row.launches = {{.launch = {&row, {2, 3, 1}, {64, 2, 1}, 0}, .registers = 40}};
  EXPECT_EQ(cell("grid"), "2x3x1");
  EXPECT_EQ(cell("registers"), "40");
  EXPECT_EQ(cell("launches"), "");
  row.launches.push_back({.launch = {&row, {1, 1, 1}, {32, 1, 1}, 0}, .registers = 24});
  EXPECT_EQ(cell("grid"), "2x3x1") << "of the largest";
  EXPECT_EQ(cell("launches"), "2x3x1 of 64x2x1, 40 registers; 1x1x1 of 32x1x1, 24 registers");
}

TEST(Csv, TellsHowFarProcessesAreApart) {
  Row row;
  row.samples.us = {9, 9, 10, 10, 11};
  const auto cells = [&] {
    const auto all = csv_cells(row, {}, 0);
    return std::map<std::string, std::string>(all.begin(), all.end());
  };
  EXPECT_EQ(cells()["processes"], "1");
  EXPECT_EQ(cells()["between_pct"], "");
  EXPECT_EQ(cells()["time_us"], "9.66667");
  row.of_processes = {2, 2, 1};
  EXPECT_EQ(cells()["processes"], "3");
  EXPECT_EQ(cells()["between_pct"], "10");
  EXPECT_EQ(cells()["time_us"], "10") << "each process counts alike";
  EXPECT_EQ(cells()["samples"], "5");
}

TEST(Csv, TellsJoulesAtThePowerLimitOnly) {
  Row row;
  row.samples.us = {1000, 1000};
  row.launch_us = 4;
  row.sm_mhz = 1700;
  row.power_w = 700;
  const auto cells = [&] {
    const auto all = csv_cells(row, {}, 0);
    return std::map<std::string, std::string>(all.begin(), all.end());
  };
  EXPECT_EQ(cells()["joules"], "");
  EXPECT_EQ(cells()["short"], "no");
  row.samples.settled = row.is_short = true;
  EXPECT_EQ(cells()["joules"], "0.7");
  EXPECT_EQ(cells()["short"], "yes");
  EXPECT_EQ(cells()["sm_mhz"], "1700");
  row.launch_us = 0;
  EXPECT_EQ(cells()["launch_us"], "");
  EXPECT_EQ(cells()["short"], "");
}

TEST(Csv, TellsTheCodeOfAVersion) {
  const auto code_in_row = [](const Kernel* kernel) {
    Row row;
    row.kernel = kernel;
    for (const auto& [column, text] : csv_cells(row, {}, 0)) {
      if (column == std::string_view("code")) return text;
    }
    return std::string("no column");
  };
  for (const Kernel& kernel : ladder_host_api()->kernels()) {
    EXPECT_THAT(code_in_row(&kernel), testing::MatchesRegex("[0-9a-f]{16}")) << kernel.file;
  }
  const Kernel elsewhere{"gemm", "", DType::f32, {}, "a/v01_of_a_test.cu", {}, {}, {}};
  EXPECT_EQ(code_in_row(&elsewhere), "");
  EXPECT_EQ(code_in_row(nullptr), "");
}

TEST(Csv, ADiskThatIsFullKeepsWholeRows) {
  const std::string path = testing::TempDir() + "ladder_report_test_full.csv";
  ResultFile file({"--csv", path});
  file.append("first\n]\n");
  file.place();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 12;  // bytes: what a full disk would leave
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(file.append("second\n"), std::runtime_error);
  EXPECT_THROW(file.append("third and more\n]\n", 3), std::runtime_error);
  EXPECT_EQ(slurp(path), "first\n]\n");
  setrlimit(RLIMIT_FSIZE, &before);
  file.append(",\nfourth\n]\n", 3);
  EXPECT_EQ(slurp(path), "first,\nfourth\n]\n");
  std::filesystem::remove(path);
}

TEST(Csv, ADeviceIsNotRenamed) {
  const std::string path = testing::TempDir() + "ladder_report_test_device.csv";
  std::filesystem::create_symlink("/dev/full", path);  // so that a mistake does no harm
  ResultFile file({"--csv", path});
  EXPECT_THROW(Csv(file, {}, 1), std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".1.bak"));
  std::filesystem::remove(path);
}

TEST(Csv, RefusesPathsThatCannotBeWritten) {
  EXPECT_THROW(ResultFile({"--csv", "/no/such/folder/x.csv"}), UsageError);
  EXPECT_THROW(ResultFile({"--csv", testing::TempDir()}), UsageError);
}

TEST(Csv, EveryColumnIsDocumented) {
  const std::string page = slurp(LADDER_SOURCE_DIR "/docs/columns.md");
  for (const std::string& column : csv_columns()) {
    EXPECT_THAT(page, testing::HasSubstr("`" + column + "`"));
  }
}

TEST(Csv, ColumnsAreUnique) {
  const std::set<std::string> names(csv_columns().begin(), csv_columns().end());
  EXPECT_EQ(names.size(), csv_columns().size());
}

}  // namespace
}  // namespace ladder
