#include "cli/text.hpp"
#include "explain/explain.hpp"
#include "explain/moves.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace ladder {
namespace {

const char* name_of(Access access) {
  switch (access) {
    case Access::load:
    case Access::cluster_load:
      return "load";
    case Access::store:
    case Access::pushed:
      return "store";
    case Access::atomic:
      return "atomic";
    case Access::stmatrix:
      return "stmatrix";
    default:
      return "async";
  }
}

std::string json(const Requests& r) {
  return fmt::format(R"("requests": {}, "units": {}, "ideal": {}, "lanes": {}, "bytes": {})",
                     r.requests, r.units, r.ideal, r.lanes, r.bytes);
}

std::string json(const Row& row) {
  const Kernel& kernel = *row.kernel;
  std::vector<std::string> members, lines;
  auto member = [&](const char* name, const std::string& value) {
    members.push_back(fmt::format("\"{}\": {}", name, value));
  };
  member("family", json_string(kernel.family));
  member("op", json_string(kernel.op));
  member("kernel", json_string(label(kernel)));
  member("idea", json_string(kernel.version.idea));
  member("dtype", json_string(to_string(kernel.dtype)));
  member("problem", json_string(row.problem));
  member("verdict", json_string(to_string(row.check.verdict)));
  member("reason", json_string(row.check.reason));
  member("file", json_string(kernel.file));
  member("compulsory_bytes", fmt::format("{:.0f}", row.cost.bytes()));
  if (counted(row)) {
    Counters c = *row.counters;
    member("moved_bytes", fmt::format("{:.0f}", c.moved_bytes()));
    member("mean_active_lanes", fmt::format("{:.6g}", c.mean_active_lanes()));
    member("barriers", fmt::format("{}", c.barriers));
    member("mbarrier_phases", fmt::format("{}", c.mbarrier_phases));
    std::vector<std::string> kinds;
    for (Space space : {Space::global, Space::shared}) {
      for (Access access : {Access::load, Access::store, Access::atomic, Access::async}) {
        if (space == Space::global && access == Access::async) continue;
        kinds.push_back(fmt::format("\n    \"{}_{}\": {{{}}}", name_of(space), name_of(access),
                                    json(c.of(space, access))));
      }
    }
    for (const auto& [name, requests] : {std::pair("shared_stmatrix", c.shared_stmatrix),
                                         {"cluster_load", c.cluster_load},
                                         {"cluster_store", c.cluster_store}}) {
      kinds.push_back(fmt::format("\n    \"{}\": {{{}}}", name, json(requests)));
    }
    for (const auto& [name, bulk] :
         {std::pair("bulk_load", c.bulk_load), {"bulk_store", c.bulk_store}}) {
      kinds.push_back(
          fmt::format("\n    \"{}\": {{\"copies\": {}, \"bytes\": {}, \"sectors\": {}}}", name,
                      bulk.copies, bulk.bytes, bulk.sectors));
    }
    kinds.push_back(fmt::format("\n    \"wgmma\": {{\"products\": {}, \"bytes\": {}}}",
                                c.wgmma.products, c.wgmma.bytes));
    member("counters", fmt::format("{{{}}}", fmt::join(kinds, ",")));
    for (const LineCounters& line : c.lines) {
      const bool cluster = line.access == Access::cluster_load || line.access == Access::pushed;
      lines.push_back(fmt::format(
          R"({}    {{"file": {}, "line": {}, "space": "{}", "access": "{}", "width": {}, {}}})",
          "\n", json_string(line.file), line.line, cluster ? "cluster" : name_of(line.space),
          name_of(line.access), line.width, json(line.requests)));
    }
  } else {
    for (const char* name :
         {"moved_bytes", "mean_active_lanes", "barriers", "mbarrier_phases", "counters"}) {
      member(name, "null");
    }
  }
  member("lines", fmt::format("[{}]", fmt::join(lines, ",")));
  return fmt::format("  {{{}}}", fmt::join(members, ",\n   "));
}

}  // namespace

std::string explain_json(std::span<const Row> rows) {
  std::vector<std::string> objects;
  for (const Row& row : rows) objects.push_back(json(row));
  return fmt::format("{}", fmt::join(objects, ",\n"));
}

}  // namespace ladder
