// Idea      one wave of persistent blocks, each of which loops over its tiles; a block loads its next
//           tile before it stores the last one
// Vs v01    blocks start once, and fewer threads always have loads in flight; the partition of the
//           tiles among the blocks is static, so the last iteration may leave some blocks idle.
//           Streaming loads read an array of a few times the L2 faster (reduction v16's roof)
// Bound by  DRAM bandwidth
// Limits    none
#include "device/sm_count.hpp"
#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using roofs::dram;
using Args = dram::Args<float>;
using Vec = ladder::Vec128<float>;

constexpr int kBlock = 256;
constexpr int kBlocksPerSm = 4;

/// Thread by thread the vectors of one tile of a stream, as far as there are any.
template <int kVectors>
struct Tile {
  static constexpr int size = kBlock * kVectors;
  Vec vector[kVectors] = {};

  __device__ void load(const float* from, std::int64_t number, std::int64_t length) {
    const std::int64_t first = number * size + threadIdx.x;
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const std::int64_t v = first + j * kBlock;
      if (v < length) vector[j] = Vec::load_streaming(from + v * Vec::size);
    }
  }
  __device__ void store(float* to, std::int64_t number, std::int64_t length) const {
    const std::int64_t first = number * size + threadIdx.x;
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const std::int64_t v = first + j * kBlock;
      if (v < length) vector[j].store_streaming(to + v * Vec::size);
    }
  }
  __device__ void add(const Tile& other) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) vector[j][e] += other.vector[j][e];
    }
  }
};

using ReadTile = Tile<dram::kChunk / kBlock>;

template <int kInputs, int kOutputs>
__device__ void move(const Args& a) {
  using Moved = Tile<kInputs == 1 ? 4 : 2>;  // two tiles of each input are in registers
  const std::int64_t length = a.mix.length;
  const auto load = [&](Moved(&in)[kInputs], std::int64_t number) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) in[k].load(a.x + k * length * Vec::size, number, length);
  };
  Moved in[kInputs];
  load(in, blockIdx.x);
  for (std::int64_t tile = blockIdx.x; tile * Moved::size < length; tile += gridDim.x) {
    Moved next[kInputs];
    load(next, tile + gridDim.x);
#pragma unroll
    for (int k = 1; k < kInputs; ++k) in[0].add(in[k]);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) in[0].store(a.y + k * length * Vec::size, tile, length);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) in[k] = next[k];
  }
}

/// The rows of of_warp alternate: when warps write one again, thread 0 has read it, for it has been
/// at the barrier in between.
__device__ void read(const Args& a, float (&of_warp)[2][kBlock / 32]) {
  const float* const from = a.x + a.mix.inputs * a.mix.length * Vec::size;
  const std::int64_t length = a.mix.reads;
  ReadTile in;
  in.load(from, blockIdx.x, length);
  int row = 0;
  for (std::int64_t tile = blockIdx.x; tile * ReadTile::size < length; tile += gridDim.x) {
    ReadTile next;
    next.load(from, tile + gridDim.x, length);
    float sum = 0;
#pragma unroll
    for (const Vec& v : in.vector) sum += (v[0] + v[1]) + (v[2] + v[3]);
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    if (threadIdx.x % 32 == 0) of_warp[row][threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      sum = 0;
#pragma unroll
      for (int w = 0; w < kBlock / 32; w += Vec::size) {
        const Vec v = Vec::load(&of_warp[row][w]);
        sum += (v[0] + v[1]) + (v[2] + v[3]);
      }
      a.sums[tile] = sum;
    }
    in = next;
    row ^= 1;
  }
}

__device__ void write(const Args& a) {
  constexpr float c = dram::kWritten;
  float* const to = a.y + a.mix.outputs * a.mix.length * Vec::size;
  ReadTile tile;
  for (Vec& v : tile.vector) v = {{c, c, c, c}};
  for (std::int64_t t = blockIdx.x; t * ReadTile::size < a.mix.writes; t += gridDim.x) {
    tile.store(to, t, a.mix.writes);
  }
}

template <int kInputs, int kOutputs>
__global__ void __launch_bounds__(kBlock, kBlocksPerSm) persistent(Args a) {
  alignas(Vec) __shared__ float of_warp[2][kBlock / 32];
  if constexpr (kInputs > 0) move<kInputs, kOutputs>(a);
  read(a, of_warp);
  write(a);
}

struct Persistent {
  static constexpr ladder::Version version{"one wave of blocks, the next tile loaded ahead"};

  static void launch(const Args& a, cudaStream_t stream) {
    auto kernel = a.mix.is(3, 1)   ? persistent<3, 1>
                  : a.mix.is(2, 1) ? persistent<2, 1>
                  : a.mix.is(1, 1) ? persistent<1, 1>
                  : a.mix.is(1, 2) ? persistent<1, 2>
                                   : persistent<0, 0>;
    const auto blocks = static_cast<unsigned>(kBlocksPerSm * ladder::sm_count());
    ladder::launch(kernel, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<Persistent, dram, float> registration;

}  // namespace
