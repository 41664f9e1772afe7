#include "host_executor/module.hpp"

#include <cxxabi.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

namespace ladder::host {
namespace {

// The system sets up a thread's copy of the segment when the thread first accesses it; reading this
// makes sure that it has.
thread_local volatile char thread_local_probe;

// dl_iterate_phdr's callback: fills in a Module if `info` is about the binary with this function.
int visit(dl_phdr_info* info, std::size_t, void* result) {
  const auto self = reinterpret_cast<ElfW(Addr)>(&visit);
  Module module{.path = info->dlpi_name, .base = info->dlpi_addr};
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const Segment segment{info->dlpi_addr + header.p_vaddr, header.p_memsz};
    if (header.p_type == PT_TLS) {
      module.thread_local_data = {reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data),
                                  header.p_memsz};
    } else if (header.p_type == PT_LOAD) {
      found |= self - segment.begin < segment.size;
      if (header.p_flags & PF_W) module.variables = segment;
    }
  }
  if (found) *static_cast<Module*>(result) = module;
  return found;  // whether to stop looking
}

/// So many of them, from there on in the file; none if it ends before.
template <class T>
std::vector<T> read(std::ifstream& file, ElfW(Off) at, std::size_t count) {
  std::vector<T> values(count);
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) values.clear();
  return values;
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  std::string name = text ? text.get() : symbol;
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  for (auto at = name.find(kUnnamed); at != name.npos; at = name.find(kUnnamed)) {
    name.erase(at, kUnnamed.size());
  }
  return name;
}

}  // namespace

Module find_module() {
  static_cast<void>(thread_local_probe);
  Module module;
  dl_iterate_phdr(&visit, &module);
  if (module.path.empty()) module.path = std::filesystem::canonical("/proc/self/exe");  // a program
  return module;
}

std::vector<Symbol> find_symbols(const Module& module) {
  std::ifstream file(module.path, std::ios::binary);
  const auto header = read<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty()) return {};
  const auto sections = read<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
  std::vector<Symbol> symbols;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const ElfW(Shdr)& strings = sections[section.sh_link];
    const auto names = read<char>(file, strings.sh_offset, strings.sh_size);
    for (const ElfW(Sym) & symbol :
         read<ElfW(Sym)>(file, section.sh_offset, section.sh_size / sizeof(ElfW(Sym)))) {
      const Segment variable{module.base + symbol.st_value, symbol.st_size};
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_name >= names.size() ||
          variable.begin - module.variables.begin >= module.variables.size) {
        continue;
      }
      symbols.push_back({variable, demangled(names.data() + symbol.st_name)});
    }
  }
  return symbols;
}

}  // namespace ladder::host
