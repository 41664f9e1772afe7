// Built with LADDER_ALL_TILES: v13's kernel with what might save energy, each as a version for nt of
// bf16, to be timed where large matrices hold the clock down: v20e_plain is v13 itself.
#if defined(LADDER_ALL_TILES)
#include "harness/multiprocessors.hpp"
#include "harness/ptx/register_budget.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_slices;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 256, BK = kDepth;
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;

/// What is changed.
struct Plain {
  static constexpr const char* file = "v20e_plain.sm90a.cu";
  static constexpr bool kBackwards = false;  // every other tile: its first slices are in the L2
  static constexpr bool kEvictC = false;     // C leaves the L2 first
  static constexpr int kBand = 16;           // rows of tiles
  static constexpr auto kFetch = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;  // of A and B
};
struct Backwards : Plain {
  static constexpr const char* file = "v20e_backwards.sm90a.cu";
  static constexpr bool kBackwards = true;
};
struct EvictC : Plain {
  static constexpr const char* file = "v20e_evict_c.sm90a.cu";
  static constexpr bool kEvictC = true;
};
struct WideFetch : Plain {
  static constexpr const char* file = "v20e_wide_fetch.sm90a.cu";
  static constexpr auto kFetch = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};
struct Band8 : Plain {
  static constexpr const char* file = "v20e_band8.sm90a.cu";
  static constexpr int kBand = 8;
};
struct Band12 : Plain {
  static constexpr const char* file = "v20e_band12.sm90a.cu";
  static constexpr int kBand = 12;
};
struct Band24 : Plain {
  static constexpr const char* file = "v20e_band24.sm90a.cu";
  static constexpr int kBand = 24;
};
struct All : Backwards {
  static constexpr const char* file = "v20e_backwards_evict_c_wide_fetch.sm90a.cu";
  static constexpr bool kEvictC = true;
  static constexpr auto kFetch = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};

template <class V>
using Tiles = gemm_slices::Tiles<BM, BN, V::kBand>;
template <Major kB, int>
constexpr int kStageOf = BK*(BM + kHeld<kB, BN>);  // elements

template <bool kEvictC>
__device__ __forceinline__ void store(const CUtensorMap* map, int x, int y, const void* shared,
                                      std::uint64_t policy) {
  if constexpr (!kEvictC) return tensor_store(map, x, y, shared);
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint"
      " [%0, {%1, %2}], [%3], %4;" ::"l"(map),
      "r"(x), "r"(y), "r"(shared_address(shared)), "l"(policy)
      : "memory");
}

/// As in store.hpp.
template <bool kEvictC, class T, int kSums>
__device__ __forceinline__ void store_patches(const CUtensorMap& map, T* patches, int row,
                                              int column, const float (&sum)[kSums],
                                              std::uint64_t policy) {
  using namespace ladder::ptx;
  constexpr int kCols = kSums * 2, kPatches = ladder::ceil_div(kCols, Patch::kCols);
  static_assert(kPatches % 2 == 0, "the next call begins with the other patch than this one ends");
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kPatches; ++j) {
    const int first = min(j * Patch::kCols, kCols - Patch::kCols);
    T* const patch = patches + j % 2 * Patch::kElements;
    if (lane == 0) bulk_wait_group_read<1>();  // the store before the last one has read it
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Patch::kCols / 16; ++i) {  // 16 x 16: four matrices, left ones first
      const float* const s = sum + first / 2 + i * 8;
      const int r = lane % 16, chunk = i * 2 + lane / 16;
      stmatrix(
          patch + r * Patch::kCols + (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      store<kEvictC>(&map, column + first, row, patch, policy);
      bulk_commit_group();
    }
  }
}

