#include "measure/roofs.hpp"

#include "harness/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ladder {

Roofs::Prepared Roofs::prepare(const Family& family, const Problem& problem, DType dtype) {
  Prepared out;
  out.problem = problem;
  out.bytes = family.memory(problem, dtype);
  if (out.bytes > 0.9 * static_cast<double>(device_.free_memory())) return out;
  out.workload = family.open(problem, dtype, family.input_sets().front(), seed_, device_);
  if (!out.workload) return out;  // not of this type
  for (const Kernel& kernel : device_.kernels()) {
    const bool ours = &family_of(kernel) == &family && kernel.dtype == dtype &&
                      supports(kernel, problem, device_.info()).ok;
    if (ours && check(kernel, *out.workload, device_).verdict == Verdict::passed) {
      out.contestants.push_back({&kernel, out.workload->prepare(kernel).call});
    }
  }
  return out;
}

double Roofs::launch_us(Cache cache) {
  const auto [known, is_new] = launch_us_.try_emplace(cache, 0);
  if (!is_new || device_.backend() != Backend::cuda) return known->second;
  for (const Family& family : families()) {
    if (!family.measures || family.measures(DType::f32).roof != "launch") continue;
    const Prepared empty =
        prepare(family, family.bench_problems(Backend::cuda).front(), DType::f32);
    if (empty.contestants.empty()) continue;
    const Samples samples = device_.measure(empty.contestants, cache, {}).front();
    if (!samples.us.empty()) known->second = middle_mean(samples.us);
  }
  return known->second;
}

std::vector<Contestant> Roofs::streams(const Cost& cost) {
  auto whole_vectors = [](double bytes) {
    return 16 * static_cast<std::uint64_t>(std::ceil(bytes / 16));
  };
  const auto dram = std::ranges::find_if(families(), [](const Family& family) {
    return family.measures && family.measures(DType::f32).roof == "dram";
  });
  if (dram == families().end()) return {};
  const Problem problem = dram->problem(
      fmt::format("{}x{}", whole_vectors(cost.bytes_read), whole_vectors(cost.bytes_written)));
  const auto known = std::ranges::find(streams_, problem, &Prepared::problem);
  if (known != streams_.end()) {
    streams_.splice(streams_.begin(), streams_, known);
  } else {
    // An eighth of the memory holds what other problems of the same size will need.
    double kept = 0;
    for (const Prepared& one : streams_) kept += one.bytes;
    const double most = (static_cast<double>(device_.free_memory()) + kept) / 8;
    const double bytes = cost.bytes();
    for (; !streams_.empty() && kept + bytes > most; streams_.pop_back())
      kept -= streams_.back().bytes;
    streams_.push_front(prepare(*dram, problem, DType::f32));
  }
  return streams_.front().contestants;
}

void Roofs::release() {
  streams_.clear();
  chosen_.clear();
  others_.clear();
}

std::size_t Roofs::kernels() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      device_.kernels(), [](const Kernel& k) { return family_of(k).measures != nullptr; }));
}

std::vector<Roofs::Bound> Roofs::bounds(const Cost& cost, std::span<const Demand> demands) {
  std::vector<Bound> all;
  if (device_.backend() != Backend::cuda) return all;
  for (const auto& [roof, amount] : demands) {
    if (amount <= 0) continue;
    if (roof == "dram") {
      all.push_back({.name = roof.name(), .contestants = streams(cost)});
      continue;
    }
    const auto known = chosen_.find(roof);
    const Chosen& chosen = known != chosen_.end() ? known->second : chosen_[roof] = choose(roof);
    const double pin_us = cost.bytes() / device_.info().pin_gbps / 1e3;
    if (!(chosen.rate > 0 && amount / chosen.rate >= pin_us / 2)) continue;
    all.push_back({chosen.name, {chosen.contestant}, amount / chosen.amount});
    if (roof.is_arithmetic() && amount != cost.flops) {
      all.back().name += fmt::format(" / {:.3g}", amount / cost.flops);
    }
  }
  return all;
}

Roofs::Chosen Roofs::choose(const Roof& roof) {
  Chosen best;
  for (const Family& family : families()) {
    for (const DType dtype : kDTypes) {
      if (!family.measures || family.measures(dtype).roof != roof) continue;
      const Problem problem = family.bench_problems(Backend::cuda).back();
      Prepared prepared = prepare(family, problem, dtype);
      if (prepared.contestants.empty()) continue;
      const double amount = family.measures(dtype).amount(family.cost(problem, dtype));
      const auto samples = device_.measure(prepared.contestants, Cache::cold, {});
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const double rate = samples[i].us.empty() ? 0 : amount / middle_mean(samples[i].us);
        if (rate <= best.rate) continue;
        best = {roof.name(), prepared.contestants[i], amount, rate};
        if (!roof.is_arithmetic()) continue;
        // The ops of one unit differ in their tiles: mma, mma_tf32, wgmma, ….
        best.name =
            fmt::format("{} {}", family.op.substr(0, family.op.find('_')), to_string(dtype));
      }
      others_.push_back(std::move(prepared));
    }
  }
  return best;
}

}  // namespace ladder
