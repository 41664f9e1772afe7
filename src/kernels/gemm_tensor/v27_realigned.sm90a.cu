// Idea      no copy: warps read rows that start anywhere, in aligned vectors of 16 bytes, shift
//           neighbours together in registers, and store them in shared memory where TMA would
// Vs v26    A and B are read once and nothing is written, where the copy's bytes go three times between
//           DRAM and the SMs. But a chunk of 16 bytes takes two loads, a dozen instructions to shift it
//           and a store, which TMA needs none of
// Bound by  with few rows or columns DRAM bandwidth; else instruction issue and the L1
// Limits    compute capability 9.0
// Tile      32 x 64, 64 x 64 or 128 x 64, 64 deep; the consumers and the ring of v24; three groups of four
//           producer warps, which take turns with the K-tiles. A thread has 6 or 8 chunks in flight, in two
//           vectors each
//
//   memory        |. . . x x x x x|x x x . . . . .|     a chunk that starts 3 elements into a vector
//   registers      x x x x x x x x                      selections for words, a funnel shift for halves
//   shared memory  chunk c of row r is stored as chunk c ^ (r % 8)
//
// A vector that lies partly outside of the matrix is left out; its elements, seven at most, are stored one
// by one when the chunks are. wgmma reads through the asynchronous proxy, so each thread fences what it has
// stored before its warp arrives.
#include "realigned.hpp"
#include "realigned_loads.hpp"

#include <cmath>

namespace gemm_realigned {
namespace {

using namespace gemm_pushed_sums;

template <int Rows, int Cols, int BlocksPerSm, int Groups, int Batch>
struct Tile : Shape<Rows, Cols, BlocksPerSm> {
  template <class Op, class T>
  using Loads = RealignedLoads<Op, T, Shape<Rows, Cols, BlocksPerSm>, Groups, Batch>;
};

template <class... S>
struct Shapes {};
using Tiles = Shapes<Tile<32, 64, 1, 3, 6>, Tile<64, 64, 1, 3, 8>, Tile<128, 64, 1, 3, 6>>;

// What they take on an H100, in ns: a K-tile, and a tile's beginning and end. DRAM's bytes per ns. Measured
// with a forerunner that took more instructions at the matrix's end; its times are not in results/.
constexpr double kOfKTile[] = {592, 738, 1089}, kOfTile[] = {2019, 2631, 7205};
constexpr double kDram = 1922;

template <class Op, class S, class T, class C>
void consider(int shape, const gemm_tensor::Args<T, C>& g, Choice& best) {
  const int k_tiles = ladder::ceil_div(g.k, BK);
  const double tiles =
      static_cast<double>(ladder::ceil_div(g.m, S::BM)) * ladder::ceil_div(g.n, S::BN);
  const double m = g.m, n = g.n, k = g.k, bytes = (m * k + k * n) * sizeof(T) + m * n * sizeof(C);
  for (const int parts : kSplits) {
    if (parts > k_tiles) break;
    const double resident = resident_blocks<typename S::template Loads<Op, T>, C>(parts, k_tiles);
    const double rounds = std::ceil(tiles * parts / resident);
    const double of_a_block = ladder::ceil_div(k_tiles, parts) * kOfKTile[shape] + kOfTile[shape];
    const double ns = std::hypot(rounds * of_a_block, bytes / kDram);
    if (ns < best.ns) best = {shape, parts, ns};
  }
}

template <class Op, class T, class C, class... S>
Choice best_of(Shapes<S...>, const gemm_tensor::Args<T, C>& g) {
  Choice best;
  int shape = 0;
  (consider<Op, S>(shape++, g, best), ...);
  return best;
}

template <class Op, class T, class C, class... S>
void launch_one(Shapes<S...>, const gemm_tensor::Args<T, C>& g, const Choice& choice,
                cudaStream_t stream) {
  int shape = 0;
  ((shape++ == choice.shape
        ? gemm_pushed_sums::launch<typename S::template Loads<Op, T>>(g, choice.parts, stream)
        : void()),
   ...);
}

}  // namespace

template <class Op, class T, class C>
Choice choose(const gemm_tensor::Args<T, C>& g) {
  return best_of<Op>(Tiles{}, g);
}
template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
  launch_one<Op>(Tiles{}, g, choice, stream);
}

namespace {

template <class Op>
struct ReadAnywhere {
  static constexpr ladder::Version version{"rows shifted in registers, by warps instead of TMA"};
  // Blocks that split K; rows that end within the last vector; short rows
  static constexpr gemm_tensor::Problem test_problems[] = {
      {33, 65, 401}, {17, 130, 197}, {259, 5, 67}};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    gemm_realigned::launch<Op>(g, choose<Op>(g), stream);
  }
};

const ladder::Register<ReadAnywhere<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<ReadAnywhere<gemm_tensor_nt>, gemm_tensor_nt, ladder::half, ladder::bfloat16>
    nt;
const ladder::Register<ReadAnywhere<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<ReadAnywhere<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

#define LADDER_INSTANTIATE(Op, T, C)                                \
  template Choice choose<Op, T, C>(const gemm_tensor::Args<T, C>&); \
  template void launch<Op, T, C>(const gemm_tensor::Args<T, C>&, const Choice&, cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE

}  // namespace gemm_realigned
