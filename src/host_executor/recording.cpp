#include "host_executor/recording.hpp"

#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/source.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ladder::host {

bool recording = false;

namespace {

struct Ordered {
  std::uint32_t order;
  std::uintptr_t pc;  // 0: the step knows its place
  RecordedStep step;
};

RecordingChoice chosen;
Recording recorded;
std::vector<Ordered> steps;
std::map<unsigned, std::uint32_t> last_of_warp;

bool block_is_recorded() {
  const uint3 block = selected_block();
  return std::array{block.x, block.y, block.z} == chosen.block;
}

void add(std::uint32_t at, std::uintptr_t pc, RecordedStep step) {
  if (steps.size() == chosen.most_steps) {
    ++recorded.left_out;
    return;
  }
  step.launch = static_cast<unsigned>(recorded.launches.size() - 1);
  recorded.dynamic_shared = reinterpret_cast<std::uintptr_t>(
      memory_of(BlockVariable::selected(), SharedPart::dynamic, 0));
  steps.push_back({at, pc, std::move(step)});
}

RecordedStep placed(RecordedStep::Kind kind, std::source_location at) {
  RecordedStep step;
  step.kind = kind;
  step.file = at.file_name();
  step.line = static_cast<int>(at.line());
  return step;
}

}  // namespace

Recording record(const RecordingChoice& choice, const std::function<void()>& work) {
  chosen = choice;
  recorded = {};
  steps.clear();
  last_order = 0;
  const struct Recorder {
    Recorder() { recording = true; }
    ~Recorder() { recording = false; }
  } while_working;
  recorded.counters = count(work);

  std::ranges::stable_sort(steps, {}, [](const Ordered& one) { return one.order; });
  std::vector<std::uintptr_t> pcs;
  for (const Ordered& one : steps) pcs.push_back(one.pc);
  const std::vector<SourceLine> places = source_lines(pcs);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    RecordedStep& step = recorded.steps.emplace_back(std::move(steps[i].step));
    if (pcs[i] == 0) continue;
    step.file = places[i].file;
    step.line = places[i].line;
  }
  return std::move(recorded);
}

void begin_recorded_launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes,
                           unsigned cluster) {
  recorded.launches.push_back({.grid = {grid.x, grid.y, grid.z},
                               .block = {block.x, block.y, block.z},
                               .dynamic_shared = dynamic_shared_bytes,
                               .cluster = cluster});
  last_of_warp.clear();
  recorded.static_shared = static_shared.begin();
  recorded.static_shared_bytes = static_shared.size();
}

bool is_recorded(unsigned warp) {
  return block_is_recorded() && std::ranges::find(chosen.warps, warp) != chosen.warps.end();
}

void record_step(const void* pc, unsigned warp, std::uint32_t at, RecordedStep step) {
  std::uint32_t& last = last_of_warp[warp];
  last = std::max(last, at);
  step.warp = static_cast<int>(warp);
  add(last, reinterpret_cast<std::uintptr_t>(pc), std::move(step));
}

void record_collective(unsigned warp, unsigned lanes, const char* name, std::source_location at) {
  if (!is_recorded(warp)) return;
  RecordedStep step = placed(RecordedStep::Kind::collective, at);
  step.lanes = lanes;
  step.collective = name;
  record_step(nullptr, warp, next_order(), std::move(step));
}

void record_barrier(std::source_location at) {
  if (!block_is_recorded()) return;
  add(next_order(), 0, placed(RecordedStep::Kind::barrier, at));
}

void record_of_block(Note note, const void* object, std::uint64_t detail) {
  if (!block_is_recorded()) return;
  RecordedStep step;
  step.kind = RecordedStep::Kind::note;
  step.note = note;
  step.object = reinterpret_cast<std::uintptr_t>(object);
  step.detail = detail;
  add(next_order(), 0, std::move(step));
}

}  // namespace ladder::host
