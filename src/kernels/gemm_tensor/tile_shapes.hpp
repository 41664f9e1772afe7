// What v20 chooses from: the kernels of v13 (compiled there), of v15 (split_k.hpp) and of v24
// (pushed_sums.hpp), each with one shape of tile; and those that scripts/autotune.py tries.
#pragma once

#include "device/sm_count.hpp"
#include "persistent.hpp"
#include "pushed_sums.hpp"
#include "split_k.hpp"

namespace {

/// v13's kernel, with tiles of 128 x Cols.
template <int Cols>
struct Persistent {
  static constexpr const char* kRung = "v13";
  static constexpr int BM = gemm_persistent::BM, BN = Cols, kBlocksPerSm = 1;
  static constexpr std::array<int, 1> kSplits{1};
  static constexpr int kSumBytes = 0;  // of a tile, that go through shared memory as fp32
  template <class C>
  static constexpr bool kStores = true;  // C of this type

  template <class Op, class T, class C>
  static int resident_blocks(int) {
    return ladder::sm_count();
  }
  template <class Op, class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, int, cudaStream_t stream) {
    gemm_persistent::launch<Op, BN>(g, stream);
  }
};

/// v15's kernel.
template <int Rows, int Cols, int BlocksPerSm>
struct SplitK {
  using Shape = gemm_split_k::Shape<Rows, Cols, BlocksPerSm>;
  static constexpr const char* kRung = "v15";
  static constexpr int BM = Rows, BN = Cols, kBlocksPerSm = BlocksPerSm;
  static constexpr auto kSplits = gemm_split_k::kSplits;
  static constexpr int kSumBytes = sizeof(float) * BM * BN;
  template <class C>
  static constexpr bool kStores = true;

  template <class Op, class T, class C>
  static int resident_blocks(int splits) {
    return gemm_split_k::resident_blocks<Op, Shape, T, C>(splits);
  }
  template <class Op, class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, int splits, cudaStream_t stream) {
    gemm_split_k::launch<Op, Shape>(g, splits, stream);
  }
};

/// v24's kernel.
template <int Rows, int Cols, int BlocksPerSm>
struct PushedSums {
  using Shape = gemm_split_k::Shape<Rows, Cols, BlocksPerSm>;
  static constexpr const char* kRung = "v24";
  static constexpr int BM = Rows, BN = Cols, kBlocksPerSm = BlocksPerSm;
  static constexpr auto kSplits = gemm_pushed_sums::kSplits;
  static constexpr int kSumBytes = sizeof(float) * BM * BN;
  template <class C>
  static constexpr bool kStores = sizeof(C) == 2;

  template <class Op, class T, class C>
  static int resident_blocks(int splits) {
    return gemm_pushed_sums::resident_blocks<Op, Shape, T>(splits);
  }
  template <class Op, class T>
  static void launch(const gemm_tensor::Args<T>& g, int splits, cudaStream_t stream) {
    gemm_pushed_sums::launch<Op, Shape>(g, splits, stream);
  }
};

template <class... S>
struct Shapes {};

using Candidates =
    Shapes<Persistent<256>, Persistent<224>, SplitK<16, 64, 2>, SplitK<64, 128, 2>,
           SplitK<64, 128, 1>, SplitK<128, 64, 2>, SplitK<128, 64, 1>, SplitK<128, 128, 1>,
           SplitK<192, 128, 1>, SplitK<256, 64, 1>, SplitK<256, 128, 1>, PushedSums<128, 64, 1>,
           PushedSums<128, 64, 2>, PushedSums<128, 128, 1>, PushedSums<256, 64, 1>>;

}  // namespace
