#include "asm/elf.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>

namespace ladder {
namespace {

template <class T>
T read_at(std::string_view bytes, std::uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) {
    throw std::runtime_error("an ELF file is cut short");
  }
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string_view text_at(std::string_view table, std::uint64_t at) {
  if (at >= table.size()) return {};
  return table.substr(at, table.find('\0', at) - at);
}

}  // namespace

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw std::runtime_error(path + " cannot be read");
  return bytes;
}

Elf::Elf(std::string bytes) : bytes_(std::move(bytes)) {
  const auto header = read_at<Elf64_Ehdr>(bytes_, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    throw std::runtime_error("not a 64-bit ELF file");
  }
  std::vector<Elf64_Shdr> headers;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    headers.push_back(read_at<Elf64_Shdr>(bytes_, header.e_shoff + i * sizeof(Elf64_Shdr)));
  }
  if (header.e_shstrndx >= headers.size()) return;
  const Elf64_Shdr& texts = headers[header.e_shstrndx];
  const std::string_view names = part(texts.sh_offset, texts.sh_size);
  for (const Elf64_Shdr& each : headers) {
    const bool empty = each.sh_type == SHT_NOBITS || each.sh_type == SHT_NULL;
    sections_.push_back({text_at(names, each.sh_name),
                         empty ? std::string_view{} : part(each.sh_offset, each.sh_size),
                         each.sh_size, each.sh_link});
  }
  if (const Section* table = section(".symtab")) read_symbols(*table);
}

std::string_view Elf::part(std::uint64_t begin, std::uint64_t size) const {
  if (begin > bytes_.size() || bytes_.size() - begin < size) {
    throw std::runtime_error("an ELF file is cut short");
  }
  return std::string_view(bytes_).substr(begin, size);
}

void Elf::read_symbols(const Section& table) {
  if (table.link >= sections_.size()) return;
  const std::string_view names = sections_[table.link].contents;
  std::string_view file;
  for (std::uint64_t at = 0; at < table.contents.size(); at += sizeof(Elf64_Sym)) {
    const auto symbol = read_at<Elf64_Sym>(table.contents, at);
    const std::string_view name = text_at(names, symbol.st_name);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE) file = name;
    const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
    // All of them, because what .nv.info says of a function names it by its number.
    symbols_.push_back({name, local ? file : std::string_view{}, symbol.st_value});
  }
}

const Elf::Section* Elf::section(std::string_view name) const {
  for (const Section& each : sections_) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::optional<Function> function_at(const void* address) {
  static std::map<std::string, std::unique_ptr<Elf>> known;
  Dl_info info{};
  if (dladdr(address, &info) == 0) return std::nullopt;
  std::string path = info.dli_fname;
  if (!std::filesystem::path(path).is_absolute()) {  // the program, as it was called
    path = std::filesystem::canonical("/proc/self/exe");
  }
  auto& elf = known[path];
  if (!elf) elf = std::make_unique<Elf>(read_bytes(path));
  const auto absolute = reinterpret_cast<std::uint64_t>(address);
  const auto at = absolute - reinterpret_cast<std::uint64_t>(info.dli_fbase);
  for (const Elf::Symbol& symbol : elf->symbols()) {
    if ((symbol.value == at || symbol.value == absolute) && symbol.name.starts_with("_Z")) {
      return Function{std::string(symbol.name), std::string(symbol.file)};
    }
  }
  return std::nullopt;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? text.get() : name;
}

}  // namespace ladder
