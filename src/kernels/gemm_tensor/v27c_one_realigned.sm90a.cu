// Idea      few rows: A is small, so it is copied into padded rows, as in v26, and comes by TMA; only B,
//           which is large and read once, goes through registers. Few columns: the other way round
// Vs v27    half of what warps load, shift and store was the small operand, the same for all blocks. They
//           have chunks of the large one alone in flight now, twice as many of them, and begin with them
//           while the small one is copied
// Bound by  DRAM bandwidth, of the large operand
// Limits    compute capability 9.0
// Tile      32 to 128 x 64, or 64 x 64 and 64 x 128 with A through registers, 64 deep; the consumers and
//           the ring of v24; four groups of four producer warps take turns with the K-tiles, and one thread
//           of a group asks for what TMA loads of them
#include "device/ptx/griddepcontrol.hpp"
#include "padded_rows.hpp"
#include "realigned_tiles.hpp"

namespace gemm_pushed_sums {
namespace {

enum class Large { a, b };

/// The large operand through registers, the other one by TMA.
template <class Op, class Element, class Shape, Large kLarge>
struct RealignedOne {
  using T = Element;
  using S = Shape;
  static constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  static constexpr int kGroups = 4, kThreads = kGroups * 128;
  static constexpr int kArrivals = 4 + 1;  // of a group's warps, and with TMA's bytes

  template <class C>
  explicit RealignedOne(const gemm_tensor::Args<T, C>& g)
      : small(kIsB ? operand_map(kA, g.a, g.m, g.k, S::BM, kDepth, g.pitch_a)
                   : operand_map(kB, g.b, g.n, g.k, S::BN, kDepth, g.pitch_b)) {
    if constexpr (kIsB) {
      large = {g.b, Op::kTransposedB ? g.n : g.k, Op::kTransposedB ? g.k : g.n, pitch_of_b<Op>(g)};
    } else {
      large = {g.a, Op::kTransposedA ? g.k : g.m, Op::kTransposedA ? g.m : g.k, pitch_of_a<Op>(g)};
    }
  }

  /// By all producers.
  __device__ __forceinline__ void fill(Ring<T> ring, int row0, int col0, int first,
                                       int last) const {
    constexpr int kRowsOfA = kHeld<kA, S::BM>, kOfSmall = kIsB ? kRowsOfA : S::BN;
    constexpr int kChunks = kLargeRows * 8 / 128;  // of a thread
    const int mn_large = kIsB ? col0 : row0, mn_small = kIsB ? row0 : col0;
    const int group = static_cast<int>(threadIdx.x) / 128 - S::kConsumers;
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < group; ++i) ring.state.advance();
    for (int k_tile = first + group; k_tile < last; k_tile += kGroups) {
      const int k = k_tile * BK;
      T* const b = ring.stages + ring.state.stage * (BK * (S::BN + kRowsOfA));
      T* const a = b + S::BN * BK;
      T* const to = kIsB ? b : a;
      Mbarrier* const full = &ring.full[ring.state.stage];
      TwoVectors both[kChunks];
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        both[i] = large.load(large.place(i * 128 + thread, mn_large, k));
      }
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      mbarrier_wait(&ring.empty[ring.state.stage], ring.state.parity ^ 1);
      if (thread == 0) {
        if (k_tile < first + kGroups) griddepcontrol_wait();  // for the copy of the small operand
        mbarrier_arrive_expect_tx(full, BK * kOfSmall * sizeof(T));
        load_k_tile<kIsB ? kA : kB, kOfSmall>(kIsB ? a : b, &small, mn_small, k, full);
      }
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int number = i * 128 + thread;
        large.store(to, large.place(number, mn_large, k), number, both[i]);
      }
      if (large.is_at_edge(mn_large, k)) {
        named_barrier_sync<128>(1 + S::kConsumers + group);  // the chunks are stored
        if (thread < 16) large.complete(to, mn_large, k, thread);
      }
      fence_proxy_async();  // what was stored is seen by wgmma
      __syncwarp();
      if (thread % 32 == 0) mbarrier_arrive(full);
      for (int i = 0; i < kGroups; ++i) ring.state.advance();
    }
  }

 private:
  static constexpr bool kIsB = kLarge == Large::b;
  static constexpr int kLargeRows = kIsB ? S::BN : S::BM;

 public:
  CUtensorMap small;
  Realigned<kIsB ? kB : kA, kLargeRows, T> large;
};

}  // namespace
}  // namespace gemm_pushed_sums

