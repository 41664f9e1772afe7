// Idea      16 loads per thread from random places are in flight, once their indices have come
// Bound by  DRAM, of which each load of 4 bytes takes a sector of 32 or more
// Limits    none
// Tile      4096 loads, 256 threads
#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using roofs::gather;

__global__ void __launch_bounds__(gather::kBlock) random_loads(gather::Args<float> a) {
  using Indices = ladder::Vec128<std::int32_t>;
  constexpr int kVectors = gather::kLoads / Indices::size;
  const std::int64_t first = std::int64_t{blockIdx.x} * gather::kTile;
  Indices at[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int vector = v * gather::kBlock + static_cast<int>(threadIdx.x);
    at[v] = Indices::load(a.index + first + vector * Indices::size);
  }
  float x[gather::kLoads];
#pragma unroll
  for (int i = 0; i < gather::kLoads; ++i) x[i] = a.x[at[i / Indices::size][i % Indices::size]];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < gather::kLoads; ++i) sum += x[i];
  a.y[std::int64_t{blockIdx.x} * gather::kBlock + threadIdx.x] = sum;
}

struct RandomLoads {
  static constexpr ladder::Version version{"16 loads per thread from random places"};

  static void launch(const gather::Args<float>& a, cudaStream_t stream) {
    ladder::launch(random_loads, a.loads / gather::kTile, gather::kBlock, 0, stream, a);
  }
};

const ladder::Register<RandomLoads, gather, float> registration;

}  // namespace
