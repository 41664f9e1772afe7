// Idea      few rows: A is small, so it is copied into padded rows, as in v26, and comes by TMA; only B, which
//           is large and read once, goes through registers
// Vs v27    half of what warps load, shift and store was A, the same for all blocks. They have B's chunks
//           alone in flight now, twice as many of them, and begin with them while A is copied
// Bound by  DRAM bandwidth, of B
// Limits    compute capability 9.0
// Tile      32, 48, 64, 96 or 128 x 64, 64 deep; the consumers and the ring of v24; four groups of four producer
//           warps take turns with the K-tiles, and one thread of a group asks for A's
#include "device/ptx/griddepcontrol.hpp"
#include "padded_rows.hpp"
#include "realigned_tiles.hpp"

namespace gemm_pushed_sums {
namespace {

/// A by TMA, B through registers.
template <class Op, class Element, class Shape, int Groups>
struct RealignedB {
  using T = Element;
  using S = Shape;
  static constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  static constexpr int kGroups = Groups, kThreads = kGroups * 128;
  static constexpr int kArrivals = 4 + 1;  // of a group's warps, and with A's bytes

  template <class C>
  explicit RealignedB(const gemm_tensor::Args<T, C>& g)
      : a(operand_map(kA, g.a, g.m, g.k, S::BM, kDepth, g.pitch_a)),
        b{g.b, Op::kTransposedB ? g.n : g.k, Op::kTransposedB ? g.k : g.n, pitch_of_b<Op>(g)} {}

  /// By all producers.
  __device__ __forceinline__ void fill(Ring<T> ring, int row0, int col0, int first,
                                       int last) const {
    constexpr int kRowsOfA = kHeld<kA, S::BM>, kChunks = S::BN * 8 / 128;  // of a thread
    const int group = static_cast<int>(threadIdx.x) / 128 - S::kConsumers;
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < group; ++i) ring.state.advance();
    for (int k_tile = first + group; k_tile < last; k_tile += kGroups) {
      const int k = k_tile * BK;
      T* const to = ring.stages + ring.state.stage * (BK * (S::BN + kRowsOfA));
      Mbarrier* const full = &ring.full[ring.state.stage];
      TwoVectors both[kChunks];
#pragma unroll
      for (int i = 0; i < kChunks; ++i) both[i] = b.load(b.place(i * 128 + thread, col0, k));
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      mbarrier_wait(&ring.empty[ring.state.stage], ring.state.parity ^ 1);
      if (thread == 0) {
        if (k_tile < first + kGroups) griddepcontrol_wait();  // for the copy of A
        mbarrier_arrive_expect_tx(full, BK * kRowsOfA * sizeof(T));
        load_k_tile<kA, kRowsOfA>(to + S::BN * BK, &a, row0, k, full);
      }
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int number = i * 128 + thread;
        b.store(to, b.place(number, col0, k), number, both[i]);
      }
      if (b.is_at_edge(col0, k)) {
        named_barrier_sync<128>(1 + S::kConsumers + group);  // the chunks are stored
        if (thread < 16) b.complete(to, col0, k, thread);
      }
      fence_proxy_async();  // what was stored is seen by wgmma
      __syncwarp();
      if (thread % 32 == 0) mbarrier_arrive(full);
      for (int i = 0; i < kGroups; ++i) ring.state.advance();
    }
  }

  CUtensorMap a;
  Realigned<kB, S::BN, T> b;
};

}  // namespace
}  // namespace gemm_pushed_sums

namespace gemm_realigned {
namespace {

using gemm_padded_rows::Plan;

template <int Rows>
struct Shape {
  template <class Op, class T>
  using Loads = gemm_pushed_sums::RealignedB<Op, T, gemm_pushed_sums::Shape<Rows, 64, 1>, 4>;
};
// Fitted to times of all of them at 12 sizes, within 10 %.
using FewRows = Tiles<Tile<Shape<32>::Loads, 484, 1854>, Tile<Shape<48>::Loads, 517, 1960>,
                      Tile<Shape<64>::Loads, 519, 2281>, Tile<Shape<96>::Loads, 571, 2421>,
                      Tile<Shape<128>::Loads, 592, 2640>>;
constexpr double kDram = 2500;

/// A's copy alone.
template <class Op, class T, class C>
Plan<Op> plan_of(const gemm_tensor::Args<T, C>& g) {
  Plan<Op> plan(g.m, g.n, g.k);
  if (plan.pitch_a == 0 && !has_aligned_rows(g.a, 8)) plan.pitch_a = plan.columns_a;
  plan.pitch_b = 0;
  return plan;
}

}  // namespace

template <class Op, class T, class C>
std::vector<Choice> choices_of_b(const gemm_tensor::Args<T, C>& g, std::size_t most) {
  const Plan<Op> plan = plan_of<Op>(g);
  std::vector<Choice> all = FewRows::choices<Op>(g, most, kDram);
  if (!plan.copies()) return all;
  for (Choice& choice : all) {
    choice.ns += gemm_padded_rows::kCopyLaunch + plan.template traffic<T>() / kDram;
  }
  return all;
}
template <class Op, class T, class C>
std::size_t workspace_of_a(const gemm_tensor::Args<T, C>& g) {
  return plan_of<Op>(g).template bytes<T>();
}
template <class Op, class T, class C>
void launch_b(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
  FewRows::launch<Op>(gemm_padded_rows::make_copies(plan_of<Op>(g), g, stream), choice, stream);
}

namespace {

template <class Op>
struct OneRealigned {
  static constexpr ladder::Version version{"B shifted in registers, a copy of a small A by TMA"};
  // Blocks that split K, A copied and not; two tiles of rows; rows that end within the last vector
  static constexpr gemm_tensor::Problem test_problems[] = {
      {33, 65, 401}, {17, 130, 776}, {131, 5, 197}, {70, 140, 67}, {60, 70, 130}};

  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g) {
    return g.m == 0 || g.n == 0 || g.k == 0 ? 0 : workspace_of_a<Op>(g);
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    launch_b<Op>(g, choices_of_b<Op>(g, 1).front(), stream);
  }
};

const ladder::Register<OneRealigned<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<OneRealigned<gemm_tensor_nt>, gemm_tensor_nt, ladder::half, ladder::bfloat16>
    nt;
const ladder::Register<OneRealigned<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<OneRealigned<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

#define LADDER_INSTANTIATE(Op, T, C)                                                  \
  template std::vector<Choice> choices_of_b<Op, T, C>(const gemm_tensor::Args<T, C>&, \
                                                      std::size_t);                   \
  template std::size_t workspace_of_a<Op, T, C>(const gemm_tensor::Args<T, C>&);      \
  template void launch_b<Op, T, C>(const gemm_tensor::Args<T, C>&, const Choice&, cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE

}  // namespace gemm_realigned
