#include "roofs.hpp"

#include "harness/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ladder {

Roofs::Prepared Roofs::prepare(std::string_view op, const std::string& problem) {
  Prepared out;
  for (const Family& family : families()) {
    if (family.name != "roofs" || family.op != op) continue;
    if (family.memory(problem, DType::f32) > 0.9 * static_cast<double>(device_.free_memory()))
      break;
    out.workload = family.open(problem, DType::f32, family.input_sets().front(), seed_, device_);
    for (const Kernel& kernel : device_.kernels()) {
      const bool ours = kernel.family == family.name && kernel.op == op &&
                        kernel.dtype == DType::f32 && supports(kernel, problem, device_.info()).ok;
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
    memory_ = prepare("dram", problem);
    memory_problem_ = problem;
  }
  return memory_.contestants;
}

double Roofs::fma() {
  if (fma_ >= 0) return fma_;
  fma_ = 0;
  if (device_.backend() != Backend::cuda) return fma_;
  for (const Family& family : families()) {
    if (family.name != "roofs" || family.op != "fma") continue;
    const std::string problem = family.bench_problems(Backend::cuda).back();
    const Prepared prepared = prepare("fma", problem);
    const double flops = family.cost(problem, DType::f32).flops;
    for (const Samples& s : device_.measure(prepared.contestants, Cache::cold, {})) {
      if (!s.us.empty()) fma_ = std::max(fma_, flops / median(s.us) / 1e3);
    }
  }
  return fma_;
}

}  // namespace ladder
