// Idea      the TMA unit of each SM copies whole tiles between memory and shared memory; one thread
//           per block issues the copies, the others only add up where there is something to add
// Vs v02    no registers, no instruction per 16 bytes; six tiles of 16 KiB per block in flight
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0
// Tile      1024 vectors; six slots, 96 KiB of shared memory, two blocks per SM
#include "device/ptx/tma.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"
#include "roofs.hpp"

namespace {

using namespace ladder::ptx;
using roofs::dram;
using Args = dram::Args<float>;
using Vec = ladder::Vec128<float>;

constexpr int kBlock = 128;
constexpr int kBlocksPerSm = 2;
constexpr int kTile = dram::kChunk;  // vectors
constexpr int kFloats = kTile * Vec::size;
constexpr int kSlots = 6;

/// The block's tiles among those of an array of `length` vectors: every gridDim.x-th.
struct Partition {
  std::int64_t length;
  __device__ std::int64_t tile(std::int64_t i) const { return blockIdx.x + i * gridDim.x; }
  __device__ bool has(std::int64_t i) const { return tile(i) * kTile < length; }
  __device__ std::int64_t offset(std::int64_t i) const { return tile(i) * kFloats; }  // floats
  __device__ int vectors(std::int64_t i) const {
    return static_cast<int>(min(std::int64_t{kTile}, length - tile(i) * kTile));
  }
  __device__ unsigned bytes(std::int64_t i) const { return 16 * vectors(i); }
};

template <int kInputs, int kOutputs>
__device__ void move(const Args& a, float* slots, Mbarrier* full) {
  constexpr int kStages = kSlots / kInputs;
  const Partition part{a.mix.length};
  const std::int64_t stream = a.mix.length * Vec::size;
  const auto slot = [&](std::int64_t i, int k) {
    return slots + (i % kStages * kInputs + k) * kFloats;
  };
  const auto fetch = [&](std::int64_t i) {
    if (!part.has(i)) return;
    mbarrier_arrive_expect_tx(&full[i % kStages], kInputs * part.bytes(i));
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      bulk_load(slot(i, k), a.x + k * stream + part.offset(i), part.bytes(i), &full[i % kStages]);
    }
  };

  const bool leader = threadIdx.x == 0;
  if (leader) {
    for (int i = 0; i < kStages; ++i) fetch(i);
  }
  for (std::int64_t i = 0; part.has(i); ++i) {
    if (leader || kInputs > 1) mbarrier_wait(&full[i % kStages], i / kStages % 2);
    if constexpr (kInputs > 1) {
      for (int v = static_cast<int>(threadIdx.x); v < part.vectors(i); v += kBlock) {
        Vec sum = Vec::load(slot(i, 0) + v * Vec::size);
#pragma unroll
        for (int k = 1; k < kInputs; ++k) {
          const Vec other = Vec::load(slot(i, k) + v * Vec::size);
#pragma unroll
          for (int e = 0; e < Vec::size; ++e) sum[e] += other[e];
        }
        sum.store(slot(i, 0) + v * Vec::size);
      }
      fence_proxy_async();
      __syncthreads();
    }
    if (leader) {
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        bulk_store(a.y + k * stream + part.offset(i), slot(i, 0), part.bytes(i));
      }
      bulk_commit_group();
      bulk_wait_group_read<1>();  // of the tile before, whose slots are free now
      if (i > 0) fetch(i - 1 + kStages);
    }
  }
  if (leader) bulk_wait_group_read<0>();
  __syncthreads();
}

/// The rows of of_warp alternate, as in v02.
__device__ void read(const Args& a, float* slots, Mbarrier* full,
                     float (&of_warp)[2][kBlock / 32]) {
  const Partition part{a.mix.reads};
  const float* const from = a.x + a.mix.inputs * a.mix.length * Vec::size;
  const auto fetch = [&](std::int64_t i) {
    if (!part.has(i)) return;
    mbarrier_arrive_expect_tx(&full[i % kSlots], part.bytes(i));
    bulk_load(slots + i % kSlots * kFloats, from + part.offset(i), part.bytes(i),
              &full[i % kSlots]);
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) fetch(i);
  }
  for (std::int64_t i = 0; part.has(i); ++i) {
    mbarrier_wait(&full[i % kSlots], i / kSlots % 2);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kTile / kBlock; ++j) {
      const int v = j * kBlock + static_cast<int>(threadIdx.x);
      if (v >= part.vectors(i)) break;
      const Vec in = Vec::load(slots + i % kSlots * kFloats + v * Vec::size);
      sum += (in[0] + in[1]) + (in[2] + in[3]);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    if (threadIdx.x % 32 == 0) of_warp[i % 2][threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      fetch(i + kSlots);  // all have read the slot
      static_assert(kBlock / 32 == Vec::size);
      const Vec sums = Vec::load(of_warp[i % 2]);
#pragma unroll
      for (int w = 1; w < Vec::size; ++w) sum += sums[w];
      a.sums[part.tile(i)] = sum;
    }
  }
  __syncthreads();  // redundant: behind the last tile nobody reads a slot
}

__device__ void write(const Args& a, float* slot) {
  const Partition part{a.mix.writes};
  float* const to = a.y + a.mix.outputs * a.mix.length * Vec::size;
  for (int i = static_cast<int>(threadIdx.x); i < kFloats; i += kBlock) slot[i] = dram::kWritten;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (std::int64_t i = 0; part.has(i); ++i) {
    bulk_store(to + part.offset(i), slot, part.bytes(i));
    bulk_commit_group();
  }
  bulk_wait_group_read<0>();
}

template <int kInputs, int kOutputs>
__global__ void __launch_bounds__(kBlock, kBlocksPerSm) bulk(Args a) {
  float* const slots = ladder::dynamic_shared<float>();
  alignas(Vec) __shared__ float of_warp[2][kBlock / 32];
  __shared__ Mbarrier full[2][kSlots];  // for moves, for reads
  if (threadIdx.x == 0) {
    for (int s = 0; s < kSlots; ++s) {
      mbarrier_init(&full[0][s], 1);
      mbarrier_init(&full[1][s], 1);
    }
    fence_proxy_async();
  }
  __syncthreads();
  if constexpr (kInputs > 0) move<kInputs, kOutputs>(a, slots, full[0]);
  if (a.mix.reads > 0) read(a, slots, full[1], of_warp);
  if (a.mix.writes > 0) write(a, slots);
}

struct Bulk {
  static constexpr ladder::Version version{"bulk copies through shared memory"};

  static void launch(const Args& a, cudaStream_t stream) {
    auto kernel = a.mix.is(3, 1)   ? bulk<3, 1>
                  : a.mix.is(2, 1) ? bulk<2, 1>
                  : a.mix.is(1, 1) ? bulk<1, 1>
                  : a.mix.is(1, 2) ? bulk<1, 2>
                                   : bulk<0, 0>;
    constexpr std::size_t kBytes = kSlots * kFloats * sizeof(float);
    const auto blocks = static_cast<unsigned>(kBlocksPerSm * ladder::sm_count());
    ladder::launch(kernel, blocks, kBlock, kBytes, stream, a);
  }
};

const ladder::Register<Bulk, dram, float> registration;

}  // namespace
