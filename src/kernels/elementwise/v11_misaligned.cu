// Idea      warning: misaligned access, every warp starts one element past a multiple of 128 bytes
// Vs v01    each access of a warp touches two lines and five sectors instead of one and four. The
//           next warp finds the fifth sector in a cache, so DRAM carries no more; but 128-bit
//           vectors are out of reach: they fault unless their address is a multiple of 16 bytes
// Bound by  how many loads are in flight, as v01
// Limits    none
#include "elementwise.hpp"

namespace {

using elementwise::relu;

__global__ void misaligned(relu::Args<float> a) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= a.n) return;
  const std::int64_t i = thread + 1 < a.n ? thread + 1 : 0;
  a.y[i] = relu::apply({a.x[0][i]});
}

struct Misaligned {
  static constexpr ladder::Version version{"warning: every warp one element off alignment"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    constexpr int kBlock = 256;
    ladder::launch(misaligned, ladder::ceil_div(a.n, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Misaligned, relu, float> registration;

}  // namespace
