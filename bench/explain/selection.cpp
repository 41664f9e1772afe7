#include "explain/selection.hpp"

#include "cli/best.hpp"
#include "cli/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ladder {
namespace {

std::vector<Problem> problems_of(const Kernel& kernel, const Options& options,
                                 const Device& device) {
  return options.problems_of(family_of(kernel), device.backend());
}

/// The best version, on a problem, of a kernel's operation and type; null as of best_version().
const Kernel* best_beside(const Kernel& kernel, const Problem& problem, const Device& device,
                          std::string* why = nullptr) {
  return best_version(family_of(kernel), problem, kernel.dtype, device.kernels(), device.info(),
                      why);
}

/// A kernel's name, or one with `best`, selects the user's problems, or else the last; with a problem
/// behind it, this one.
std::vector<Selected> select_name(const std::string& flag, const std::string& wanted,
                                  const Options& options, const Device& device) {
  const bool for_best = asks_for_best(wanted);
  for (const Kernel& kernel : device.kernels()) {
    const std::string own = full_name(kernel), name = for_best ? with_best(kernel, own) : own;
    if (wanted == name) {
      std::vector<Selected> selected;
      for (const Problem& problem : problems_of(kernel, options, device)) {
        const Kernel* const version = for_best ? best_beside(kernel, problem, device) : &kernel;
        if (version) selected.push_back({version, problem});
      }
      if (!selected.empty() && !options.problems.contains(kernel.family)) {
        selected = {selected.back()};
      }
      return selected;
    }
    if (wanted.starts_with(name + "/")) {
      const std::string text = wanted.substr(name.size() + 1);
      if (const auto problem = family_of(kernel).parse(text)) {
        std::string why;
        const Kernel* const version =
            for_best ? best_beside(kernel, *problem, device, &why) : &kernel;
        if (!version) throw UsageError(fmt::format("{}={}: {}.", flag, wanted, why));
        return {{version, *problem}};
      }
      if (text.find_first_of(".*+?|()[]{}^$\\") == std::string::npos) {  // no pattern either
        throw UsageError(fmt::format("{}={}: a problem of {} is {}.", flag, wanted, kernel.family,
                                     family_of(kernel).problem_help()));
      }
    }
  }
  return {};
}

/// A regular expression selects every kernel and problem in whose name it finds itself, or, if it is
/// the best version there, in the name with `best`.
std::vector<Selected> select_pattern(const std::string& flag, const std::string& wanted,
                                     const Options& options, const Device& device) {
  const auto pattern = Pattern::parse(wanted);
  if (!pattern) {
    throw UsageError(
        fmt::format("{}={} is neither a name nor a regular expression.", flag, wanted));
  }
  const bool for_best = asks_for_best(wanted);
  const auto matches = [&](const Selected& one) {
    const std::string name = one.name();
    return pattern->matches(name) || (for_best && pattern->matches(with_best(*one.kernel, name)) &&
                                      best_beside(*one.kernel, one.problem, device) == one.kernel);
  };
  std::vector<Selected> selected;
  for (const Kernel& kernel : device.kernels()) {
    if (std::find(options.dtypes.begin(), options.dtypes.end(), kernel.dtype) ==
        options.dtypes.end()) {
      continue;
    }
    for (const Problem& problem : problems_of(kernel, options, device)) {
      const Selected one{&kernel, problem};
      if (matches(one)) selected.push_back(one);
    }
  }
  std::sort(selected.begin(), selected.end(), [](const Selected& a, const Selected& b) {
    return std::make_pair(full_name(*a.kernel), a.problem.text()) <
           std::make_pair(full_name(*b.kernel), b.problem.text());
  });
  return selected;
}

}  // namespace

std::string Selected::name() const { return full_name(*kernel) + "/" + problem.text(); }

std::vector<Selected> select(const std::string& flag, const std::string& wanted,
                             const Options& options, const Device& device) {
  auto selected = select_name(flag, wanted, options, device);
  if (selected.empty()) selected = select_pattern(flag, wanted, options, device);
  if (selected.empty()) {
    std::set<std::string> names;
    for (const Kernel& kernel : device.kernels()) {
      names.insert(full_name(kernel));
      if (asks_for_best(wanted)) names.insert(with_best(kernel, full_name(kernel)));
    }
    throw UsageError(
        fmt::format("{}={}: there is no such kernel{}; --benchmark_list_tests lists the names.",
                    flag, wanted, near_to(wanted, names)));
  }
  return selected;
}

}  // namespace ladder
