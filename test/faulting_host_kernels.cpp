// Versions of transpose that do to the host executor's process what faulting_kernels.cu does to a
// GPU's; only faulty_bench has them. They are functions of the host, not kernels.
#include "harness/host/api.hpp"
#include "kernels/transpose/transpose.hpp"

#include <cstdlib>
#include <stdexcept>

namespace {

using ladder::Call, ladder::Kernel;

void transposes(const void* args) {
  const auto& a = *static_cast<const transpose::Args<float>*>(args);
  for (int i = 0; i < a.rows * a.cols; ++i) a.out[i % a.cols * a.rows + i / a.cols] = a.in[i];
}

void aborts(const Call&, cudaStream_t) { std::abort(); }
void ends_its_process(const Call&, cudaStream_t) { std::exit(3); }
void never_ends(const Call&, cudaStream_t) {
  for (volatile bool forever = true; forever;) continue;
}
void faults_when_timed(const Call& call, cudaStream_t) {
  static int runs = 0;
  const int rows = static_cast<const transpose::Args<float>*>(call.args)->rows;
  const bool is_test_problem = rows != 66 && rows != 67;
  // After it was checked on both input sets, and in another order
  if (!is_test_problem && ++runs > 3) std::abort();
  transposes(call.args);
}
void is_refused(const Call&, cudaStream_t) { throw std::runtime_error("too much shared memory"); }

void throws_a_number(const Call&, cudaStream_t) { throw 7; }

const bool registered = [] {
  auto& kernels = const_cast<std::vector<Kernel>&>(ladder_host_api()->kernels());
  auto add = [&](const char* file, void (*launch)(const Call&, cudaStream_t)) {
    kernels.push_back({"transpose",
                       "",
                       ladder::DType::f32,
                       {"a planted fault"},
                       file,
                       ladder::Backend::host,
                       launch,
                       [](const void*) { return ladder::supported(); }});
  };
  add("v90_faults.cu", aborts);
  add("v91_ends_its_process.cu", ends_its_process);
  add("v92_never_ends.cu", never_ends);
  add("v93_faults_when_timed.cu", faults_when_timed);
  add("v94_refused.cu", is_refused);
  add("v95_throws_a_number.cu", throws_a_number);
  return true;
}();

}  // namespace
