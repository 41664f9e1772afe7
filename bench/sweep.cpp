#include "sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace ladder {

Sweep::Sweep(std::function<Opened()> open, std::uint64_t seed,
             std::optional<double> seconds_per_kernel, const Sampling& sampling)
    : open_(std::move(open)),
      seed_(seed),
      sampling_(sampling),
      worker_(std::make_unique<Worker>(open_, seed_, sampling_)),
      machine_(worker_->machine()),
      seconds_per_kernel_(seconds_per_kernel.value_or(
          machine_.backend == Backend::cuda ? 60 : std::numeric_limits<double>::infinity())) {}

std::variant<std::vector<Row>, Fault> Sweep::attempt(const Group& group, const Listener& listener) {
  if (!worker_) {
    try {
      worker_ = std::make_unique<Worker>(open_, seed_, sampling_);
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

std::vector<Row> Sweep::measure(const Group& group, const Listener& listener) {
  std::map<const Kernel*, std::string> faults;
  std::vector<Row> measured;
  Group rest = group;
  while (!rest.kernels.empty()) {
    auto outcome = attempt(rest, listener);
    if (auto* rows = std::get_if<std::vector<Row>>(&outcome)) {
      measured = std::move(*rows);
      break;
    }
    const Fault& fault = std::get<Fault>(outcome);
    if (fault.kernel) {
      faults[fault.kernel] = fault.reason;
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
    std::erase_if(rest.kernels, [&](const Kernel* kernel) { return faults.contains(kernel); });
    if (rest.kernels.size() == before) {  // nobody in particular
      for (const Kernel* kernel : rest.kernels) faults[kernel] = fault.reason;
      rest.kernels.clear();
    }
  }

  std::vector<Row> rows;
  for (const Kernel* kernel : group.kernels) {
    if (const auto fault = faults.find(kernel); fault != faults.end()) {
      rows.push_back(unmeasured_row(group, *kernel));
      rows.back().check = {.verdict = Verdict::failed, .reason = fault->second};
      continue;
    }
    rows.push_back(*std::find_if(measured.begin(), measured.end(),
                                 [&](const Row& row) { return row.kernel == kernel; }));
  }
  return rows;
}

}  // namespace ladder
