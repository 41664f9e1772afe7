// Idea      the 32 threads of a warp lie along a row of C
// Vs v01    x and y trade places: a warp's loads of B and stores of C fall into 4 neighbouring
//           sectors instead of 32, and its loads of A are one address, broadcast
// Bound by  L1 bandwidth: every FMA needs two loads
// Limits    none
#include "gemm.hpp"

namespace {

__global__ void coalesced(gemm::Args<float> g) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= g.m || col >= g.n) return;
  float sum = 0;
  for (int k = 0; k < g.k; ++k) {
    sum += g.a[std::int64_t{row} * g.k + k] * g.b[std::int64_t{k} * g.n + col];
  }
  g.c[std::int64_t{row} * g.n + col] = sum;
}

struct Coalesced {
  static constexpr ladder::Version version{"one thread per element, a warp along a row"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 block(32, 32);
    const dim3 grid(ladder::ceil_div(g.n, 32), ladder::ceil_div(g.m, 32));
    ladder::launch(coalesced, grid, block, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= 32 * 65535 ? ladder::supported() : ladder::unsupported("M is over 2097120");
  }
};

const ladder::Register<Coalesced, gemm, float> registration;

}  // namespace
