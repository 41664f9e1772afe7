#include "process/environment.hpp"

#include <cstddef>

namespace ladder {
namespace {

constexpr std::size_t kMost = 256;
const char* taken[kMost];  // as the environment has them: "NAME=value"
std::size_t count = 0;

/// Takes them out of the environment, and V, which is Google Benchmark's too, for good. Runs before
/// any library's constructors and before AddressSanitizer begins, so it calls nothing.
[[gnu::no_sanitize("address"), gnu::no_sanitize("undefined")]] void take_variables(
    int, char**, char** environment) {
  constexpr char kPrefix[] = "BENCHMARK_";
  char** kept = environment;
  for (char** at = environment; *at; ++at) {
    std::size_t alike = 0;
    while (kPrefix[alike] != '\0' && (*at)[alike] == kPrefix[alike]) ++alike;
    if (kPrefix[alike] == '\0' && count < kMost) {
      taken[count++] = *at;
    } else if ((*at)[0] != 'V' || (*at)[1] != '=') {
      *kept++ = *at;
    }
  }
  *kept = nullptr;
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const run_first)(int, char**,
                                                                      char**) = take_variables;

}  // namespace

std::string benchmark_variable(const std::string& name) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string variable = taken[i];
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  }
  return "";
}

}  // namespace ladder
