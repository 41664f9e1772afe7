// The binary that the kernels are in: the host executor's library, or a test's program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ladder::host {

struct Segment {
  std::uintptr_t begin = 0;
  std::size_t size = 0;  ///< bytes
};

struct Module {
  std::string path;
  std::uintptr_t base = 0;      ///< what is added to the addresses in the file
  Segment variables{};          ///< global variables that can change
  Segment thread_local_data{};  ///< of the calling thread
};

Module find_module();

/// A global variable that can change.
struct Symbol {
  Segment variable;
  std::string name;  ///< in C++, without "(anonymous namespace)::"
};
/// None if they are stripped from the file, or it can't be read.
std::vector<Symbol> find_symbols(const Module& module);

}  // namespace ladder::host
