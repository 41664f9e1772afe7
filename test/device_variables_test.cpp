// No kernel keeps anything in a `__device__` variable, which all launches of a process would share: what
// blocks meet by is in Call::state.
#include "asm/elf.hpp"
#include "asm/fat_binary.hpp"

#include <gmock/gmock.h>

#include <regex>
#include <set>
#include <sstream>

namespace ladder {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A module's variables in global memory; not objects of empty types, which libraries have for tags.
std::set<std::string> variables_in(const std::string& ptx) {
  static const std::regex declaration(
      R"(\s*(?:\.visible |\.weak |\.common )*\.global [^=]* ([\w$]+)(?:\[\d+\])*(?:;| = .*))"),
      empty(R"(.*\.align 1 \.b8 [\w$]+\[1\];)");
  std::set<std::string> names;
  std::istringstream lines(ptx);
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(".global ") == line.npos || line.size() > 1000) continue;
    if (std::regex_match(line, empty) || !std::regex_match(line, found, declaration)) continue;
    names.insert(demangled(found[1]));
  }
  return names;
}

TEST(DeviceVariables, AreFoundInPtx) {
  EXPECT_THAT(variables_in(R"(.version 9.0
.visible .global .align 4 .u32 blocks_done;
.global .align 8 .b8 _ZN12_GLOBAL__N_17arrivedE[4096];
.global .align 4 .u32 begun = 1;
.global .align 1 .u8 flag;
.global .align 1 .b8 _ZN3tagE[1];
.const .align 4 .b8 table[16];
.visible .entry kernel(.param .u64 p) {
  .shared .align 4 .b8 tile[64];
  ld.global.u32 %r1, [%rd1];
}
)"),
              ElementsAre("(anonymous namespace)::arrived", "begun", "blocks_done", "flag"));
}

TEST(DeviceVariables, AreNotInThisProgram) {
  const Elf program(read_bytes("/proc/self/exe"));
  const Elf::Section* const section = program.section(".nv_fatbin");
  if (!section) GTEST_SKIP() << "built without CUDA";
  std::set<std::string> found;
  std::size_t images = 0;
  for (const Image& image : images_in(section->contents)) {
    if (!image.is_ptx) continue;
    ++images;
    found.merge(variables_in(image.contents));
  }
  if (images == 0) GTEST_SKIP() << "built for this GPU alone: there is no PTX to look at";
  EXPECT_THAT(found, IsEmpty()) << "keep it in the version's state: src/device/registration.hpp";
}

}  // namespace
}  // namespace ladder
