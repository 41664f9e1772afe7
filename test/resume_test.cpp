// What --resume keeps of an earlier CSV, and what it refuses.
#include "report/resume.hpp"
#include "report/csv.hpp"
#include "report/provenance.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace ladder {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ParseCsv, ReadsWhatCsvFieldWrites) {
  const std::vector<std::string> fields{"plain", "a,b", "say \"so\"", "two\nlines", ""};
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + csv_field(field);
  line += '\n';
  const auto records = parse_csv("x,y\n" + line + "cut o");
  ASSERT_THAT(records, SizeIs(2)) << "a line without an end was cut off";
  EXPECT_THAT(records[0].fields, ElementsAre("x", "y"));
  EXPECT_EQ(records[1].fields, fields);
  EXPECT_EQ(records[1].text, line);
}

TEST(ParseCsv, WhatSpreadsheetsLeaveDoesNotCount) {
  const auto records = parse_csv("\xEF\xBB\xBFx,y\n\n1,2\n,\n\n");
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_THAT(records[0].fields, ElementsAre("x", "y"));
  EXPECT_THAT(records[1].fields, ElementsAre("1", "2"));
}

class Resume : public testing::Test {
 protected:
  Resume() {
    for (const char* file : {"v01_naive.cu", "v02_better.cu"}) {
      kernels_.push_back(
          {"gemm", "", DType::f32, {"idea, or so"}, file, Backend::cuda, nullptr, nullptr});
    }
    machine_.backend = Backend::cuda;
    machine_.info.name = "a GPU";
    machine_.info.compute_capability = 90;
    machine_.info.toolkit = "13.0";
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".1.bak");
  }

  Group group(const char* problem, Cache cache = Cache::cold) const {
    const Family& family = family_of(kernels_[0]);
    return {&family, DType::f32, family.problem(problem), cache, {&kernels_[0], &kernels_[1]}, {}};
  }
  Row row(const Group& group, std::size_t kernel, Verdict verdict = Verdict::passed) const {
    Row row = unmeasured_row(group, kernels_[kernel]);
    row.check.verdict = verdict;
    return row;
  }
  void write(const std::vector<Row>& rows, std::uint64_t seed = 7) {
    ResultFile file({"--csv", path_});
    Csv csv(file, machine_.info, seed);
    for (const Row& row : rows) csv.write(row);
    file.place();
  }
  /// Puts another text into a column of the last row.
  void rewrite(std::string_view column, const std::string& text) {
    std::vector<std::string> rows = EarlierRows(path_).without({});
    std::vector<std::string> fields = parse_csv(rows.back()).front().fields;
    fields.at(std::ranges::find(csv_columns(), column) - csv_columns().begin()) = text;
    for (std::string& field : fields) field = csv_field(field);
    rows.back() = fmt::format("{}\n", fmt::join(fields, ","));
    ResultFile file({"--csv", path_});
    const Csv csv(file, machine_.info, 7, rows);
    file.place();
  }
  std::string refusal(auto action) {
    try {
      action();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  }

  std::vector<Kernel> kernels_;
  Machine machine_;
  std::string path_ =  // one for each test: they run at once
      testing::TempDir() + "ladder_resume_test_" +
      testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";
};

TEST_F(Resume, KeepsGroupsThatHaveAllTheirRows) {
  const Group whole = group("1x1x1"), half = group("2x2x2"), wrong = group("3x3x3"),
              hot = group("1x1x1", Cache::hot), picky = group("4x4x4"), mixed = group("5x5x5");
  using enum Verdict;
  write({row(whole, 0), row(whole, 1), row(half, 0), row(wrong, 0), row(wrong, 1, failed),
         row(picky, 0), row(picky, 1, unsupported), row(mixed, 0), row(mixed, 1),
         row(mixed, 0, failed)});
  const EarlierRows earlier(path_);
  EXPECT_EQ(earlier.seed(), 7u);
  EXPECT_NO_THROW(earlier.expect_same(machine_, 1));
  EXPECT_TRUE(earlier.complete(whole));
  EXPECT_TRUE(earlier.complete(picky));
  EXPECT_FALSE(earlier.complete(half));
  EXPECT_FALSE(earlier.complete(wrong));
  EXPECT_FALSE(earlier.complete(hot));
  EXPECT_FALSE(earlier.complete(mixed)) << "a failed row beside a passed one of the same kernel";
  const auto kept = earlier.without({half, wrong, hot, mixed});
  EXPECT_THAT(kept, ElementsAre(HasSubstr("1x1x1"), HasSubstr("1x1x1"), HasSubstr("4x4x4"),
                                HasSubstr("4x4x4")));

  {
    ResultFile file({"--resume", path_});
    const Csv again(file, machine_.info, 7, kept);
    file.place();
  }
  EXPECT_TRUE(EarlierRows(path_).complete(whole)) << "kept as it was";
}

