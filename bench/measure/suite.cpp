#include "measure/suite.hpp"

#include "cli/best.hpp"
#include "cli/nearest.hpp"
#include "harness/host/api.hpp"
#include "harness/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <string_view>
#include <utility>

namespace ladder {
namespace {

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::vector<const Kernel*> ladder_of(const Family& family, DType dtype, Backend backend) {
  std::vector<const Kernel*> kernels;
  for (const Kernel& kernel : kernels_for(backend)) {
    if (kernel.family == family.name && kernel.op == family.op && kernel.dtype == dtype) {
      kernels.push_back(&kernel);
    }
  }
  const auto place = [](const Kernel* one) {  // a file's variants stay in its order
    return std::make_pair(!one->version.baseline, file_label(*one));
  };
  std::ranges::stable_sort(kernels, {}, place);
  return kernels;
}

/// What all input sets but the first are tried on: see Contract. The problem itself if a version that
/// runs it can't run the smaller one.
Problem reduced_problem(const Group& group, const DeviceInfo& device) {
  const Problem smaller = group.family->smaller(group.problem);
  const bool alike = std::ranges::all_of(group.kernels, [&](const Kernel* kernel) {
    return supports(*kernel, smaller, device).ok || !supports(*kernel, group.problem, device).ok;
  });
  return alike ? smaller : group.problem;
}

std::vector<Row*> passed_so_far(std::span<Row> rows) {
  std::vector<Row*> passed;
  for (Row& row : rows) {
    if (row.check.verdict == Verdict::passed) passed.push_back(&row);
  }
  return passed;
}

void fail_all_that_passed(std::span<Row> rows, const std::string& reason) {
  for (Row* row : passed_so_far(rows)) {
    row->check = {.verdict = Verdict::failed, .reason = reason};
    row->samples = {};
  }
}

void expect_device(Device& device, const std::string& reason) {
  if (device.lost()) throw DeviceLost(reason);
}

/// conditions: empty for the problem itself, its first inputs, and threads in the order of their numbers.
CheckResult run_check(const Context& context, const Row& row, std::string doing, Workload& workload,
                      std::optional<Counters>* counters = nullptr,
                      const std::string& conditions = "", unsigned lane_order = 0,
                      bool on_test_problem = false) {
  const auto& [group, device, seed, on_step] = context;
  if (!conditions.empty()) doing += " (" + conditions + ")";
  on_step({.doing = doing, .kernel = row.kernel, .kernels = 1, .on_test_problem = on_test_problem});
  device.set_lane_order(lane_order);
  CheckResult result = check(*row.kernel, workload, device, counters);
  device.set_lane_order(0);
  if (!result.reason.empty() && !conditions.empty()) result.reason.insert(0, conditions + "; ");
  if (result.verdict == Verdict::failed) expect_device(device, result.reason);
  return result;
}

std::unique_ptr<Workload> opened(const Context& context, const InputSet& set, const Problem& of) {
  const auto& [group, device, seed, on_step] = context;
  on_step({.doing = "preparing the inputs"});
  return group.family->open(of, group.dtype, set, seed, device);
}

/// Checks kernels that have passed before; on the host executor in another order of the threads.
void check_again_on(const Context& context, const InputSet& set, const Problem& problem,
                    std::unique_ptr<Workload>& inputs, std::span<Row* const> rows,
                    bool is_test_problem = false) {
  const bool host = context.device.backend() == Backend::host;
  const char* const what = is_test_problem ? "the test problem " : "";
  const std::string at = is_test_problem || !(problem == context.group.problem)
                             ? fmt::format(" at {}{}", what, problem.text())
                             : "";
  const std::string conditions =
      fmt::format("inputs: {}{}{}", set.name, at, host ? "; lane order 1" : "");
  for (Row* row : rows) {
    if (!must_pass(*row->kernel, set, context.device.backend())) continue;
    const CheckResult result = run_check(context, *row, "checking", *inputs, nullptr, conditions,
                                         host ? 1 : 0, is_test_problem);
    if (result.verdict == Verdict::passed) continue;
    row->check = result;
    row->counters.reset();
    inputs = opened(context, set, problem);  // a wrong kernel may have damaged them
  }
}

const Row* fastest_of(std::span<const Row> rows, bool of_vendor) {
  auto time = [](const Row& row) { return std::make_pair(row.suspect(), row.us()); };
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (!row.timed() || row.kernel->version.baseline != of_vendor) continue;
    if (!best || time(row) < time(*best)) best = &row;
  }
  return best;
}

}  // namespace

