// What best_version() takes, for best_test.py. Reads a line per problem,
//
//   softmax/backward bf16 90 8192x4096
//
// an operation, a type, a compute capability and the problem, and prints the version's label, or - where no
// version can do it. The first line that it prints is cuda, or host where the build has no kernels for GPUs.
#include "harness/family.hpp"
#include "harness/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>

namespace {

using namespace ladder;

std::string best_label(const std::string& operation, std::string_view type, int compute_capability,
                       std::string_view text, const std::vector<Kernel>& kernels) {
  const auto family = std::ranges::find_if(families(), [&](const Family& one) {
    return operation == fmt::format("{}{}{}", one.name, one.op.empty() ? "" : "/", one.op);
  });
  const auto dtype = parse_dtype(type);
  if (family == families().end() || !dtype) return "-";
  const auto problem = family->parse(text);
  if (!problem) return "-";
  DeviceInfo device;
  device.compute_capability = compute_capability;
  const Kernel* const best = best_version(*family, *problem, *dtype, kernels, device);
  return best ? label(*best) : "-";
}

}  // namespace

int main() {
  const auto host = open_host_device();
  const bool gpu = !registered_kernels().empty();
  const std::vector<Kernel>& kernels = gpu ? registered_kernels() : host->kernels();
  std::cout << (gpu ? "cuda" : "host") << '\n';
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string operation, dtype, problem;
    int compute_capability = 0;
    words >> operation >> dtype >> compute_capability >> problem;
    std::cout << best_label(operation, dtype, compute_capability, problem, kernels) << '\n';
  }
}
