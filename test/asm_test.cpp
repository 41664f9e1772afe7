// What --asm makes of the outputs of nvdisasm and nvcc, and of resources.
#include "asm/asm.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <sstream>

namespace ladder {
namespace {

using testing::HasSubstr;
using testing::Not;

// As nvdisasm prints it: a loop within a loop, one that waits out of line, and the branch to itself
// that follows every kernel.
constexpr char kSass[] = R"(	.target	sm_90
.text.other:
        /*0000*/                   EXIT ;
//--------------------- .text.kernel --------------------------
	.section	.text.kernel,"ax",@progbits
.text.kernel:
	//## File "/a/src/kernels/gemm/v01_x.cu", line 10
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 EXIT ;
.L_x_0:
	//## File "/a/src/device/vector.hpp", line 7 inlined at "/a/src/kernels/gemm/v01_x.cu", line 12
	//## File "/a/src/kernels/gemm/v01_x.cu", line 12
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_1:
	//## File "/a/src/kernels/gemm/v01_x.cu", line 14
        /*0030*/                   FFMA R4, R5, R6, R4 ;
        /*0040*/                   UIADD3 UR4, UR4, 0x1, URZ ;
        /*0050*/              @!P1 BRA `(.L_x_1) ;
        /*0060*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3 ;
        /*0070*/              @!P0 BRA `(.L_x_4) ;
.L_x_2:
	//## File "/a/src/kernels/gemm/v01_x.cu", line 11
        /*0080*/                   HFMA2.MMA R106, -RZ, RZ, 0, 0 ;
        /*0090*/              @!P2 BRA `(.L_x_0) ;
        /*00a0*/                   STL [R1], R4 ;
        /*00b0*/                   EXIT ;
.L_x_4:
	//## File "/a/src/kernels/gemm/v01_x.cu", line 20
        /*00c0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3 ;
        /*00d0*/              @!P0 BRA `(.L_x_4) ;
        /*00e0*/                   BRA `(.L_x_2) ;
.L_x_3:
        /*00f0*/                   BRA `(.L_x_3);
        /*0100*/                   NOP;
.L_x_5:
//--------------------- SYMBOLS --------------------------
)";

MachineCode parsed() { return parse_sass(kSass, "kernel", "/b/src/kernels/gemm/v01_x.cu"); }

TEST(Sass, HasTheInstructionsOfOneKernelWithTheirLines) {
  const MachineCode code = parsed();
  ASSERT_EQ(code.instructions.size(), 15u);
  EXPECT_EQ(code.instructions[2].operation, "LDG.E.128");
  EXPECT_EQ(code.instructions[2].place.line, 12) << "the kernel's line, not the header's";
  EXPECT_EQ(code.instructions[1].operation, "EXIT");
  EXPECT_TRUE(code.instructions[1].conditional);
  EXPECT_EQ(code.instructions[5].label, ".L_x_1");
  EXPECT_EQ(code.instructions[14].address, 0xe0u) << "what nobody reaches is left out";
  EXPECT_TRUE(parse_sass(kSass, "none", "").instructions.empty());
}

TEST(Sass, LoopsAreFoundWithTheirNesting) {
  const std::vector<Loop> loops = loops_of(parsed());
  ASSERT_EQ(loops.size(), 3u);
  // The outer one with the way through the wait, which lies behind the end of the kernel.
  EXPECT_EQ(loops[0].body, (std::vector<std::size_t>{2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14}));
  EXPECT_FALSE(loops[0].innermost);
  EXPECT_EQ(loops[0].branch, 9u);
  EXPECT_EQ(loops[1].body, (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_EQ(loops[1].depth, 2);
  EXPECT_EQ(loops[2].body, (std::vector<std::size_t>{12, 13}));
}

TEST(Sass, LanesThatMeetAgainAreNoLoop) {
  constexpr char kMeeting[] = R"(.text.k:
        /*0000*/                   BSSY B0, `(.L_x_1) ;
        /*0010*/              @!P0 BRA `(.L_x_2) ;
        /*0020*/                   FADD R1, R1, R2 ;
.L_x_1:
        /*0030*/                   EXIT ;
.L_x_2:
        /*0040*/                   MUFU.EX2 R1, R1 ;
        /*0050*/                   BSYNC B0 ;
)";
  EXPECT_TRUE(loops_of(parse_sass(kMeeting, "k", "")).empty());
}

TEST(Sass, InstructionsAreSortedByWhatTheyDo) {
  const auto work = [](const char* text) {
    Instruction instruction;
    instruction.text = instruction.operation = text;
    instruction.operation = instruction.operation.substr(0, instruction.operation.find(' '));
    return work_of(instruction);
  };
  EXPECT_EQ(work("FFMA R4, R5, R6, R4"), Work::fma);
  EXPECT_EQ(work("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8]"), Work::tensor);
  EXPECT_EQ(work("IMAD.WIDE R2, R3, 0x4, R4"), Work::integer);
  EXPECT_EQ(work("IMAD.MOV.U32 R2, RZ, RZ, R4"), Work::move);
  EXPECT_EQ(work("HFMA2.MMA R106, -RZ, RZ, 0, 0"), Work::move) << "a way to set a register";
  EXPECT_EQ(work("HFMA2 R1, R2, R3, R1"), Work::fma);
  EXPECT_EQ(work("ULOP3.LUT UR4, UR4, 0x1, URZ"), Work::integer) << "as LOP3 of all lanes";
  EXPECT_EQ(work("STL [R1], R4"), Work::spill);
  EXPECT_EQ(work("LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64]"), Work::copy);
  EXPECT_EQ(work("NEWTHING R1"), Work::other);
}

TEST(Ptx, HasTheInstructionsOfOneKernelWithTheirLines) {
  constexpr char kPtx[] = R"(.target sm_90
.visible .entry other(
)
{
	ret;
}
.entry kernel(
	.param .u32 kernel_param_0
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<3>;
	.loc	1 26 3
	mov.u32 	%r1, %tid.x;
	.loc	2 7 3, function_name $L__info_string0, inlined_at 1 28 5
	ld.shared.v4.f32 	{%f1, %f2,
	%f3, %f4}, [%r1];
	@%p1 bra 	$L__BB0_2;

$L__BB0_2:
	ret;

}
	.file	1 "/a/src/kernels/gemm/v01_x.cu"
	.file	2 "/a/src/device/vector.hpp"
)";
  const auto ptx = parse_ptx(kPtx, "kernel", "/a/src/kernels/gemm/v01_x.cu");
  ASSERT_EQ(ptx.size(), 4u);
  EXPECT_EQ(ptx[0].operation, "mov.u32");
  EXPECT_EQ(ptx[0].place.line, 26);
  EXPECT_EQ(ptx[1].text, "ld.shared.v4.f32  {%f1, %f2, %f3, %f4}, [%r1]");
  EXPECT_EQ(ptx[1].place.line, 28);
  EXPECT_EQ(ptx[2].operation, "bra");
}

/// The rows of a CSV, each by the names of its columns; without quoted commas and the like.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& path) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> names;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted)
        cells.emplace_back();
      else
        cells.back() += c;
    }
    if (names.empty()) {
      names = cells;
      continue;
    }
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < std::min(names.size(), cells.size()); ++i) row[names[i]] = cells[i];
  }
  return rows;
}