std::string Group::name_of(const Kernel& kernel) const {
  return full_name(kernel) + "/" + problem.text() +
         (cache == Cache::cold ? "" : fmt::format("/{}", to_string(cache)));
}

const std::vector<Kernel>& kernels_for(Backend backend) {
  return backend == Backend::cuda ? registered_kernels() : ladder_host_api()->kernels();
}

std::vector<std::string> best_benchmarks(Options options, const Device& device) {
  std::vector<std::string> names;
  if (!asks_for_best(options.filter)) return names;
  options.draw_problems(device.backend());
  for (const Family& family : families()) {
    for (const Problem& problem : options.problems_of(family, device.backend())) {
      for (DType dtype : options.dtypes) {
        const Kernel* const best =
            best_version(family, problem, dtype, device.kernels(), device.info());
        if (best) names.push_back(full_name(*best) + "/" + problem.text());
      }
    }
  }
  return names;
}

std::vector<Group> select_groups(const Options& options, const Device& device) {
  return select_groups(options, device.backend(), best_benchmarks(options, device));
}

namespace {

/// What the options select, which may be nothing; adds what there is to names.
std::vector<Group> selected_groups(const Options& options, Backend backend,
                                   std::span<const std::string> best,
                                   std::set<std::string>& names) {
  std::vector<Group> groups;
  const std::set<std::string> best_names(best.begin(), best.end());
  const bool gpu = backend == Backend::cuda;
  for (const Family& family : families()) {
    const std::vector<Problem> problems = options.problems_of(family, backend);
    for (DType dtype : options.dtypes) {
      const auto kernels = ladder_of(family, dtype, backend);
      for (const Problem& problem : problems) {
        for (Cache cache : gpu ? options.caches : std::vector{Cache::cold}) {
          Group group{&family, dtype, problem, cache, {}, {}};
          for (const Kernel* kernel : kernels) {
            if (cache == Cache::hot && !kernel->version.capturable) continue;
            std::vector<std::string> called{group.name_of(*kernel)};
            if (best_names.contains(full_name(*kernel) + "/" + problem.text())) {
              called.push_back(with_best(*kernel, called.front()));
            }
            names.insert(called.begin(), called.end());
            const bool selected = options.selects(called);
            if (selected) group.selected.push_back(called.front());
            if (selected || kernel->version.baseline) group.kernels.push_back(kernel);
          }
          if (!group.selected.empty()) groups.push_back(std::move(group));
        }
      }
    }
  }
  return groups;
}

UsageError nothing_matches(const Options& options, const std::set<std::string>& names) {
  return UsageError(
      fmt::format("No benchmark matches --benchmark_filter={} here{}; --list shows the versions, "
                  "--benchmark_list_tests every name.",
                  options.filter, near_to(options.filter, names)));
}

}  // namespace

std::vector<Group> select_groups(const Options& options, Backend backend,
                                 std::span<const std::string> best) {
  std::set<std::string> names;
  std::vector<Group> groups = selected_groups(options, backend, best, names);
  if (groups.empty()) throw nothing_matches(options, names);
  return groups;
}

std::set<std::string> select_versions(Options options) {
  options.draw_problems(Backend::host);
  const auto host = open_host_device();
  std::set<std::string> names, versions;
  for (const Backend backend : {Backend::cuda, Backend::host}) {
    const auto best =
        backend == Backend::host ? best_benchmarks(options, *host) : std::vector<std::string>{};
    for (const Group& group : selected_groups(options, backend, best, names)) {
      for (const Kernel* kernel : group.kernels) {
        if (std::ranges::count(group.selected, group.name_of(*kernel)) > 0)
          versions.insert(full_name(*kernel));
      }
    }
  }
  if (versions.empty()) throw nothing_matches(options, names);
  return versions;
}

std::string memory_shortfall(const Family& family, const Problem& problem, DType dtype,
                             const Device& device, double extra_bytes) {
  // The inputs and the answer are made outside the device first: on the host executor that is the
  // same memory, and so is that of all devices.
  const int copies = device.backend() == Backend::host ? 2 * family.devices(problem, dtype) : 1;
  const double needed = copies * (family.memory(problem, dtype) + extra_bytes);
  const auto free = static_cast<double>(device.free_memory());
  if (needed <= 0.95 * free) return "";
  return fmt::format(
      "{} needs {:.1f} GB with its reference, {:.1f} GB are free; choose a smaller problem",
      problem.text(), needed / 1e9, free / 1e9);
}

