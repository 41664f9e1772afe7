#include "measure/row.hpp"

#include <algorithm>

namespace ladder {

std::vector<std::span<const double>> Row::us_by_process() const {
  if (of_processes.empty()) return {samples.us};
  std::vector<std::span<const double>> all;
  std::span<const double> left = samples.us;
  for (const std::size_t n : of_processes) {
    all.push_back(left.first(n));
    left = left.subspan(n);
  }
  return all;
}

std::vector<double> Row::process_us() const {
  std::vector<double> all;
  for (const std::span<const double> us : us_by_process()) all.push_back(middle_mean(us));
  return all;
}

Estimate time_ratio(const Row& numerator, const Row& denominator) {
  const auto above = numerator.us_by_process(), below = denominator.us_by_process();
  std::vector<Estimate> own;
  for (std::size_t i = 0; i < above.size(); ++i) own.push_back(paired_ratio(above[i], below[i]));
  return ratio_of_processes(own);
}

Row merged(std::span<const Row> of_processes) {
  Row all = of_processes.front();
  all.samples = {};
  std::vector<Estimate> aa;
  std::vector<double> plan_us, roof_us, burst_us, launch_us;
  for (const Row& row : of_processes) {
    if (row.check.verdict != Verdict::passed) return row;
    const Samples& own = row.samples;
    all.of_processes.push_back(own.us.size());
    all.samples.us.insert(all.samples.us.end(), own.us.begin(), own.us.end());
    all.samples.states.insert(all.samples.states.end(), own.states.begin(), own.states.end());
    all.samples.settled |= own.settled;
    if (own.burst_us > 0) burst_us.push_back(own.burst_us);
    if (row.launch_us > 0) launch_us.push_back(row.launch_us);
    if (row.roof_us > 0) roof_us.push_back(row.roof_us);
    if (row.aa) aa.push_back(*row.aa);
    plan_us.push_back(row.plan_us);
  }
  all.plan_us = mean(plan_us);
  if (!burst_us.empty()) all.samples.burst_us = mean(burst_us);
  if (!launch_us.empty()) all.launch_us = mean(launch_us);
  if (!roof_us.empty()) all.roof_us = mean(roof_us);
  if (!aa.empty()) all.aa = ratio_of_processes(aa);
  return all;
}

double throttled_share(std::span<const GpuState> states) {
  const auto limited = std::count_if(states.begin(), states.end(), [](const GpuState& state) {
    return state.power_limited || state.thermal_limited;
  });
  return states.empty() ? 0 : static_cast<double>(limited) / static_cast<double>(states.size());
}

std::string throttle_text(std::span<const GpuState> states) {
  auto any = [&](bool GpuState::*limited) { return std::ranges::count(states, true, limited) > 0; };
  const bool power = any(&GpuState::power_limited), thermal = any(&GpuState::thermal_limited);
  return std::string(power ? "power" : "") + (power && thermal ? "+" : "") +
         (thermal ? "thermal" : "");
}

std::vector<double> readings(std::span<const GpuState> states, double GpuState::*reading) {
  std::vector<double> all;
  for (const GpuState& state : states) all.push_back(state.*reading);
  return all;
}

}  // namespace ladder
