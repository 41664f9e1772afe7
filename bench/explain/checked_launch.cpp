#include "explain/checked_launch.hpp"

#include "measure/suite.hpp"

namespace ladder {

CheckResult launch_checked(const Kernel& kernel, const Problem& problem, std::uint64_t seed,
                           Device& device, const std::function<void(const Call& call)>& launch) {
  if (const Support support = supports(kernel, problem, device.info()); !support.ok) {
    return {.verdict = Verdict::unsupported, .reason = support.reason};
  }
  const Family& family = family_of(kernel);
  if (const std::string lack = memory_shortfall(family, problem, kernel.dtype, device);
      !lack.empty()) {
    return {.verdict = Verdict::failed, .reason = lack};
  }
  try {
    const auto workload =
        family.open(problem, kernel.dtype, family.input_sets().front(), seed, device);
    const CheckResult result = check(kernel, *workload, device);
    if (result.verdict != Verdict::passed) return result;
    launch(workload->prepare(kernel).call);
    return check(kernel, *workload, device);
  } catch (const NoHardwareCounters&) {
    throw;
  } catch (const std::exception& error) {
    return {.verdict = Verdict::failed, .reason = error.what()};
  }
}

}  // namespace ladder
