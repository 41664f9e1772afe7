#include "measure/suite.hpp"

#include "cli/nearest.hpp"
#include "harness/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace ladder {
namespace {

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

/// On what a kernel is checked; the text is empty for the problem itself, its first inputs, and the
/// threads in the order of their numbers.
struct Conditions {
  std::string text{};
  unsigned lane_order = 0;
};

/// What all input sets but the first are tried on: see Contract. The problem itself if a version that
/// runs it can't run the smaller one.
Problem problem_of_all_inputs(const Group& group, const DeviceInfo& device) {
  const Problem smaller = group.family->smaller(group.problem);
  const bool alike = std::ranges::all_of(group.kernels, [&](const Kernel* kernel) {
    return supports(*kernel, smaller, device).ok || !supports(*kernel, group.problem, device).ok;
  });
  return alike ? smaller : group.problem;
}

}  // namespace

std::string Group::name_of(const Kernel& kernel) const {
  return full_name(kernel) + "/" + problem.text() + (cache == Cache::hot ? "/hot" : "");
}

const std::vector<Kernel>& kernels_for(Backend backend) {
  return backend == Backend::cuda ? registered_kernels() : open_host_device()->kernels();
}

std::vector<Group> select_groups(const Options& options, Backend backend) {
  std::vector<Group> groups;
  std::set<std::string> names;
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
            const std::string name = group.name_of(*kernel);
            names.insert(name);
            const bool selected = options.selects(name);
            if (selected) group.selected.push_back(name);
            if (selected || kernel->version.baseline) group.kernels.push_back(kernel);
          }
          if (!group.selected.empty()) groups.push_back(std::move(group));
        }
      }
    }
  }
  if (groups.empty()) {
    throw UsageError(
        fmt::format("No benchmark matches --benchmark_filter={} here{}; --list shows the versions, "
                    "--benchmark_list_tests every name.",
                    options.filter, near_to(options.filter, names)));
  }
  return groups;
}

std::string lack_of_memory(const Family& family, const Problem& problem, DType dtype,
                           const Device& device, double besides) {
  // The inputs and the answer are made outside the device first: on the host executor that is the
  // same memory.
  const int copies = device.backend() == Backend::host ? 2 : 1;
  const double needed = copies * (family.memory(problem, dtype) + besides);
  const auto free = static_cast<double>(device.free_memory());
  if (needed <= 0.95 * free) return "";
  return fmt::format(
      "{} needs {:.1f} GB with its reference, {:.1f} GB are free; choose a smaller problem",
      problem.text(), needed / 1e9, free / 1e9);
}

Row unmeasured_row(const Group& group, const Kernel& kernel) {
  Row row;
  row.kernel = &kernel;
  row.problem = group.problem.text();
  row.cache = group.cache;
  row.cost = group.family->cost(group.problem, group.dtype);
  return row;
}

const Row* fastest(std::span<const Row> rows) {
  auto time = [](const Row& row) { return std::make_pair(row.suspect(), row.us()); };
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (!row.timed() || row.kernel->version.baseline) continue;
    if (!best || time(row) < time(*best)) best = &row;
  }
  return best;
}

