// Versions of transpose that do to a GPU what no kernel should; only faulty_bench has them. What each
// stands for on the host executor is in faulting_host_kernels.cpp, under the same name.
#include "kernels/transpose/transpose.hpp"

namespace {

using Args = transpose::Args<float>;

__global__ void transposes(Args a) {
  for (int i = threadIdx.x; i < a.rows * a.cols; i += blockDim.x) {
    a.out[i % a.cols * a.rows + i / a.cols] = a.in[i];
  }
}
__global__ void writes_nowhere(Args) { *reinterpret_cast<volatile float*>(8) = 1; }
__global__ void traps(Args) { asm volatile("trap;"); }
__global__ void never_ends(Args) {
  while (true) __nanosleep(1000);
}

template <auto kernel, std::size_t shared_bytes = 0>
struct Launch {
  static constexpr ladder::Version version{"a planted fault"};
  static void launch(const Args& a, cudaStream_t stream) {
    ladder::launch(kernel, dim3(1), dim3(256), shared_bytes, stream, a);
  }
};

struct FaultsWhenTimed {
  static constexpr ladder::Version version{"a planted fault, after the check"};
  static void launch(const Args& a, cudaStream_t stream) {
    static int runs = 0;
    const bool is_test_problem = a.rows != 66 && a.rows != 67;
    const bool checked = !is_test_problem && ++runs > 2;  // on both input sets
    ladder::launch(checked ? writes_nowhere : transposes, dim3(1), dim3(256), 0, stream, a);
  }
};

struct ThrowsANumber {
  static constexpr ladder::Version version{"a planted fault, of the host's code"};
  static void launch(const Args&, cudaStream_t) { throw 7; }
};

template <class V>
using Version = ladder::Register<V, transpose, float>;

const Version<Launch<writes_nowhere>> v90(ladder::kBackend, "v90_faults.cu");
const Version<Launch<traps>> v91(ladder::kBackend, "v91_ends_its_process.cu");
const Version<Launch<never_ends>> v92(ladder::kBackend, "v92_never_ends.cu");
const Version<FaultsWhenTimed> v93(ladder::kBackend, "v93_faults_when_timed.cu");
const Version<Launch<transposes, 1 << 20>> v94(ladder::kBackend, "v94_refused.cu");
const Version<ThrowsANumber> v95(ladder::kBackend, "v95_throws_a_number.cu");

}  // namespace
