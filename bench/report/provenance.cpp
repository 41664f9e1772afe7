#include "report/provenance.hpp"

#include <filesystem>

namespace ladder {

std::string code_of(const Kernel& kernel) {
  const auto file =
      std::filesystem::path(kernel.family) / std::filesystem::path(kernel.file).filename();
  const auto found = kCodes.find(file.native());
  return found == kCodes.end() ? "" : found->second;
}

}  // namespace ladder
