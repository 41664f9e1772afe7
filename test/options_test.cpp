// What the flags of ./bench ask for. How wrong ones are refused: bench_cli_test.cpp.
#include "cli/options.hpp"

#include <gtest/gtest.h>

namespace ladder {
namespace {

Options parse(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "bench");
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

TEST(Options, AStoppingRuleOfTheUsersOwn) {
  const Options options = parse({"--min-samples=20", "--target=0.25", "--max-seconds=3.5"});
  EXPECT_EQ(options.sampling.min_samples, 20);
  EXPECT_DOUBLE_EQ(options.sampling.target, 0.0025);
  EXPECT_EQ(options.sampling.max_seconds, 3.5);
  EXPECT_EQ(parse({}).sampling.min_samples, Sampling{}.min_samples);
}

TEST(Options, OneProcessMeasuresUnlessMoreAreAskedFor) {
  EXPECT_EQ(parse({}).processes, 1);
  EXPECT_EQ(parse({"--processes=3"}).processes, 3);
}

TEST(Options, RandomProblemsAreDrawnOnceAndByTheSeedAtThatTime) {
  Options options = parse({"--gemm=random:3,8x8x8", "--seed=5"});
  EXPECT_EQ(options.problems.at("gemm"), std::vector<std::string>{"8x8x8"});
  options.draw_problems(Backend::host);
  const auto drawn = options.problems.at("gemm");
  EXPECT_EQ(drawn.size(), 4);
  options.draw_problems(Backend::host);
  EXPECT_EQ(options.problems.at("gemm"), drawn);

  Options again = parse({"--seed=5", "--gemm=random:3,8x8x8"});
  again.seed = 6;  // as --resume does
  again.draw_problems(Backend::host);
  EXPECT_NE(again.problems.at("gemm"), drawn);
}

TEST(Options, AssemblyInAForm) {
  const Options options = parse({"--asm=gemm/f32/v05_tile2d,transpose", "--asm-form=sass"});
  EXPECT_EQ(options.assembly, (std::vector<std::string>{"gemm/f32/v05_tile2d", "transpose"}));
  EXPECT_EQ(options.asm_form, AsmForm::sass);
  EXPECT_EQ(parse({"--asm=gemm"}).asm_form, AsmForm::lines);
}

}  // namespace
}  // namespace ladder
