#include "explain/profile.hpp"

#include "explain/checked_launch.hpp"
#include "explain/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ladder {

int profile(const Options& options, Device& device, const char* program) {
  std::vector<Selected> selected;
  for (const std::string& wanted : options.profile) {
    for (Selected& one : select("--profile", wanted, options, device))
      selected.push_back(std::move(one));
  }
  std::size_t passed = 0, unsupported = 0;
  for (const Selected& one : selected) {
    const CheckResult result =
        launch_checked(*one.kernel, one.problem, options.seed, device,
                       [&](const Call& call) { device.profile(*one.kernel, call, one.name()); });
    fmt::print("{}: {}{}{}\n", one.name(), to_string(result.verdict),
               result.reason.empty() ? "" : ": ", result.reason);
    passed += result.verdict == Verdict::passed;
    unsupported += result.verdict == Verdict::unsupported;
  }
  if (device.backend() == Backend::host) {
    fmt::print("Profiling needs a GPU; on the host executor these were checked launches.\n");
  } else if (passed > 0) {
    const std::string command =
        fmt::format("{} --profile='{}'", program, fmt::join(options.profile, ","));
    fmt::print("Profile it: ncu --profile-from-start off --nvtx --set full {}\n", command);
    fmt::print("Its timeline: nsys profile --trace=cuda,nvtx {}\n", command);
  }
  return passed > 0 && passed + unsupported == selected.size() ? 0 : 1;
}

}  // namespace ladder