// Every kernel of a measured sweep: what the driver said on the GPU.
TEST(Occupancy, IsWhatTheDriverSaidOnTheGpu) {
  for (const char* file : {"h100/2026-11-22.csv", "h200/2026-11-23.csv"}) {
    std::size_t compared = 0;
    std::map<std::string, int> shares;
    for (auto& row : rows_of(LADDER_SOURCE_DIR "/results/" + std::string(file))) {
      if (row["occupancy"].empty() || row["registers"].empty()) continue;
      std::istringstream block(row["block"]);
      int x = 0, y = 0, z = 0;
      char cross;
      block >> x >> cross >> y >> cross >> z;
      const Resources resources{.registers = std::stoi(row["registers"]),
                                .static_shared = std::stoul(row["static_shared"])};
      const auto found = occupancy_of(resources, 90, x * y * z, std::stoul(row["dynamic_shared"]));
      ASSERT_TRUE(found);
      EXPECT_NEAR(found->share(), std::stod(row["occupancy"]), 1e-5)
          << file << ": " << row["family"] << " " << row["kernel"] << " " << row["problem"];
      ++shares[row["occupancy"]];
      ++compared;
    }
    EXPECT_GT(compared, 500u);
    EXPECT_GT(shares.size(), 6u) << "of different kernels";
  }
}

