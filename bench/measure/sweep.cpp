#include "measure/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <thread>

namespace ladder {

Sweep::Sweep(std::function<Opened()> open, std::uint64_t seed,
             std::optional<double> seconds_per_kernel, const Sampling& sampling, int processes)
    : open_(std::move(open)),
      seed_(seed),
      sampling_(sampling),
      processes_(processes),
      turn_(processes > 1 ? Turn::first : Turn::only),
      worker_(std::make_unique<Worker>(open_, seed_, sampling_, turn_)),
      machine_(worker_->machine()),
      seconds_per_kernel_(seconds_per_kernel.value_or(
          machine_.backend == Backend::cuda ? 60 : std::numeric_limits<double>::infinity())) {}

void Sweep::plan(std::span<const Group> groups) {
  planned_ = groups;
  // Elsewhere they would disturb each other's times.
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());  // 0: not known
  if (machine_.backend == Backend::host && processes_ == 1) most_ahead_ = cores - 1;
}

/// Makes the worker that has begun with the group the one that measures, if there is one.
bool Sweep::take_over(const Group& group) {
  const auto begun = std::ranges::find(ahead_, &group, &Ahead::group);
  if (begun == ahead_.end()) return false;
  if (worker_) spare_.push_back(std::move(worker_));
  worker_ = std::move(begun->worker);
  ahead_.erase(begun);
  return true;
}

void Sweep::begin_those_after(const Group& group) {
  // Small ones, so that none lacks the memory of another.
  const double small =
      static_cast<double>(machine_.free_memory) / (8 * static_cast<double>(most_ahead_ + 1));
  const auto at = std::ranges::find(planned_, &group, [](const Group& g) { return &g; });
  for (auto next = at; next != planned_.end() && ahead_.size() < most_ahead_; ++next) {
    if (next == at || next->family->memory(next->problem, next->dtype) > small) continue;
    if (std::ranges::count(ahead_, &*next, &Ahead::group) > 0) continue;
    auto worker = spare_worker();
    if (!worker || !worker->begin(*next)) return;
    ahead_.push_back({&*next, std::move(worker)});
  }
}

/// Null if none can be had.
std::unique_ptr<Worker> Sweep::spare_worker() {
  if (spare_.empty()) {
    try {
      return std::make_unique<Worker>(open_, seed_, sampling_);
    } catch (const std::runtime_error&) {
      return nullptr;
    }
  }
  auto worker = std::move(spare_.back());
  spare_.pop_back();
  return worker;
}

std::variant<std::vector<Row>, Fault> Sweep::attempt(const Group& group, const Listener& listener) {
  if (!worker_) {
    try {
      worker_ = std::make_unique<Worker>(open_, seed_, sampling_, turn_);
    } catch (const std::runtime_error& error) {
      device_gone_ = error.what();
      return Fault{nullptr, fmt::format("the device cannot be opened again: {}", device_gone_)};
    }
  }
  auto outcome = worker_->measure(group, seconds_per_kernel_, listener.on_step);
  if (auto* fault = std::get_if<Fault>(&outcome)) {
    worker_.reset();
    if (group.kernels.size() == 1) fault->kernel = group.kernels.front();
    listener.on_fault(group, *fault);
  }
  return outcome;
}

/// The rows of those that did not fault.
std::vector<Row> Sweep::measure_once(Group rest, Faults& faults, const Listener& listener) {
  std::vector<Row> measured;
  const auto faulted = [&](const Kernel* kernel) { return faults.contains(kernel); };
  std::erase_if(rest.kernels, faulted);
  while (!rest.kernels.empty()) {
    auto outcome = attempt(rest, listener);
    if (auto* rows = std::get_if<std::vector<Row>>(&outcome)) {
      measured = std::move(*rows);
      break;
    }
    const Fault& fault = std::get<Fault>(outcome);
    if (fault.kernel) {
      faults[fault.kernel] = fault.reason;
      if (fault.on_test_problem) faulty_[fault.kernel] = fault.reason;
    } else if (device_gone_.empty()) {
      // They took turns. Which of them was it? The one that faults alone.
      for (const Kernel* kernel : rest.kernels) {
        Group alone = rest;
        alone.kernels = {kernel};
        const auto tried = attempt(alone, listener);
        if (const auto* own = std::get_if<Fault>(&tried)) faults[kernel] = own->reason;
      }
    }
    const std::size_t before = rest.kernels.size();
    std::erase_if(rest.kernels, faulted);
    if (rest.kernels.size() == before) {  // nobody in particular
      for (const Kernel* kernel : rest.kernels) faults[kernel] = fault.reason;
      rest.kernels.clear();
    }
  }
  return measured;
}

std::vector<Row> Sweep::measure(const Group& group, const Listener& listener) {
  const bool begun = take_over(group);
  begin_those_after(group);
  Faults faults;
  if (!begun) faults = faulty_;
  std::map<const Kernel*, std::vector<Row>> measured;
  Group rest = group;
  const Turn turn = turn_;
  std::unique_ptr<Worker> first;
  for (int process = 1; process <= processes_ && !rest.kernels.empty(); ++process) {
    const std::string which =
        processes_ > 1 ? fmt::format("process {} of {}", process, processes_) : "";
    Listener told = listener;
    if (processes_ > 1) {
      told.on_step = [&](Step step) {
        step.doing += " in " + which;
        listener.on_step(step);
      };
    }
    if (process > 1) {
      if (process == 2) first = std::move(worker_);
      worker_.reset();
      turn_ = Turn::further;
    }
    const Faults before = faults;
    for (Row& row : measure_once(rest, faults, told)) {
      std::string& reason = row.check.reason;
      if (process > 1 && row.check.verdict != Verdict::passed) reason.insert(0, which + ": ");
      measured[row.kernel].push_back(std::move(row));
    }
    for (auto& [kernel, reason] : faults) {
      if (process > 1 && !before.contains(kernel)) reason.insert(0, which + ": ");
    }
    std::erase_if(rest.kernels, [&](const Kernel* kernel) {
      return faults.contains(kernel) || measured[kernel].back().check.verdict != Verdict::passed;
    });
  }
  if (turn_ == Turn::further) worker_ = std::move(first);
  turn_ = turn;

  std::vector<Row> rows;
  for (const Kernel* kernel : group.kernels) {
    if (const auto fault = faults.find(kernel); fault != faults.end()) {
      rows.push_back(unmeasured_row(group, *kernel));
      rows.back().check = {.verdict = Verdict::failed, .reason = fault->second};
      continue;
    }
    const std::vector<Row>& of_processes = measured[kernel];
    rows.push_back(processes_ > 1 ? merged(of_processes) : of_processes.front());
  }
  if (processes_ > 1 && machine_.backend == Backend::cuda) rank(rows);
  return rows;
}

}  // namespace ladder
