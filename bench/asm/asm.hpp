// What the compiler made of a kernel: ./bench --asm=…
#pragma once

#include "asm/compiled_kernel.hpp"
#include "asm/machine_code.hpp"
#include "cli/options.hpp"

#include "harness/device.hpp"

namespace ladder {

/// One kernel of a version, as it was launched.
struct Assembly {
  std::string version, problem;  ///< "gemm/f32/v05_tile2d", "64x64x64"
  std::string file;              ///< of the version
  Launch launch{};
  CompiledKernel compiled;
};

/// Resources and occupancy, loops, and the source with what became of its lines, in 110 columns.
std::string assembly_text(const Assembly& assembly, AsmForm form, bool colors);

/// The same numbers as a JSON object.
std::string assembly_json(const Assembly& assembly);

/// Runs the versions that options.assembly selects, to see which kernels they launch, and prints to
/// stdout what the compiler made of these. Returns whether all of it could be shown. Throws UsageError
/// when nothing is selected, or when the program has no code for GPUs.
bool show_assembly(const Options& options, Device& device);

}  // namespace ladder
