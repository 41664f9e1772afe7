// Idea      the same 16 KiB of each stream by a block of 1024 threads
// Vs v01    32 KiB in flight per SM, not 128. A copy needs no more: on an H100 it is up to 3 %
//           faster, on an H200 up to 2 % slower. To read alone it is too little
// Bound by  DRAM bandwidth
// Limits    none
#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using roofs::dram;
using Args = dram::Args<float>;
using Vec = ladder::Vec128<float>;

constexpr int kBlock = 1024;
constexpr int kTile = dram::kChunk;       // vectors: a block that only reads writes one sum
constexpr int kVectors = kTile / kBlock;  // of a stream, per thread

/// y = x, or the sum of two or three streams, or x in two places. In a whole tile nothing is tested
/// between the loads, so that none of them waits for another.
template <bool kWhole, int kInputs, int kOutputs>
__device__ void move_tile(const Args& a, std::int64_t tile) {
  const std::int64_t first = tile * kTile + threadIdx.x;
  Vec in[kVectors][kInputs];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= a.mix.length) break;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      in[j][k] = Vec::load(a.x + (k * a.mix.length + v) * Vec::size);
    }
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= a.mix.length) break;
    Vec out = in[j][0];
#pragma unroll
    for (int k = 1; k < kInputs; ++k) {
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] += in[j][k][e];
    }
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      out.store(a.y + (k * a.mix.length + v) * Vec::size);
    }
  }
}

template <bool kWhole>
__device__ void read_tile(const Args& a, std::int64_t tile, float (&of_warp)[kBlock / 32]) {
  const float* const from = a.x + a.mix.inputs * a.mix.length * Vec::size;
  const std::int64_t first = tile * kTile + threadIdx.x;
  Vec in[kVectors] = {};
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (kWhole || v < a.mix.reads) in[j] = Vec::load(from + v * Vec::size);
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) sum += in[j][e];
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
#pragma unroll
  for (int w = 0; w < kBlock / 32; w += Vec::size) {
    const Vec v = Vec::load(&of_warp[w]);
    sum += (v[0] + v[1]) + (v[2] + v[3]);
  }
  a.sums[tile] = sum;
}

__device__ void write_tile(const Args& a, std::int64_t tile) {
  float* const to = a.y + a.mix.outputs * a.mix.length * Vec::size;
  const std::int64_t first = tile * kTile + threadIdx.x;
  constexpr float c = dram::kWritten;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (v < a.mix.writes) Vec{{c, c, c, c}}.store(to + v * Vec::size);
  }
}

template <int kInputs, int kOutputs>
__global__ void __launch_bounds__(kBlock)
    big_blocks(Args a, std::int64_t moves, std::int64_t reads) {
  alignas(Vec) __shared__ float of_warp[kBlock / 32];
  const std::int64_t tile = blockIdx.x;
  if constexpr (kInputs > 0) {
    if ((tile + 1) * kTile <= a.mix.length) return move_tile<true, kInputs, kOutputs>(a, tile);
    if (tile < moves) return move_tile<false, kInputs, kOutputs>(a, tile);
  }
  const std::int64_t read = tile - moves;
  if (read < reads) {
    const bool is_whole = (read + 1) * kTile <= a.mix.reads;
    return is_whole ? read_tile<true>(a, read, of_warp) : read_tile<false>(a, read, of_warp);
  }
  write_tile(a, tile - moves - reads);
}

struct BigBlocks {
  static constexpr ladder::Version version{"a block per 16 KiB, 1024 threads"};

  static void launch(const Args& a, cudaStream_t stream) {
    const std::int64_t moves = ladder::ceil_div(a.mix.length, kTile);
    const std::int64_t reads = ladder::ceil_div(a.mix.reads, kTile);
    const std::int64_t blocks = moves + reads + ladder::ceil_div(a.mix.writes, kTile);
    auto kernel = a.mix.is(3, 1)   ? big_blocks<3, 1>
                  : a.mix.is(2, 1) ? big_blocks<2, 1>
                  : a.mix.is(1, 1) ? big_blocks<1, 1>
                  : a.mix.is(1, 2) ? big_blocks<1, 2>
                                   : big_blocks<0, 0>;
    ladder::launch(kernel, blocks, kBlock, 0, stream, a, moves, reads);
  }
};

const ladder::Register<BigBlocks, dram, float> registration;

}  // namespace
