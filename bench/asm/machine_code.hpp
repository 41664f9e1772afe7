// A kernel's instructions: read from the texts that nvdisasm and nvcc make, sorted by what they do.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

struct SourcePlace {
  std::string file;
  int line = 0;  ///< 0 where the compiler does not tell
};

struct Instruction {
  std::string text;       ///< as the tool prints it, without its semicolon
  std::string operation;  ///< "LDS.128", "ld.shared.v4.f32"
  SourcePlace place;
  std::uint64_t address = 0;  ///< of machine code
  std::string label;          ///< of machine code: the target of a branch, or the label of BSSY
  bool conditional = false;   ///< it has a predicate
  std::string name() const { return operation.substr(0, operation.find('.')); }
};

/// The code of one kernel.
struct MachineCode {
  std::vector<Instruction> instructions;
  struct Label {
    std::string name;
    std::size_t at;  ///< the number of the instruction behind it
  };
  std::vector<Label> labels;
};

/// Where an instruction comes from if functions are inlined into each other, the innermost first:
/// the innermost in the kernel's own file, or else in another file of kernels, or else the innermost.
SourcePlace place_of(const std::vector<SourcePlace>& frames, std::string_view kernel_file);

/// A kernel in the text of `nvdisasm -gi -c`; nothing if it is not in there.
MachineCode parse_sass(std::string_view text, std::string_view kernel, std::string_view file);

/// A kernel in PTX.
std::vector<Instruction> parse_ptx(std::string_view text, std::string_view kernel,
                                   std::string_view file);

/// What an instruction of machine code does.
enum class Work {
  tensor,
  fma,
  arithmetic,
  special,
  global_load,
  global_store,
  shared_load,
  shared_store,
  copy,
  atomic,
  spill,
  exchange,
  wait,
  integer,
  compare,
  move,
  control,
  other
};
inline constexpr int kWorks = static_cast<int>(Work::other) + 1;
const char* words_of(Work work);  ///< "loads from shared memory"
const char* key_of(Work work);    ///< "shared_load"

Work work_of(const Instruction& instruction);

/// How many instructions of a kernel do what.
using Mix = std::array<int, kWorks>;

/// A loop: the instructions that are carried out again and again.
struct Loop {
  std::vector<std::size_t> body;  ///< their numbers, ascending
  std::size_t branch = 0;         ///< the number of the one that leads back to the first
  int depth = 1;                  ///< 2 inside another
  bool innermost = true;
};

/// The natural loops of a kernel, in the order of their heads. Of a wait that tries again and again,
/// a few instructions, there is a loop too.
std::vector<Loop> loops_of(const MachineCode& code);

}  // namespace ladder
