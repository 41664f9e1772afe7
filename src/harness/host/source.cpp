#include "harness/host/source.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <unordered_map>

#include "harness/host/module.hpp"

namespace ladder::host {
namespace {

using Lines = std::unordered_map<std::uintptr_t, SourceLine>;  // by return address

/// Better the kernel's own line than a header's, best of the kernels' headers, then any other than
/// the harness'.
int rank(const std::string& file) {
  if (file.ends_with(".cu")) return 4;
  if (file.find("/kernels/") != std::string::npos) return 3;
  if (file.empty() || file.front() == '?') return 0;
  return file.find("/harness/") == std::string::npos ? 2 : 1;
}

/// "file:line", and perhaps more behind a space.
SourceLine parse(std::string text) {
  text.resize(std::min(text.find(' '), text.size()));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1)};
}

/// Asks addr2line for lines that are not known yet.
void look_up(std::span<const std::uintptr_t> return_addresses, Lines& lines) {
  static const Module module = find_module();
  std::string list = std::filesystem::temp_directory_path() / "ladder-XXXXXX";
  const int file = mkstemp(list.data());
  if (file < 0) return;
  std::string text;
  for (const std::uintptr_t address : return_addresses) {
    char line[32];
    // The call itself, not what it returns to.
    std::snprintf(line, sizeof line, "0x%zx\n", std::size_t{address - 1 - module.base});
    text += line;
  }
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);

  const std::string command =
      "addr2line --addresses --inlines --exe '" + module.path + "' < '" + list + "' 2>/dev/null";
  std::FILE* const answer = written ? popen(command.c_str(), "r") : nullptr;
  char* line = nullptr;
  std::size_t capacity = 0;
  auto next = return_addresses.begin();
  SourceLine* current = nullptr;
  while (answer && getline(&line, &capacity, answer) > 0) {
    std::string answered(line);
    answered.pop_back();  // the end of the line
    if (answered.starts_with("0x") && next != return_addresses.end()) {
      current = &lines[*next++];
    } else if (current) {
      SourceLine frame = parse(std::move(answered));
      if (rank(frame.file) > rank(current->file)) *current = std::move(frame);
    }
  }
  std::free(line);
  if (answer) pclose(answer);
  std::filesystem::remove(list);
}

}  // namespace

std::vector<SourceLine> source_lines(std::span<const std::uintptr_t> return_addresses) {
  static Lines known;
  std::vector<std::uintptr_t> unknown;
  for (const std::uintptr_t address : return_addresses) {
    if (!known.contains(address)) unknown.push_back(address);
  }
  if (!unknown.empty()) look_up(unknown, known);
  std::vector<SourceLine> lines;
  for (const std::uintptr_t address : return_addresses) lines.push_back(known[address]);
  return lines;
}

std::string source_text(const void* return_address) {
  const auto address = reinterpret_cast<std::uintptr_t>(return_address);
  const SourceLine found = source_lines({&address, 1}).front();
  if (found.file.empty()) return "an unknown line";
  return found.file.substr(found.file.rfind('/') + 1) + ":" + std::to_string(found.line);
}

}  // namespace ladder::host
