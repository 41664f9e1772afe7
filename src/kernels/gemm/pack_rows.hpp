// A copy of B whose rows all start at multiples of 16 bytes, for many rows of A to be multiplied
// with: K-tiles of B are then copied by vectors, where else each number takes a copy of its own.
#pragma once

#include "aligned_rows.hpp"
#include "gemm.hpp"

namespace {

constexpr int kPackThreads = 256, kPackLoads = 4;  // of a thread, in flight together
constexpr int kPackCols = kPackThreads * kPackLoads;

/// Floats from one row of the copy to the next.
inline int packed_pitch(const gemm::Args<float>& g) { return ladder::ceil_div(g.n, V) * V; }

inline std::size_t packed_bytes(const gemm::Args<float>& g) {
  return static_cast<std::size_t>(g.k) * static_cast<std::size_t>(packed_pitch(g)) * sizeof(float);
}

/// What lies behind the columns of B is zero. A block has kPackCols columns of one row: rows and
/// columns both may be more than a grid has along y.
__global__ void __launch_bounds__(kPackThreads)
    pack_rows(gemm::Args<float> g, float* packed, int pitch) {
  const int blocks_of_row = ladder::ceil_div(pitch, kPackCols);
  const std::int64_t row = blockIdx.x / blocks_of_row;
  const float* const from = g.b + row * g.n;
  float* const to = packed + row * pitch;
  const int col = blockIdx.x % blocks_of_row * kPackCols + threadIdx.x;
  float numbers[kPackLoads];
#pragma unroll
  for (int i = 0; i < kPackLoads; ++i) {
    const int at = col + i * kPackThreads;
    numbers[i] = at < g.n ? from[at] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kPackLoads; ++i) {
    const int at = col + i * kPackThreads;
    if (at < pitch) to[at] = numbers[i];
  }
}

inline void launch_pack_rows(const gemm::Args<float>& g, float* packed, cudaStream_t stream) {
  const int pitch = packed_pitch(g);
  ladder::launch(pack_rows, std::int64_t{g.k} * ladder::ceil_div(pitch, kPackCols), kPackThreads, 0,
                 stream, g, packed, pitch);
}

}  // namespace