/// As in persistent.hpp.
template <class V, class T, Major kA, Major kB>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ CUtensorMap map_c, int slices, Tiles<V> tiles) {
  constexpr int kStage = kStageOf<kB, BN>;
  __shared__ Mbarrier full[kStages], empty[kStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the barriers exist; the last time that all warps meet

  Place<kStages> place;
  if (threadIdx.x >= kConsumers * 128) {  // the producer
    give_registers_back<24>();
    if (threadIdx.x != kConsumers * 128) return;
    for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
      const int2 corner = tiles.at(tile);
      const bool backwards = V::kBackwards && tile / gridDim.x % 2 == 1;
      for (int i = 0; i < slices; ++i, place.next()) {
        const int slice = backwards ? slices - 1 - i : i;
        T* const to = ring + place.stage * kStage;
        Mbarrier* const landed = &full[place.stage];
        // A fresh barrier takes the parity of the phase before for ended: the first round is free.
        mbarrier_wait(&empty[place.stage], place.parity ^ 1);
        mbarrier_arrive_expect_tx(landed, kStage * sizeof(T));
        load_slice<kA, BM>(to, &map_a, corner.y, slice * BK, landed);
        load_slice<kB, kHeld<kB, BN>>(to + BM * BK, &map_b, corner.x, slice * BK, landed);
      }
    }
    return;
  }

  take_registers<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* const patches = ring + kStages * kStage + warp * 2 * Patch::kElements;
  const std::uint64_t policy = V::kEvictC ? evict_first() : 0;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    float sum[BN / 2];
    int before = 0;  // the stage of the slice before
    for (int slice = 0; slice < slices; ++slice, place.next()) {
      const T* const from = ring + place.stage * kStage;
      const auto a = wgmma_descriptor<kA>(from + warpgroup * 64 * BK);
      const auto b = wgmma_descriptor<kB>(from + BM * BK);
      mbarrier_wait(&full[place.stage], place.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
        wgmma<BN, kA, kB, T>(sum, a + k * wgmma_step(kA), b + k * wgmma_step(kB), slice + k > 0);
      }
      wgmma_commit_group();
      wgmma_wait_group<1>();  // the slice before is done with, this one under way
      if (slice > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[before]);
      before = place.stage;
    }
    wgmma_wait_group<0>(sum);
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[before]);

    const int2 corner = tiles.at(tile);
    store_patches<V::kEvictC>(map_c, patches, corner.y + warp * Patch::kRows, corner.x, sum,
                              policy);
  }
  if (lane == 0) bulk_wait_group_read<0>();
}

template <class V>
struct Variant {
  static constexpr ladder::Version version{"v13 with what might save energy"};

  static void launch(const gemm_tensor::Args<ladder::bfloat16>& g, cudaStream_t stream) {
    using T = ladder::bfloat16;
    using Op = gemm_tensor_nt;
    constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
    constexpr int kElements = kStages * kStageOf<kB, BN> + kConsumers * 4 * 2 * Patch::kElements;
    constexpr std::size_t kShared = kElements * sizeof(T) + 1024;  // to begin at 1024 n
    auto operand = [&](const T* matrix, int mn, int rows) {
      return ladder::tensor_map(
          ladder::DTypeOf<T>::value, matrix,
          {{.size = g.k, .stride = sizeof(T), .box = kDepth},
           {.size = mn, .stride = g.k * std::int64_t{sizeof(T)}, .box = rows}},
          CU_TENSOR_MAP_SWIZZLE_128B, V::kFetch);
    };
    const Tiles<V> tiles(g.m, g.n);
    ladder::launch(multiply<V, T, kA, kB>, tiles.blocks(ladder::multiprocessors()), kThreads,
                   kShared, stream, operand(g.a, g.m, BM), operand(g.b, g.n, BN),
                   output_map(g.c, g.m, g.n, Patch::kRows), ladder::ceil_div(g.k, BK), tiles);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.m == 0 || p.n == 0 || p.k == 0) return ladder::unsupported("empty");
    return gemm_slices::supports<gemm_tensor_nt>(p);
  }
};

template <class... V>
bool register_all() {
  (void(ladder::Register<Variant<V>, gemm_tensor_nt, ladder::bfloat16>(ladder::kBackend, V::file)),
   ...);
  return true;
}

const bool registered =
    register_all<Plain, Backwards, EvictC, WideFetch, Band8, Band12, Band24, All>();

}  // namespace
#endif
