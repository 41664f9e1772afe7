#include "measure/row.hpp"

#include <algorithm>

namespace ladder {

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
