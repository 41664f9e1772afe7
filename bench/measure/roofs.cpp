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

std::vector<Contestant> Roofs::memory(const Cost& cost) {
  if (device_.backend() != Backend::cuda) return {};
  auto whole_vectors = [](double bytes) {
    return 16 * static_cast<std::uint64_t>(std::ceil(bytes / 16));
  };
  const auto dram = std::ranges::find(families(), Limit::dram, &Family::limit);
  const Problem problem = dram->problem(
      fmt::format("{}x{}", whole_vectors(cost.bytes_read), whole_vectors(cost.bytes_written)));
  const auto known = std::ranges::find(memory_, problem, &Prepared::problem);
  if (known != memory_.end()) {
    memory_.splice(memory_.begin(), memory_, known);
  } else {
    // An eighth of the memory holds what other problems of the same size will need.
    double kept = 0;
    for (const Prepared& one : memory_) kept += one.bytes;
    const double most = (static_cast<double>(device_.free_memory()) + kept) / 8;
    const double bytes = cost.bytes();
    for (; !memory_.empty() && kept + bytes > most; memory_.pop_back())
      kept -= memory_.back().bytes;
    memory_.push_front(prepare(*dram, problem, DType::f32));
  }
  return memory_.front().contestants;
}

void Roofs::release() { memory_.clear(); }

std::size_t Roofs::kernels() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      device_.kernels(), [](const Kernel& k) { return family_of(k).limit != Limit::none; }));
}

const Roofs::Arithmetic* Roofs::arithmetic(const ComputeRoof& roof, const Cost& cost) {
  if (device_.backend() != Backend::cuda) return nullptr;
  const auto known = arithmetic_.find(roof);
  const Arithmetic& chosen =
      known != arithmetic_.end() ? known->second : arithmetic_[roof] = choose(roof);
  const double pin_us = cost.bytes() / device_.info().pin_gbps / 1e3;
  const bool may_bound = chosen.flops > 0 && cost.flops / chosen.gflops / 1e3 >= pin_us / 2;
  return may_bound ? &chosen : nullptr;
}

Roofs::Arithmetic Roofs::choose(const ComputeRoof& roof) {
  Arithmetic best;
  for (const Family& family : families()) {
    if (family.limit != (roof.unit == ComputeRoof::Unit::fma ? Limit::fma : Limit::tensor))
      continue;
    const Problem problem = family.bench_problems(Backend::cuda).back();
    Prepared prepared = prepare(family, problem, roof.dtype);
    const double flops = family.cost(problem, roof.dtype).flops / roof.products;
    const auto samples = device_.measure(prepared.contestants, Cache::cold, {});
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double gflops = samples[i].us.empty() ? 0 : flops / middle_mean(samples[i].us) / 1e3;
      if (gflops <= best.gflops) continue;
      // The ops of one unit differ in their tiles: mma, mma_tf32, wgmma, ….
      const std::string_view unit = family.op.substr(0, family.op.find('_'));
      best = {fmt::format("{} {}", unit, to_string(roof.dtype)), prepared.contestants[i], flops,
              gflops};
      if (roof.products > 1) best.name += fmt::format(" / {}", roof.products);
    }
    of_arithmetic_.push_back(std::move(prepared));
  }
  return best;
}

}  // namespace ladder
