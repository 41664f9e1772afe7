#include "harness/check.hpp"

#include "harness/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ladder {

const char* to_string(Verdict verdict) {
  constexpr const char* kNames[] = {"passed", "incorrect", "failed", "unsupported"};
  return kNames[static_cast<int>(verdict)];
}

namespace {

CheckResult incorrect(std::string reason) {
  return {.verdict = Verdict::incorrect, .reason = std::move(reason)};
}

}  // namespace

CheckResult judge(Workload& workload) {
  if (workload.judges_itself()) {
    const std::string mistake = workload.mistake();
    return mistake.empty() ? CheckResult{} : incorrect(mistake);
  }
  CheckResult all;
  double worst_ratio = -1;
  for (const Workload::Result& result : workload.results()) {
    const Array& array = result.array;
    std::size_t size = array.size;
    if (result.count) {
      const double valid = valid_elements(result);
      if (!(valid >= 0 && valid <= static_cast<double>(size))) {
        return incorrect(fmt::format("{} is {:.0f}, and {} has {} elements", array.count, valid,
                                     array.name, size));
      }
      double expected = 0;
      result.count->written->device().download(&expected, result.count->expected_values(),
                                               sizeof expected);
      size = static_cast<std::size_t>(std::min(valid, expected));
    }
    const Comparison found = result.written->device().compare(
        array.dtype, result.written->data(), result.expected_values(), result.magnitudes(), size,
        array.tolerance);
    if (found.worst_ratio > worst_ratio) {
      worst_ratio = found.worst_ratio;
      all.error = found.error;
      all.tolerance = found.limit;
    }
    if (found.wrong == 0 || all.verdict == Verdict::incorrect) continue;
    const std::string which = workload.results().size() > 1 ? array.name + ": " : "";
    all.verdict = Verdict::incorrect;
    all.reason = fmt::format(
        "{}{} of {} elements wrong; element {} is {:.9g}, expected {:.9g} ± {:.2g}", which,
        found.wrong, size, found.worst, found.actual, found.expected, found.limit);
  }
  return all;
}

namespace {

bool is_zero(const Buffer& buffer) {
  std::vector<unsigned char> bytes(buffer.bytes());
  buffer.device().download(bytes.data(), buffer.data(), bytes.size());
  return std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0; });
}

CheckResult check_with_poison(unsigned char byte, const Kernel& kernel, Workload& workload,
                              Device& device, std::optional<Counters>* counters) {
  workload.reset_results(byte);
  Workload::Prepared prepared{};
  try {
    prepared = workload.prepare(kernel);
    for (Buffer& workspace : prepared.workspaces) workspace.poison(byte);
    if (counters) *counters = device.count(kernel, prepared.call);
    if (!counters || !*counters) device.run(kernel, prepared.call);
  } catch (const std::exception& error) {
    if (!device.lost()) workload.forget(kernel);
    return {.verdict = Verdict::failed, .reason = error.what()};
  }
  if (!std::ranges::all_of(prepared.workspaces, &Buffer::canaries_intact)) {
    return incorrect("wrote outside its workspace");
  }
  if (!std::ranges::all_of(prepared.states, &Buffer::canaries_intact)) {
    return incorrect("wrote outside its state");
  }
  if (!std::ranges::all_of(prepared.states, is_zero)) {
    workload.forget(kernel);
    return incorrect("left its state other than zero");
  }
  for (std::size_t i = 0; i < workload.buffers().size(); ++i) {
    if (workload.buffers()[i].canaries_intact()) continue;
    const bool is_written = workload.arrays()[i].is_written();
    return incorrect(is_written ? "wrote outside its output" : "wrote outside an input");
  }
  if (!workload.inputs_are_intact()) return incorrect("changed its inputs");
  return judge(workload);
}

}  // namespace

double valid_elements(const Workload::Result& result) {
  if (!result.count) return static_cast<double>(result.array.size);
  return with_type(result.count->array.dtype, [&]<class T>(std::type_identity<T>) -> double {
    T number{};
    const Buffer& count = *result.count->written;
    count.device().download(&number, count.data(), sizeof number);
    return value_at(&number, 0);
  });
}

CheckResult check(const Kernel& kernel, Workload& workload, Device& device,
                  std::optional<Counters>* counters) {
  const CheckResult result = check_with_poison(0xFF, kernel, workload, device, counters);
  const bool may_be_poison = std::ranges::any_of(workload.results(), [](const auto& one) {
    return one.array.role == Role::output && !has_nan(one.array.dtype);
  });
  if (result.verdict != Verdict::passed || !may_be_poison) return result;
  return check_with_poison(0x5A, kernel, workload, device, nullptr);
}

}  // namespace ladder
