#include "report.hpp"

#include "options.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
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

TEST(Csv, WritesEachRowAtOnceAndKeepsTheOldFile) {
  const std::string path = testing::TempDir() + "ladder_report_test.csv";
  std::ofstream(path) << "earlier results\n";
  const Kernel kernel{
      "gemm",        "",      DType::f32, {"an idea, with a comma"}, "v05_tile2d.cu",
      Backend::cuda, nullptr, nullptr};
  Row row;
  row.kernel = &kernel;
  row.problem = "8x8x8";
  row.cost = {1000, 300, 200};
  row.samples.us = {1, 2, 3};
  Csv csv(path, {}, 42);
  csv.write(row);
  const std::string text = slurp(path);  // while it is still open
  EXPECT_THAT(text,
              testing::HasSubstr("gemm,,v05_tile2d,\"an idea, with a comma\",f32,8x8x8,cuda"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(slurp(path + ".bak"), "earlier results\n");
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".bak");
}

TEST(Csv, RefusesPathsThatCannotBeWritten) {
  EXPECT_THROW(Csv("/no/such/folder/x.csv", {}, 1), UsageError);
  EXPECT_THROW(Csv(testing::TempDir(), {}, 1), UsageError);
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
