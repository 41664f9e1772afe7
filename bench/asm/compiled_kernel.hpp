// A kernel as the compiler left it in this program: its resources, its PTX and its machine code.
#pragma once

#include "asm/elf.hpp"
#include "asm/occupancy.hpp"

#include <string>
#include <vector>

namespace ladder {

struct CompiledKernel {
  std::string name;          ///< mangled
  std::string architecture;  ///< "sm_90a"; of PTX the one that ptxas was asked for
  int compute_capability = 0;
  bool assembled = false;  ///< by ptxas now, because the program holds PTX alone
  Resources resources;
  std::string sass;  ///< as nvdisasm prints it; empty without it
  std::string ptx;   ///< of the file; empty if the program has none
  std::string lack;  ///< a sentence: which tool is missing, and the way out
};

/// The registers, shared memory and so on of a cubin's kernel. Throws std::runtime_error if it has no
/// such kernel.
Resources resources_in(const Elf& cubin, std::string_view kernel, int compute_capability);

/// What this program holds of a kernel that was launched: `function` is the function of the same name
/// that the host executor ran, or that stands for the kernel on the CPU. Of several with this name it is
/// the one of version file `file`. Throws std::runtime_error with the reason if there is none, or if
/// what ptxas needs is missing.
CompiledKernel compiled_kernel(const Function& function, std::string_view file);

}  // namespace ladder
