// Which line of which file an instruction of the kernels comes from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ladder::host {

struct SourceLine {
  std::string file;  ///< as the compiler was given it; empty if unknown
  int line = 0;
};

/// The lines of return addresses in the kernels' code, in their order. Where functions are inlined
/// into each other it is the innermost in a .cu file, or else in a header of a kernel: of an access
/// in ladder::Vec128 the line of the kernel. Asks addr2line, a part of binutils; all are unknown if there is none.
std::vector<SourceLine> source_lines(std::span<const std::uintptr_t> return_addresses);

/// "v03_smem_tile.cu:41", for messages.
std::string source_text(const void* return_address);

}  // namespace ladder::host