TEST_F(Resume, MeasuresRowsOfOtherCodeAnew) {
  const Group one = group("1x1x1");
  write({row(one, 0), row(one, 1)});
  EXPECT_TRUE(EarlierRows(path_).complete(one));
  rewrite("code", "0123456789abcdef");
  EXPECT_FALSE(EarlierRows(path_).complete(one));
}

TEST_F(Resume, OfNoRowsKeepsNone) {
  write({});
  const EarlierRows earlier(path_);
  EXPECT_EQ(earlier.seed(), std::nullopt);
  EXPECT_FALSE(earlier.complete(group("1x1x1")));
  EXPECT_THAT(earlier.without({}), IsEmpty());
}

TEST_F(Resume, RefusesWhatWasMeasuredElsewhere) {
  write({row(group("1x1x1"), 0)});
  auto refusal_of = [&](auto change) {
    Machine other = machine_;
    change(other);
    return refusal([&] { EarlierRows(path_).expect_same(other, 1); });
  };
  EXPECT_EQ(refusal_of([](Machine& m) { m.info.name = "another GPU"; }),
            "--resume=" + path_ +
                ": it has rows whose device is 'a GPU', here it is 'another GPU'; measure anew.");
  EXPECT_THAT(refusal_of([](Machine& m) { m.info.toolkit = "12.0"; }), HasSubstr("toolkit"));
  EXPECT_THAT(refusal_of([](Machine& m) { m.info.sm_count = 2; }), HasSubstr("sms"));
  EXPECT_THAT(refusal_of([](Machine& m) { m.backend = Backend::host; }), HasSubstr("backend"));
  EXPECT_EQ(refusal_of([](Machine&) {}), "none");

  for (const auto& [column, there, here] :
       {std::tuple{"build", kBuild, "Debug"}, std::tuple{"flags", kFlags, "-funroll-loops"}}) {
    write({row(group("1x1x1"), 0)});
    rewrite(column, here);
    EXPECT_THAT(refusal_of([](Machine&) {}),
                HasSubstr(fmt::format("{} is '{}', here it is '{}'", column, here, there)));
  }
  write({row(group("1x1x1"), 0)});

  std::string later = EarlierRows(path_).without({}).front();
  std::ofstream(path_, std::ios::app) << later.replace(later.find(",7,"), 3, ",8,");
  EXPECT_THAT(refusal([&] { (void)EarlierRows(path_).seed(); }), HasSubstr("different seeds"));
}

TEST_F(Resume, RefusesAnotherNumberOfProcesses) {
  Row timed = row(group("1x1x1"), 0);
  timed.samples.us = {1, 2};
  timed.of_processes = {1, 1};
  write({timed, row(group("1x1x1"), 1, Verdict::unsupported)});
  EXPECT_NO_THROW(EarlierRows(path_).expect_same(machine_, 2));
  EXPECT_EQ(refusal([&] { EarlierRows(path_).expect_same(machine_, 1); }),
            "--resume=" + path_ + ": its rows are of --processes=2; add that.");
}

TEST_F(Resume, RefusesOtherFiles) {
  EXPECT_THAT(refusal([&] { EarlierRows("/no/such/file.csv"); }),
              HasSubstr("No such file or directory"));
  std::ofstream(path_) << "a,b\n1,2\n";
  EXPECT_THAT(refusal([&] { EarlierRows rows(path_); }), HasSubstr("does not have the columns"));
  write({});
  std::ofstream(path_, std::ios::app) << "a,row,of,another,table\n";
  EXPECT_THAT(refusal([&] { EarlierRows rows(path_); }), HasSubstr("line 2"));
}

}  // namespace
}  // namespace ladder