std::vector<Row> measure(const Group& group, Device& device, std::uint64_t seed, Roofs& roofs,
                         const Sampling& sampling, const OnStep& on_step) {
  std::vector<Row> rows;
  for (const Kernel* kernel : group.kernels) {
    Row& row = rows.emplace_back(unmeasured_row(group, *kernel));
    if (const Support support = supports(*kernel, group.problem, device.info()); !support.ok) {
      row.check = {.verdict = Verdict::unsupported, .reason = support.reason};
    }
  }
  std::vector<Row*> running;
  for (Row& row : rows) {
    if (row.check.verdict != Verdict::unsupported) running.push_back(&row);
  }
  auto fail = [&](const std::string& reason) {
    for (Row* row : running) row->check = {.verdict = Verdict::failed, .reason = reason};
    return rows;
  };
  auto expect_device = [&](const std::string& reason) {
    if (device.lost()) throw DeviceLost(reason);
  };
  auto checked = [&](const Row& row, const char* doing, Workload& workload,
                     const Conditions& on = {}, std::optional<Counters>* counters = nullptr) {
    const std::string where = on.text.empty() ? "" : fmt::format(" ({})", on.text);
    on_step({.doing = doing + where, .kernel = row.kernel, .kernels = 1});
    device.set_lane_order(on.lane_order);
    CheckResult result = check(*row.kernel, workload, device, counters);
    device.set_lane_order(0);
    if (!result.reason.empty() && !on.text.empty()) result.reason = on.text + "; " + result.reason;
    if (result.verdict == Verdict::failed) expect_device(result.reason);
    return result;
  };

  const bool gpu = device.backend() == Backend::cuda;
  const std::vector<InputSet> sets = group.family->input_sets();
  const Problem smaller = problem_of_all_inputs(group, device.info());
  const double besides = sets.size() > 1 ? group.family->memory(smaller, group.dtype) : 0;
  auto lack = [&] {
    return lack_of_memory(*group.family, group.problem, group.dtype, device, besides);
  };
  if (!lack().empty()) roofs.forget();
  if (!lack().empty()) return fail(lack());
  std::vector<Contestant> contestants;
  std::unique_ptr<Workload> workload;
  try {
    const auto open = [&](const InputSet& set, const Problem& problem) {
      on_step({.doing = "preparing the inputs"});
      return group.family->open(problem, group.dtype, set, seed, device);
    };
    const auto open_own = [&] { return open(sets.front(), group.problem); };
    workload = open_own();
    std::erase_if(running, [&](Row* row) {
      row->check = checked(*row, "checking", *workload, {}, &row->counters);
      if (row->check.verdict != Verdict::failed) row->resources = device.resources();
      if (row->check.verdict == Verdict::passed) return false;
      row->counters.reset();
      workload = open_own();  // a wrong kernel may have damaged it
      return true;
    });
    // Under another order of the threads, and on the inputs that break careless kernels
    auto try_all = [&](const InputSet& set, const Problem& problem,
                       std::unique_ptr<Workload>& inputs) {
      Conditions on{fmt::format("inputs: {}", set.name)};
      if (problem != group.problem) on.text += " at " + problem.text();
      if (!gpu) {
        on.lane_order = 1;
        on.text += "; lane order 1";
      }
      std::erase_if(running, [&](Row* row) {
        if (!must_pass(*row->kernel, set, device.backend())) return false;
        const CheckResult result = checked(*row, "checking", *inputs, on);
        if (result.verdict == Verdict::passed) return false;
        row->check = result;
        row->counters.reset();
        inputs = open(set, problem);
        return true;
      });
    };
    if (!gpu) try_all(sets.front(), group.problem, workload);
    for (std::size_t i = 1; i < sets.size() && !running.empty(); ++i) {
      auto inputs = open(sets[i], smaller);
      try_all(sets[i], smaller, inputs);
    }
    for (const Row* row : running) {
      workload->prepare(*row->kernel);
      contestants.push_back({row->kernel, workload->args()});
    }
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    expect_device(error.what());
    return fail(error.what());
  }
  const Cost& cost = rows.front().cost;
  std::size_t memory_roofs = 0;
  const Roofs::Arithmetic* arithmetic = nullptr;
  std::vector<Samples> samples;
  try {
    if (gpu && !running.empty()) contestants.push_back(contestants.front());  // A/A
    if (group.family->limit == Limit::none && !running.empty()) {
      on_step({.doing = "measuring the roofs", .kernels = roofs.kernels()});
      const auto streams = roofs.memory(cost);
      contestants.insert(contestants.end(), streams.begin(), streams.end());
      memory_roofs = streams.size();
      arithmetic = roofs.arithmetic(group.family->compute_roof(group.dtype), cost);
      if (arithmetic) contestants.push_back(arithmetic->contestant);
    }
    on_step({.doing = "timing", .kernels = contestants.size()});
    samples = device.measure(contestants, group.cache, sampling);
    for (const Samples& s : samples) {
      if (!s.error.empty()) expect_device(s.error);
    }
    if (!running.empty()) {
      if (!workload->inputs_are_intact()) {
        return fail("one of those that took turns changed the inputs");
      }
      // So that no result of before is right; in problems whose answer is made in a moment.
      constexpr double kMostBytes = 1e9;
      if (group.family->memory(group.problem, group.dtype) <= kMostBytes) {
        on_step({.doing = "preparing other inputs"});
        workload->refill(seed + 1);
      }
    }
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    expect_device(error.what());
    return fail(error.what());
  }
  auto next = samples.begin();
  for (Row* row : running) {
    const CheckResult again = checked(*row, "checking again", *workload);
    if (!next->error.empty()) {
      row->check = {.verdict = Verdict::failed, .reason = next->error};
    } else if (again.verdict != Verdict::passed) {
      row->check = again;
      row->check.reason = "after timing: " + again.reason;
    } else {
      row->samples = *next;
    }
    ++next;
  }
  if (!gpu || running.empty()) return rows;

  const Samples& first_again = *next++;
  if (!first_again.us.empty()) {
    const Estimate aa = paired_ratio(samples.front().us, first_again.us);
    for (Row& row : rows) row.aa = aa;
  }
  double memory_us = std::numeric_limits<double>::infinity();
  for (; memory_roofs > 0; --memory_roofs, ++next) {
    if (!next->us.empty()) memory_us = std::min(memory_us, middle_mean(next->us));
  }
  if (std::isfinite(memory_us)) {
    double arithmetic_us = 0;
    if (arithmetic && !next->us.empty()) {
      arithmetic_us = middle_mean(next->us) * cost.flops / arithmetic->flops;
    }
    const bool in_l2 =
        group.cache == Cache::hot && cost.bytes() <= static_cast<double>(device.info().l2_bytes);
    for (Row& row : rows) {
      row.roof = arithmetic_us > memory_us ? arithmetic->name : in_l2 ? "l2" : "dram";
      row.roof_us = std::max(arithmetic_us, memory_us);
    }
  }
  const Row& baseline = rows.front();
  if (baseline.kernel->version.baseline && baseline.timed()) {
    for (Row& row : rows) {
      row.baseline = label(*baseline.kernel);
      if (row.timed()) row.vs_baseline = paired_ratio(baseline.samples.us, row.samples.us);
    }
  }
  if (const Row* const best = fastest(rows); best && best->aa) {
    for (Row& row : rows) {
      if (!row.timed()) continue;
      row.vs_fastest = paired_ratio(best->samples.us, row.samples.us);
      row.fastest = !row.kernel->version.baseline && row.suspect() == best->suspect() &&
                    row.vs_fastest->high >= 1 - row.resolution();
    }
  }
  return rows;
}

}  // namespace ladder
