// The kernel of v01 and v04: a block per 16 KiB of each stream, in the order of memory. With fewer
// threads each has more vectors of a stream in flight.
#pragma once

#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using roofs::dram;
using Args = dram::Args<float>;
using Vec = ladder::Vec128<float>;

constexpr int kTile = dram::kChunk;  // vectors: a block that only reads writes one sum

/// y = x, or the sum of two or three streams, or x in two places. In a whole tile nothing is tested
/// between the loads, so that none of them waits for another.
template <int kBlock, bool kWhole, int kInputs, int kOutputs>
__device__ void move_tile(const Args& a, std::int64_t tile) {
  constexpr int kVectors = kTile / kBlock;  // of a thread
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

template <int kBlock, bool kWhole>
__device__ void read_tile(const Args& a, std::int64_t tile) {
  constexpr int kVectors = kTile / kBlock;
  alignas(Vec) __shared__ float of_warp[kBlock / 32];
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

template <int kBlock>
__device__ void write_tile(const Args& a, std::int64_t tile) {
  float* const to = a.y + a.mix.outputs * a.mix.length * Vec::size;
  const std::int64_t first = tile * kTile + threadIdx.x;
  constexpr float c = dram::kWritten;
#pragma unroll
  for (int j = 0; j < kTile / kBlock; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (v < a.mix.writes) Vec{{c, c, c, c}}.store(to + v * Vec::size);
  }
}

template <int kBlock, int kInputs, int kOutputs>
__global__ void __launch_bounds__(kBlock) one_shot(Args a, std::int64_t moves, std::int64_t reads) {
  const std::int64_t tile = blockIdx.x;
  if constexpr (kInputs > 0) {
    if ((tile + 1) * kTile <= a.mix.length)
      return move_tile<kBlock, true, kInputs, kOutputs>(a, tile);
    if (tile < moves) return move_tile<kBlock, false, kInputs, kOutputs>(a, tile);
  }
  const std::int64_t read = tile - moves;
  if (read < reads) {
    return (read + 1) * kTile <= a.mix.reads ? read_tile<kBlock, true>(a, read)
                                             : read_tile<kBlock, false>(a, read);
  }
  write_tile<kBlock>(a, tile - moves - reads);
}

template <int kBlock>
void launch_one_shot(const Args& a, cudaStream_t stream) {
  const std::int64_t moves = ladder::ceil_div(a.mix.length, kTile);
  const std::int64_t reads = ladder::ceil_div(a.mix.reads, kTile);
  const std::int64_t blocks = moves + reads + ladder::ceil_div(a.mix.writes, kTile);
  auto kernel = a.mix.is(3, 1)   ? one_shot<kBlock, 3, 1>
                : a.mix.is(2, 1) ? one_shot<kBlock, 2, 1>
                : a.mix.is(1, 1) ? one_shot<kBlock, 1, 1>
                : a.mix.is(1, 2) ? one_shot<kBlock, 1, 2>
                                 : one_shot<kBlock, 0, 0>;
  ladder::launch(kernel, blocks, kBlock, 0, stream, a, moves, reads);
}

}  // namespace