Row unmeasured_row(const Group& group, const Kernel& kernel) {
  Row row;
  row.kernel = &kernel;
  row.family = kernel.family;
  row.op = kernel.op;
  row.label = label(kernel);
  row.idea = kernel.version.idea;
  row.dtype = kernel.dtype;
  row.backend = kernel.backend;
  row.problem = group.problem.text();
  row.values = values_text(group.family->fields, group.problem.own());
  row.file_hash = hashes_text(group.family->fields, group.problem.own());
  row.cache = group.cache;
  row.cost = group.family->cost(group.problem, group.dtype);
  return row;
}

const Row* fastest(std::span<const Row> rows) { return fastest_of(rows, false); }

const Row* fastest_library(std::span<const Row> rows) { return fastest_of(rows, true); }

std::vector<Row> admit(const Group& group, Device& device, Roofs& roofs) {
  std::vector<Row> rows;
  for (const Kernel* kernel : group.kernels) {
    Row& row = rows.emplace_back(unmeasured_row(group, *kernel));
    const Support support = supports(*kernel, group.problem, device.info());
    if (!support.ok) row.check = {.verdict = Verdict::unsupported, .reason = support.reason};
  }
  const Family& family = *group.family;
  const Problem reduced = reduced_problem(group, device.info());
  const double extra = family.input_sets().size() > 1 ? family.memory(reduced, group.dtype) : 0;
  auto shortfall = [&] {
    return memory_shortfall(family, group.problem, group.dtype, device, extra);
  };
  if (!shortfall().empty()) roofs.release();
  if (const std::string why = shortfall(); !why.empty()) fail_all_that_passed(rows, why);
  return rows;
}

std::unique_ptr<Workload> check(const Context& context, std::span<Row> rows) {
  const auto& [group, device, seed, on_step] = context;
  const std::vector<InputSet> sets = group.family->input_sets();
  auto workload = opened(context, sets.front(), group.problem);
  if (std::ranges::any_of(workload->results(), &Workload::Result::count)) {  // the data tells
    for (Row& row : rows) row.cost = workload->cost();
  }
  for (Row* row : passed_so_far(rows)) {
    row->check = run_check(context, *row, "checking", *workload, &row->counters);
    if (row->check.verdict != Verdict::failed) row->launches = device.launches();
    if (row->check.verdict == Verdict::passed) continue;
    row->counters.reset();
    workload = opened(context, sets.front(), group.problem);
  }
  if (device.backend() == Backend::host) {
    check_again_on(context, sets.front(), group.problem, workload, passed_so_far(rows));
  }
  const Problem reduced = reduced_problem(group, device.info());
  for (std::size_t i = 1; i < sets.size() && !passed_so_far(rows).empty(); ++i) {
    auto inputs = opened(context, sets[i], reduced);
    check_again_on(context, sets[i], reduced, inputs, passed_so_far(rows));
  }
  return workload;
}

