#include "explain/profile.hpp"

#include "cli/nearest.hpp"
#include "measure/suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace ladder {
namespace {

struct Selected {
  const Kernel* kernel;
  Problem problem;

  std::string name() const { return full_name(*kernel) + "/" + problem.text(); }
};

std::vector<Problem> problems_of(const Kernel& kernel, const Options& options,
                                 const Device& device) {
  return options.problems_of(family_of(kernel), device.backend());
}

/// A kernel's name selects the user's problems, or else its last; with a problem behind it,
/// this one.
std::vector<Selected> select_name(const std::string& wanted, const Options& options,
                                  const Device& device) {
  for (const Kernel& kernel : device.kernels()) {
    const std::string name = full_name(kernel);
    if (wanted == name) {
      std::vector<Selected> selected;
      for (const Problem& problem : problems_of(kernel, options, device)) {
        selected.push_back({&kernel, problem});
      }
      if (!options.problems.contains(kernel.family)) selected = {selected.back()};
      return selected;
    }
    if (wanted.starts_with(name + "/")) {
      const std::string text = wanted.substr(name.size() + 1);
      if (const auto problem = family_of(kernel).parse(text)) return {{&kernel, *problem}};
      if (text.find_first_of(".*+?|()[]{}^$\\") == std::string::npos) {  // no pattern either
        throw UsageError(fmt::format("--profile={}: a problem of {} is {}.", wanted, kernel.family,
                                     family_of(kernel).problem_help));
      }
    }
  }
  return {};
}

/// A regular expression selects every kernel and problem in whose name it finds itself.
std::vector<Selected> select_pattern(const std::string& wanted, const Options& options,
                                     const Device& device) {
  const auto pattern = Pattern::parse(wanted);
  if (!pattern) {
    throw UsageError(
        fmt::format("--profile={} is neither a name nor a regular expression.", wanted));
  }
  std::vector<Selected> selected;
  for (const Kernel& kernel : device.kernels()) {
    if (std::find(options.dtypes.begin(), options.dtypes.end(), kernel.dtype) ==
        options.dtypes.end()) {
      continue;
    }
    for (const Problem& problem : problems_of(kernel, options, device)) {
      const Selected one{&kernel, problem};
      if (pattern->matches(one.name())) selected.push_back(one);
    }
  }
  std::sort(selected.begin(), selected.end(), [](const Selected& a, const Selected& b) {
    return std::make_pair(full_name(*a.kernel), a.problem.text()) <
           std::make_pair(full_name(*b.kernel), b.problem.text());
  });
  return selected;
}

std::vector<Selected> select(const std::string& wanted, const Options& options,
                             const Device& device) {
  auto selected = select_name(wanted, options, device);
  if (selected.empty()) selected = select_pattern(wanted, options, device);
  if (selected.empty()) {
    std::set<std::string> names;
    for (const Kernel& kernel : device.kernels()) names.insert(full_name(kernel));
    throw UsageError(fmt::format(
        "--profile={}: there is no such kernel{}; --benchmark_list_tests lists the names.", wanted,
        near_to(wanted, names)));
  }
  return selected;
}

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
    for (Selected& one : select(wanted, options, device)) selected.push_back(std::move(one));
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
