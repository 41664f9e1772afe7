#include "harness/check.hpp"

#include "harness/family.hpp"

#include <fmt/format.h>

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

CheckResult check_with_poison(unsigned char byte, const Kernel& kernel, Workload& workload,
                              Device& device, std::optional<Counters>* counters) {
  workload.output().poison(byte);
  Buffer* workspace = nullptr;
  try {
    workspace = workload.prepare(kernel);
    if (workspace) workspace->poison(byte);
    if (counters) *counters = device.count(kernel, workload.args());
    if (!counters || !*counters) device.run(kernel, workload.args());
  } catch (const std::exception& error) {
    return {.verdict = Verdict::failed, .reason = error.what()};
  }
  auto incorrect = [](std::string reason) {
    return CheckResult{.verdict = Verdict::incorrect, .reason = std::move(reason)};
  };
  if (!workload.output().canaries_intact()) return incorrect("wrote outside its output");
  if (workspace && !workspace->canaries_intact()) return incorrect("wrote outside its workspace");
  for (const Buffer& input : workload.inputs()) {
    if (!input.canaries_intact()) return incorrect("wrote outside an input");
  }
  if (checksum(device, workload.inputs()) != workload.input_checksum()) {
    return incorrect("changed its inputs");
  }
  const Comparison found =
      device.compare(workload.output_dtype(), workload.output().data(), workload.expected(),
                     workload.magnitude(), workload.output_size(), workload.tolerance());
  CheckResult result{.max_error = found.max_error, .tolerance = found.limit};
  if (found.wrong > 0) {
    result.verdict = Verdict::incorrect;
    result.reason = fmt::format(
        "{} of {} elements wrong; element {} is {:.9g}, expected {:.9g} ± {:.2g}", found.wrong,
        workload.output_size(), found.worst, found.actual, found.expected, found.limit);
  }
  return result;
}

}  // namespace

CheckResult check(const Kernel& kernel, Workload& workload, Device& device,
                  std::optional<Counters>* counters) {
  const CheckResult result = check_with_poison(0xFF, kernel, workload, device, counters);
  if (result.verdict != Verdict::passed || !is_integer(workload.output_dtype())) return result;
  return check_with_poison(0x5A, kernel, workload, device, nullptr);
}

}  // namespace ladder
