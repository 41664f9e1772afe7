// Idea      128-bit loads of a tile, in which eight neighbouring lanes always cover all 32 banks
// Bound by  shared memory bandwidth, 128 bytes per cycle and SM: a load of a warp takes four
//           cycles, its index and additions take two of the four schedulers together
// Limits    none
#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using roofs::shared;
using Vec = ladder::Vec128<float>;

__global__ void __launch_bounds__(shared::kBlock) float4_loads(shared::Args<float> a) {
  __shared__ __align__(16) float tile[shared::kVectors * Vec::size];
  constexpr int kRows = shared::kVectors / shared::kBlock;
  const int t = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const int v = row * shared::kBlock + t;
    Vec::load(a.x + v * Vec::size).store(&tile[v * Vec::size]);
  }
  __syncthreads();

  // t ^ i takes every value once; it permutes groups of eight lanes, and lanes within a group.
  Vec sum{};
#pragma unroll 4
  for (int i = 0; i < shared::kPasses * shared::kBlock; ++i) {
    const int column = t ^ (i % shared::kBlock);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const Vec v = Vec::load(&tile[(row * shared::kBlock + column) * Vec::size]);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum[e] += v[e];
    }
  }
  a.y[std::int64_t{blockIdx.x} * shared::kBlock + t] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

struct Float4 {
  static constexpr ladder::Version version{"128-bit loads without bank conflicts"};

  static void launch(const shared::Args<float>& a, cudaStream_t stream) {
    ladder::launch(float4_loads, a.blocks, shared::kBlock, 0, stream, a);
  }
};

const ladder::Register<Float4, shared, float> registration;

}  // namespace
