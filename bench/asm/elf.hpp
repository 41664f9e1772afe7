// An ELF file: a program, a shared library, or a cubin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

/// Throws std::runtime_error if the file cannot be read.
std::string read_bytes(const std::string& path);

class Elf {
 public:
  struct Section {
    std::string_view name, contents;  ///< no contents where the file has none, as of .bss
    std::uint64_t size = 0;           ///< bytes
    std::uint32_t link = 0;
  };
  struct Symbol {
    std::string_view name;
    std::string_view file;  ///< the source file of a local symbol, as the linker was told
    std::uint64_t value = 0;
  };

  /// Throws std::runtime_error if the bytes are no 64-bit ELF file.
  explicit Elf(std::string bytes);
  Elf(const Elf&) = delete;
  Elf& operator=(const Elf&) = delete;

  /// The first of that name.
  const Section* section(std::string_view name) const;
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  std::string_view part(std::uint64_t begin, std::uint64_t size) const;
  void read_symbols(const Section& table);

  std::string bytes_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

/// The function at an address of this process: its mangled name, and the source file if the symbol
/// is a local one. Nothing if its binary has no symbols.
struct Function {
  std::string name, file;
};
std::optional<Function> function_at(const void* address);

/// A C++ name without its mangling, or the name itself.
std::string demangled(const std::string& name);

}  // namespace ladder