bool try_test_problems(const Context& context, TriedProblems& known, double seconds_of_checks,
                       std::span<Row> rows) {
  const auto& [group, device, seed, on_step] = context;
  const Family& family = *group.family;
  for (Row* row : passed_so_far(rows)) {
    if (const auto found = known.wrong.find(row->kernel); found != known.wrong.end()) {
      row->check = found->second;
      row->counters.reset();
    }
  }
  std::vector<std::pair<Problem, const Kernel*>> problems;  // whose it is; null: the family's
  for (Problem& problem : family.test_problems())
    problems.emplace_back(std::move(problem), nullptr);
  for (const Row* row : passed_so_far(rows)) {
    for (Problem& problem : family.own_test_problems(*row->kernel)) {
      problems.emplace_back(std::move(problem), row->kernel);
    }
  }
  std::mt19937_64 random(seed ^ std::hash<std::string>{}(group.problem.text()));
  std::ranges::shuffle(problems, random);
  const std::vector<InputSet> sets = family.input_sets();

  const bool host = device.backend() == Backend::host;
  known.host_seconds += TriedProblems::kShareOnHost * seconds_of_checks;
  double& left =
      known.seconds.try_emplace({&family, group.dtype}, TriedProblems::kSeconds).first->second;
  const auto work = [&](const Problem& problem) {
    const Cost cost = family.cost(problem, group.dtype);
    return cost.flops + cost.bytes();
  };
  bool all_right = true;
  for (const auto& [problem, whose] : problems) {
    if (left <= 0) break;
    const double expected = seconds_of_checks * work(problem) / work(group.problem);
    if (host && expected > known.host_seconds) continue;
    const InputSet& set = sets[random() % sets.size()];
    std::vector<Row*> trying = passed_so_far(rows);
    std::erase_if(trying, [&](const Row* row) {
      return (whose && whose != row->kernel) || !must_pass(*row->kernel, set, device.backend()) ||
             !supports(*row->kernel, problem, device.info()).ok ||
             known.tried.contains({row->kernel, problem.text()});
    });
    if (trying.empty() || !memory_shortfall(family, problem, group.dtype, device).empty()) continue;
    const auto began = std::chrono::steady_clock::now();
    auto inputs = opened(context, set, problem);
    check_again_on(context, set, problem, inputs, trying, true);
    for (const Row* row : trying) {
      known.tried.emplace(row->kernel, problem.text());
      if (row->check.verdict == Verdict::passed) continue;
      known.wrong.emplace(row->kernel, row->check);
      all_right = false;
    }
    const double spent = seconds_since(began);
    left -= spent;
    known.host_seconds -= spent;
  }
  return all_right;
}

Contest contend(const Context& context, Workload& workload, Roofs& roofs, const Sampling& sampling,
                std::span<Row> rows) {
  const auto& [group, device, seed, on_step] = context;
  const bool gpu = device.backend() == Backend::cuda;
  std::vector<Contestant> contestants;
  for (Row* row : passed_so_far(rows)) {
    const Workload::Prepared prepared = workload.prepare(*row->kernel);
    row->plan_us = prepared.plan_us;
    contestants.push_back({row->kernel, prepared.call});
  }
  const auto versions = static_cast<std::ptrdiff_t>(contestants.size());
  auto variation = std::make_unique<WorkloadVariation>(workload, device, seed, contestants.size());
  // A graph's launches would each go on with what the one before has written.
  const bool alike =
      group.cache != Cache::hot || !std::ranges::any_of(workload.results(), [](auto& result) {
        return result.array.role == Role::in_place;
      });
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    contestants[i].variation = variation.get();
    if (alike) contestants[i].kept_as = variation->kept_as(i);
  }
  if (gpu) {  // A/A
    contestants.push_back(contestants.front());
    contestants.back().kept_as.reset();
  }
  std::vector<Roofs::Bound> bounds;
  const bool on_one = group.family->devices(group.problem, group.dtype) == 1;
  if (!group.family->measures && on_one) {  // as the roofs are
    on_step({.doing = "measuring the roofs", .kernels = roofs.kernels()});
    const Cost& cost = rows.front().cost;
    bounds = roofs.bounds(cost, group.family->demands(group.problem, group.dtype, cost));
  }
  for (const Roofs::Bound& bound : bounds) {
    contestants.insert(contestants.end(), bound.contestants.begin(), bound.contestants.end());
  }
  on_step({.doing = "timing", .kernels = contestants.size()});
  const std::vector<Samples> samples = device.measure(contestants, group.cache, sampling);
  for (const Samples& s : samples) {
    if (!s.error.empty()) expect_device(device, s.error);
  }

  Contest contest{.versions{samples.begin(), samples.begin() + versions},
                  .variation = std::move(variation)};
  auto next = samples.begin() + versions;
  if (gpu) contest.first_again = *next++;
  for (const Roofs::Bound& bound : bounds) {
    for (std::size_t i = 0; i < bound.contestants.size(); ++i, ++next) {
      if (next->us.empty()) continue;
      const double us = middle_mean(next->us) * bound.launches;
      const auto [known, is_new] = contest.roof_us.emplace(bound.name, us);
      known->second = std::min(known->second, us);
    }
  }
  return contest;
}

