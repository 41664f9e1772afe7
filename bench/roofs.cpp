#include "roofs.hpp"

#include "harness/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ladder {

Roofs::Prepared Roofs::prepare(std::string_view op, const std::string& problem, DType dtype) {
  Prepared out;
  for (const Family& family : families()) {
    if (family.name != "roofs" || family.op != op) continue;
    if (family.memory(problem, dtype) > 0.9 * static_cast<double>(device_.free_memory())) break;
    out.workload = family.open(problem, dtype, family.input_sets().front(), seed_, device_);
    if (!out.workload) break;  // not of this type
    for (const Kernel& kernel : device_.kernels()) {
      const bool ours = kernel.family == family.name && kernel.op == op && kernel.dtype == dtype &&
                        supports(kernel, problem, device_.info()).ok;
      if (ours && check(kernel, *out.workload, device_).verdict == Verdict::passed) {
        out.contestants.push_back({&kernel, out.workload->args()});
      }
    }
  }
  return out;
}

std::vector<Contestant> Roofs::memory(const Cost& cost) {
  if (device_.backend() != Backend::cuda) return {};
  auto whole_vectors = [](double bytes) {
    return 16 * static_cast<std::uint64_t>(std::ceil(bytes / 16));
  };
  const std::string problem =
      fmt::format("{}x{}", whole_vectors(cost.bytes_read), whole_vectors(cost.bytes_written));
  if (problem != memory_problem_) {
    memory_ = {};  // its memory first
    memory_ = prepare("dram", problem, DType::f32);
    memory_problem_ = problem;
  }
  return memory_.contestants;
}

std::size_t Roofs::kernels() const {
  const auto& all = device_.kernels();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Kernel& k) {
    return k.family == std::string_view("roofs");
  }));
}

const Roofs::Rate& Roofs::compute(const ComputeRoof& roof) {
  const auto known = compute_.find(roof);
  return known != compute_.end() ? known->second : compute_[roof] = measure(roof);
}

Roofs::Rate Roofs::measure(const ComputeRoof& roof) {
  Rate best;
  if (device_.backend() != Backend::cuda) return best;
  for (const Family& family : families()) {
    // The ops of one unit differ in their tiles: mma, mma_tf32, wgmma, ….
    const std::string_view unit = family.op.substr(0, family.op.find('_'));
    const bool fits =
        roof.unit == ComputeRoof::Unit::fma ? unit == "fma" : unit == "mma" || unit == "wgmma";
    if (family.name != "roofs" || !fits) continue;
    const std::string problem = family.bench_problems(Backend::cuda).back();
    const Prepared prepared = prepare(family.op, problem, roof.dtype);
    if (prepared.contestants.empty()) continue;
    const double flops = family.cost(problem, roof.dtype).flops / roof.products;
    for (const Samples& s : device_.measure(prepared.contestants, Cache::cold, {})) {
      const double gflops = s.us.empty() ? 0 : flops / median(s.us) / 1e3;
      if (gflops <= best.gflops) continue;
      best = {fmt::format("{} {}", unit, to_string(roof.dtype)), gflops};
      if (roof.products > 1) best.name += fmt::format(" / {}", roof.products);
    }
  }
  return best;
}

}  // namespace ladder
