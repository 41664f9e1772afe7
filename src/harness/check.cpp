#include "harness/check.hpp"

#include "harness/family.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ladder {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::incorrect:
      return "incorrect";
    case Verdict::failed:
      return "failed";
    case Verdict::unsupported:
      return "unsupported";
  }
  return "";
}

namespace {

CheckResult incorrect(std::string reason) {
  return {.verdict = Verdict::incorrect, .reason = std::move(reason)};
}

/// By the family's own judgement, or each element by the answer.
CheckResult judge(Workload& workload, Device& device) {
  if (workload.judges_itself()) {
    const std::string mistake = workload.mistake();
    return mistake.empty() ? CheckResult{} : incorrect(mistake);
  }
  CheckResult all;
  double worst_ratio = -1;
  for (const Workload::Result& result : workload.results()) {
    const Array& array = result.array;
    const Comparison found =
        device.compare(array.dtype, result.written->data(), result.expected_values(),
                       result.magnitudes(), array.size, array.tolerance);
    all.max_error = std::max(all.max_error, found.max_error);
    if (found.worst_ratio > worst_ratio) {
      worst_ratio = found.worst_ratio;
      all.tolerance = found.limit;
    }
    if (found.wrong == 0 || all.verdict == Verdict::incorrect) continue;
    const std::string which = workload.results().size() > 1 ? array.name + ": " : "";
    all.verdict = Verdict::incorrect;
    all.reason = fmt::format(
        "{}{} of {} elements wrong; element {} is {:.9g}, expected {:.9g} ± {:.2g}", which,
        found.wrong, array.size, found.worst, found.actual, found.expected, found.limit);
  }
  return all;
}

CheckResult check_with_poison(unsigned char byte, const Kernel& kernel, Workload& workload,
                              Device& device, std::optional<Counters>* counters) {
  workload.reset_results(byte);
  Buffer* workspace = nullptr;
  try {
    workspace = workload.prepare(kernel);
    if (workspace) workspace->poison(byte);
    if (counters) *counters = device.count(kernel, workload.args());
    if (!counters || !*counters) device.run(kernel, workload.args());
  } catch (const std::exception& error) {
    return {.verdict = Verdict::failed, .reason = error.what()};
  }
  if (workspace && !workspace->canaries_intact()) return incorrect("wrote outside its workspace");
  for (std::size_t i = 0; i < workload.buffers().size(); ++i) {
    if (workload.buffers()[i].canaries_intact()) continue;
    const bool is_written = workload.arrays()[i].is_written();
    return incorrect(is_written ? "wrote outside its output" : "wrote outside an input");
  }
  if (!workload.inputs_are_intact()) return incorrect("changed its inputs");
  return judge(workload, device);
}

}  // namespace

CheckResult check(const Kernel& kernel, Workload& workload, Device& device,
                  std::optional<Counters>* counters) {
  const CheckResult result = check_with_poison(0xFF, kernel, workload, device, counters);
  const bool of_integers = std::ranges::any_of(workload.results(), [](const auto& one) {
    return one.array.role == Role::output && is_integer(one.array.dtype);
  });
  if (result.verdict != Verdict::passed || !of_integers) return result;
  return check_with_poison(0x5A, kernel, workload, device, nullptr);
}

}  // namespace ladder
