#include "explain/profile.hpp"

#include "explain/selection.hpp"
#include "measure/suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ladder {
namespace {

CheckResult launch_checked(const Selected& one, std::uint64_t seed, Device& device) {
  const Kernel& kernel = *one.kernel;
  if (const Support support = supports(kernel, one.problem, device.info()); !support.ok) {
    return {.verdict = Verdict::unsupported, .reason = support.reason};
  }
  const Family& family = family_of(kernel);
  if (const std::string lack = lack_of_memory(family, one.problem, kernel.dtype, device);
      !lack.empty()) {
    return {.verdict = Verdict::failed, .reason = lack};
  }
  try {
    const auto workload =
        family.open(one.problem, kernel.dtype, family.input_sets().front(), seed, device);
    CheckResult result = check(kernel, *workload, device);
    if (result.verdict != Verdict::passed) return result;
    device.profile(kernel, workload->args(), one.name());
    return check(kernel, *workload, device);
  } catch (const std::exception& error) {
    return {.verdict = Verdict::failed, .reason = error.what()};
  }
}

}  // namespace

int profile(const Options& options, Device& device, const char* program) {
  std::vector<Selected> selected;
  for (const std::string& wanted : options.profile) {
    for (Selected& one : select("--profile", wanted, options, device))
      selected.push_back(std::move(one));
  }
  std::size_t passed = 0, unsupported = 0;
  for (const Selected& one : selected) {
    const CheckResult result = launch_checked(one, options.seed, device);
    fmt::print("{}: {}{}{}\n", one.name(), to_string(result.verdict),
               result.reason.empty() ? "" : ": ", result.reason);
    passed += result.verdict == Verdict::passed;
    unsupported += result.verdict == Verdict::unsupported;
  }
  if (device.backend() == Backend::host) {
    fmt::print("Profiling needs a GPU; on the host executor these were checked launches.\n");
  } else if (passed > 0) {
    fmt::print("Profile it: ncu --profile-from-start off --nvtx --set full {} --profile='{}'\n",
               program, fmt::join(options.profile, ","));
  }
  return passed > 0 && passed + unsupported == selected.size() ? 0 : 1;
}

}  // namespace ladder
