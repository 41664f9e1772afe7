// Idea      every block reads 128 tiles of an array that fits the L2, another one in each pass,
//           with loads that skip the L1; four vectors per thread are in flight
// Bound by  L2 bandwidth. In the cold protocol the first pass comes from DRAM, 1 part in 128
// Limits    none
#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using roofs::l2;
using Vec = ladder::Vec128<float>;

__global__ void __launch_bounds__(l2::kBlock) rotated_tiles(l2::Args<float> a) {
  alignas(Vec) __shared__ float of_warp[l2::kBlock / 32];
  constexpr int kFlight = 4;
  static_assert(l2::kPasses % kFlight == 0);
  const auto* const x = reinterpret_cast<const float4*>(a.x);
  constexpr int kVectors = l2::kTile / 4;
  const int shift = l2::kShift % a.tiles;
  int tile = static_cast<int>(blockIdx.x);
  float sum = 0;
  for (int pass = 0; pass < l2::kPasses; pass += kFlight) {
    float4 v[kFlight];
#pragma unroll
    for (int j = 0; j < kFlight; ++j) {
      v[j] = __ldcg(x + tile * kVectors + threadIdx.x);
      tile += shift;
      if (tile >= a.tiles) tile -= a.tiles;
    }
#pragma unroll
    for (int j = 0; j < kFlight; ++j) sum += (v[j].x + v[j].y) + (v[j].z + v[j].w);
  }

#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
#pragma unroll
  for (int w = 0; w < l2::kBlock / 32; w += Vec::size) {
    const Vec v = Vec::load(&of_warp[w]);
    sum += (v[0] + v[1]) + (v[2] + v[3]);
  }
  a.y[blockIdx.x] = sum;
}

struct RotatedTiles {
  static constexpr ladder::Version version{"every tile once per pass, past the L1"};

  static void launch(const l2::Args<float>& a, cudaStream_t stream) {
    ladder::launch(rotated_tiles, a.tiles, l2::kBlock, 0, stream, a);
  }
};

const ladder::Register<RotatedTiles, l2, float> registration;

}  // namespace
