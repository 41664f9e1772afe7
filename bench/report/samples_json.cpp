#include "report/samples_json.hpp"

#include "cli/text.hpp"
#include "report/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <span>
#include <string_view>

namespace ladder {

SamplesJson::SamplesJson(ResultFile& file) : file_(file) { file_.append("[\n]\n"); }

void SamplesJson::write(const Row& row) {
  if (row.timed()) append(row);
  file_.place();
}

void SamplesJson::append(const Row& row) {
  static const std::set<std::string_view> key{"family",  "op",      "kernel", "dtype",
                                              "problem", "backend", "cache"};
  std::string object;
  for (const auto& [name, value] : csv_cells(row, {}, 0)) {
    if (key.contains(name)) object += fmt::format("\"{}\": {}, ", name, json_string(value));
  }
  auto array = [](std::span<const double> values) {
    std::vector<std::string> texts;
    for (double value : values) texts.push_back(fmt::format("{:.6g}", value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  };
  const std::span<const GpuState> states = row.samples.states;
  std::string of_states;
  if (!states.empty()) {
    std::vector<std::string> throttle;
    for (const GpuState& state : states) {
      throttle.push_back(json_string(throttle_text(std::span(&state, 1))));
    }
    of_states = fmt::format(", \"sm_mhz\": {}, \"power_w\": {}, \"throttle\": [{}]",
                            array(readings(states, &GpuState::sm_mhz)),
                            array(readings(states, &GpuState::power_w)), fmt::join(throttle, ", "));
  }
  std::string of_processes;
  if (row.processes() > 1) {
    of_processes = fmt::format("\"of_processes\": [{}], ", fmt::join(row.of_processes, ", "));
  }
  constexpr std::size_t kOver = 3;  // the line of the closing bracket goes behind
  file_.append(fmt::format("{}\n{{{}{}\"us\": {}{}}}\n]\n", separator_, object, of_processes,
                           array(row.samples.us), of_states),
               kOver);
  separator_ = ",";
}

}  // namespace ladder
