// Idea      one thread per element of C, one dot product of length K each
// Vs        three nested loops on a CPU: the two outer ones became the grid
// Bound by  load instructions: the 32 threads of a warp lie in one column of C, so each of their
//           loads of A and stores of C touches 32 different memory sectors
// Limits    none
#include "gemm.hpp"

namespace {

__global__ void naive(gemm::Args<float> g) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= g.m || col >= g.n) return;
  float sum = 0;
  for (int k = 0; k < g.k; ++k) {
    sum += g.a[std::int64_t{row} * g.k + k] * g.b[std::int64_t{k} * g.n + col];
  }
  g.c[std::int64_t{row} * g.n + col] = sum;
}

struct Naive {
  static constexpr ladder::Version version{"one thread per element, a warp down a column"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 block(32, 32);
    const dim3 grid(ladder::ceil_div(g.m, 32), ladder::ceil_div(g.n, 32));
    ladder::launch(naive, grid, block, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.n <= 32 * 65535 ? ladder::supported() : ladder::unsupported("N is over 2097120");
  }
};

const ladder::Register<Naive, gemm, float> registration;

}  // namespace