void recheck(const Context& context, Workload& workload, const Contest& contest,
             std::span<Row> rows) {
  const auto& [group, device, seed, on_step] = context;
  if (contest.variation) contest.variation->restore();
  if (!workload.inputs_are_intact()) {
    throw std::runtime_error("one of those that took turns changed the inputs");
  }
  on_step({.doing = "preparing the inputs of a timed launch"});
  const bool any_kept = contest.variation && contest.variation->go_back();
  const auto refuse = [](Row& row, std::string_view when, CheckResult found) {
    found.reason = fmt::format("{}: {}", when, found.reason);
    row.check = std::move(found);
  };
  const std::vector<Row*> passed = passed_so_far(rows);
  for (std::size_t i = 0; i < passed.size(); ++i) {
    Row& row = *passed[i];
    const Samples& samples = contest.versions[i];
    if (any_kept && samples.error.empty() && contest.variation->kept_as(i)) {
      CheckResult timed = contest.variation->judge_kept(i);
      if (timed.verdict != Verdict::passed) {
        refuse(row, "a timed launch", std::move(timed));
        continue;
      }
    }
    CheckResult again = run_check(context, row, "checking again", workload);
    if (!samples.error.empty()) {
      row.check = {.verdict = Verdict::failed, .reason = samples.error};
    } else if (again.verdict != Verdict::passed) {
      refuse(row, "after timing", std::move(again));
    } else {
      row.samples = samples;
    }
  }
}

void rank(std::span<Row> rows) {
  const Row* const library = fastest_library(rows);
  const Row* const best = fastest(rows);
  std::vector<GpuState> states;
  for (const Row& row : rows) {
    const std::vector<GpuState>& own = row.samples.states;
    states.insert(states.end(), own.begin(), own.end());
  }
  const double sm_mhz = states.empty() ? 0 : median(readings(states, &GpuState::sm_mhz));
  const double power_w = states.empty() ? 0 : median(readings(states, &GpuState::power_w));
  for (Row& row : rows) {
    const double short_us = Row::kShort * row.launch_us;
    row.is_short = (library && library->us() < short_us) || (best && best->us() < short_us);
    row.sm_mhz = sm_mhz;
    row.power_w = power_w;
  }
  if (library) {
    for (Row& row : rows) {
      row.library = library->label;
      if (row.timed()) row.vs_library = time_ratio(*library, row);
    }
  }
  if (best && best->aa) {
    for (Row& row : rows) {
      if (!row.timed()) continue;
      row.vs_fastest = time_ratio(*best, row);
      row.fastest = !row.kernel->version.baseline && row.suspect() == best->suspect() &&
                    row.vs_fastest->high >= 1;
    }
  }
}

void compare(const Contest& contest, std::size_t l2_bytes, std::span<Row> rows) {
  const Row& first = rows.front();
  if (!contest.first_again.us.empty()) {
    const Estimate aa = paired_ratio(contest.versions.front().us, contest.first_again.us);
    for (Row& row : rows) row.aa = aa;
  }
  if (contest.roof_us.contains("dram")) {  // else the bytes may take longer than all that is known
    const bool in_l2 =
        first.cache == Cache::hot && first.cost.bytes() <= static_cast<double>(l2_bytes);
    const auto& [name, us] =
        *std::ranges::max_element(contest.roof_us, {}, [](const auto& one) { return one.second; });
    for (Row& row : rows) {
      row.roof = name == "dram" && in_l2 ? "l2" : name;
      row.roof_us = us;
    }
  }
  rank(rows);
}

std::vector<Row> measure(const Group& group, Device& device, std::uint64_t seed, Roofs& roofs,
                         const Sampling& sampling, const OnStep& on_step, TriedProblems* known) {
  const Context context{group, device, seed, on_step};
  std::vector<Row> rows = admit(group, device, roofs);
  try {
    if (passed_so_far(rows).empty()) return rows;
    const auto began = std::chrono::steady_clock::now();
    std::unique_ptr<Workload> workload = check(context, rows);
    if (known && !try_test_problems(context, *known, seconds_since(began), rows)) {
      workload = opened(context, group.family->input_sets().front(), group.problem);
    }
    if (passed_so_far(rows).empty()) return rows;
    if (!group.family->measures) {
      const double launch_us = roofs.launch_us(group.cache);
      for (Row& row : rows) row.launch_us = launch_us;
    }
    const Contest contest = contend(context, *workload, roofs, sampling, rows);
    recheck(context, *workload, contest, rows);
    if (device.backend() == Backend::cuda) compare(contest, device.info().l2_bytes, rows);
  } catch (const std::exception& error) {
    expect_device(device, error.what());
    fail_all_that_passed(rows, error.what());
  }
  return rows;
}

}  // namespace ladder