namespace gemm_realigned {
namespace {

using gemm_padded_rows::Copies;
using gemm_pushed_sums::Large;

template <int Rows, int Cols, Large kLarge>
struct Shape {
  template <class Op, class T>
  using Loads =
      gemm_pushed_sums::RealignedOne<Op, T, gemm_pushed_sums::Shape<Rows, Cols, 1>, kLarge>;
};
// FewRows' are fitted to times of each at 12 sizes, within 10 %, which are not in results/; FewColumns' are
// taken from them.
using FewRows = Tiles<Tile<Shape<32, 64, Large::b>::Loads, 484, 1854>,
                      Tile<Shape<48, 64, Large::b>::Loads, 517, 1960>,
                      Tile<Shape<64, 64, Large::b>::Loads, 519, 2281>,
                      Tile<Shape<96, 64, Large::b>::Loads, 571, 2421>,
                      Tile<Shape<128, 64, Large::b>::Loads, 592, 2640>>;
using FewColumns = Tiles<Tile<Shape<64, 64, Large::a>::Loads, 519, 2281>,
                         Tile<Shape<64, 128, Large::a>::Loads, 560, 2600>>;
constexpr double kDram = 2500;

/// The small operand's copy alone.
template <class Op, class T, class C>
Copies<Op> copies_of(const gemm_tensor::Args<T, C>& g, Large large) {
  Copies<Op> copies(g.m, g.n, g.k);
  if (copies.pitch_a == 0 && !has_aligned_rows(g.a, 8)) copies.pitch_a = copies.columns_a;
  if (copies.pitch_b == 0 && !has_aligned_rows(g.b, 8)) copies.pitch_b = copies.columns_b;
  (large == Large::a ? copies.pitch_a : copies.pitch_b) = 0;
  return copies;
}
/// Which is the large operand of a choice: its shapes are FewRows' and then FewColumns'.
Large large_of(const Choice& choice) {
  return choice.shape < FewRows::kCount ? Large::b : Large::a;
}

}  // namespace

template <class Op, class T, class C>
std::vector<Choice> choices_of_one(const gemm_tensor::Args<T, C>& g, std::size_t most) {
  std::vector<Choice> all = FewRows::choices<Op>(g, most, kDram);
  for (const auto& [shape, parts, ns] : FewColumns::choices<Op>(g, most, kDram)) {
    all.push_back({shape + FewRows::kCount, parts, ns});
  }
  for (Choice& choice : all) {
    const Copies<Op> copies = copies_of<Op>(g, large_of(choice));
    if (!copies.any()) continue;
    choice.ns += gemm_padded_rows::kCopyLaunch + copies.template traffic<T>() / kDram;
  }
  return ladder::fastest(std::move(all), most);
}
template <class Op, class T, class C>
std::size_t workspace_of_one(const gemm_tensor::Args<T, C>& g, const Choice& choice) {
  return copies_of<Op>(g, large_of(choice)).template bytes<T>();
}
template <class Op, class T, class C>
void launch_one(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
  const Large large = large_of(choice);
  const auto args = gemm_padded_rows::make_copies(copies_of<Op>(g, large), g, stream);
  if (large == Large::b) return FewRows::launch<Op>(args, choice, stream);
  FewColumns::launch<Op>(args, {choice.shape - FewRows::kCount, choice.parts}, stream);
}

namespace {

template <class Op>
struct OneRealigned {
  static constexpr ladder::Version version{
      "one operand shifted in registers, a copy of the other by TMA"};
  // A copied and not, blocks that split K, several tiles of rows, rows that end within the last vector; then
  // few columns likewise
  static constexpr gemm_tensor::Problem test_problems[] = {
      {33, 65, 401}, {17, 130, 776}, {131, 133, 141}, {70, 140, 67},
      {60, 70, 130}, {197, 17, 401}, {197, 100, 139}, {130, 3, 776}};

  template <class T, class C>
  static Choice plan(const gemm_tensor::Args<T, C>& g, bool) {
    if (gemm_k_tiles::is_empty(g)) return {};
    return choices_of_one<Op>(g, 1).front();
  }
  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g, const Choice& choice) {
    return gemm_k_tiles::is_empty(g) ? 0 : workspace_of_one<Op>(g, choice);
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    launch_one<Op>(g, choice, stream);
  }
};

const ladder::Register<OneRealigned<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<OneRealigned<gemm_tensor_nt>, gemm_tensor_nt, ladder::half, ladder::bfloat16>
    nt;
const ladder::Register<OneRealigned<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<OneRealigned<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

#define LADDER_INSTANTIATE(Op, T, C)                                                              \
  template std::vector<Choice> choices_of_one<Op, T, C>(const gemm_tensor::Args<T, C>&,           \
                                                        std::size_t);                             \
  template std::size_t workspace_of_one<Op, T, C>(const gemm_tensor::Args<T, C>&, const Choice&); \
  template void launch_one<Op, T, C>(const gemm_tensor::Args<T, C>&, const Choice&, cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE

}  // namespace gemm_realigned