TEST(Occupancy, NamesWhatLimitsIt) {
  const auto limit = [](Resources r, int threads, std::size_t shared) {
    return occupancy_of(r, 90, threads, shared)->limit;
  };
  EXPECT_EQ(limit({.registers = 125}, 256, 0), "registers");
  EXPECT_EQ(limit({.registers = 32}, 256, 100 << 10), "shared memory");
  EXPECT_EQ(limit({.registers = 16}, 32, 0), "blocks");
  EXPECT_EQ(limit({.registers = 32}, 256, 0), "warps") << "though no register is left either";
  EXPECT_EQ(occupancy_of({.registers = 255}, 90, 512, 0)->blocks, 0);
  EXPECT_FALSE(occupancy_of({.registers = 32}, 1, 256, 0));
}

TEST(Occupancy, IsKnownForEveryGenerationThatIsSupported) {
  for (const int cc : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121}) {
    const auto found = occupancy_of({.registers = 32}, cc, 256, 0);
    ASSERT_TRUE(found) << cc;
    EXPECT_EQ(found->share(), 1) << cc;
  }
}

Assembly example() {
  Assembly a;
  a.version = "gemm/f32/v01_x";
  a.problem = "8x8x8";
  a.file = "/b/src/kernels/gemm/v01_x.cu";
  a.launch.block = dim3(256);
  a.compiled.name = "kernel";
  a.compiled.architecture = "sm_90";
  a.compiled.compute_capability = 90;
  a.compiled.resources = {.registers = 125, .max_threads = 256, .local_bytes = 16};
  a.compiled.sass = kSass;
  return a;
}

TEST(Assembly, IsToldInWords) {
  const std::string text = assembly_text(example(), AsmForm::sass, false);
  for (const char* part :
       {"125 per thread; blocks of at most 256 threads", "16 B per thread: spilled registers",
        "25 %: 2 blocks of 256 threads, 16 of 64 warps per SM; limited by registers",
        "loop 1   v01_x.cu:11: 11 instructions, 9 % of them multiply-adds",
        "loop 2   v01_x.cu:14, inside another: 3 instructions, 33 % of them multiply-adds",
        "1 more loop only waits", "2 BRA, 1 FFMA, 1 SYNCS, 1 UIADD3",
        "0030  FFMA R4, R5, R6, R4"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(assembly_text(example(), AsmForm::lines, false), Not(HasSubstr("R5, R6")));
}

TEST(Assembly, IsToldToPrograms) {
  const std::string json = assembly_json(example());
  for (const char* part : {R"("registers": 125, "max_threads": 256)",
                           R"({"threads": 256, "blocks": 2, "occupancy": 0.25)", R"("line": 12, )",
                           R"("sass": ["0020  LDG.E.128 R4, desc[UR4][R2.64]"], "ptx": [])"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
}

TEST(Assembly, WithoutADisassemblerTheResourcesAreThere) {
  Assembly a = example();
  a.compiled.sass.clear();
  a.compiled.lack = "nvdisasm was not found.";
  const std::string text = assembly_text(a, AsmForm::lines, false);
  EXPECT_THAT(text, HasSubstr("limited by registers"));
  EXPECT_THAT(text, HasSubstr("  nvdisasm was not found.\n"));
}

}  // namespace
}  // namespace ladder
