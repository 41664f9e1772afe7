// What gemm_tensor's v20 estimates, for estimates_agree_test.py to compare with scripts/tuning:
//
//   gemm_estimates nn|nt|tn MxNxK ...
//
// prints a line for each of a problem's choices on a GPU of 132 multiprocessors: the problem, the number of
// the shape of tile, that of the way to share the product out, and nanoseconds.
#include "kernels/gemm_tensor/choice.hpp"

#include "host_executor/executor.hpp"

#include <cstdint>
#include <cstdio>
#include <string>

namespace {

template <class Op>
void print(int count, char** problems) {
  for (int i = 0; i < count; ++i) {
    typename Op::template Args<ladder::bfloat16> args{};
    if (std::sscanf(problems[i], "%dx%dx%d", &args.m, &args.n, &args.k) != 3) continue;
    for (const gemm_choice::Choice& one : gemm_choice::choices<Op>(args, SIZE_MAX)) {
      std::printf("%s %d %d %.17g\n", problems[i], one.shape, one.way, one.ns);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string op = argc > 1 ? argv[1] : "";
  ladder::host::set_sm_count(132);
  if (op == gemm_tensor_nn::op) print<gemm_tensor_nn>(argc - 2, argv + 2);
  if (op == gemm_tensor_nt::op) print<gemm_tensor_nt>(argc - 2, argv + 2);
  if (op == gemm_tensor_tn::op) print<gemm_tensor_tn>(argc - 2, argv + 2);
}
