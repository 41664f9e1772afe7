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
#include "realigned_tiles.hpp"

namespace gemm_realigned {
namespace {

template <int Rows, int Batch>
struct Shape {
  template <class Op, class T>
  using Loads =
      gemm_pushed_sums::RealignedLoads<Op, T, gemm_pushed_sums::Shape<Rows, 64, 1>, 3, Batch>;
};

// So that v20 chooses well between the versions that take any rows, on random sizes
// (results/h100/2026-11-26-gemm_tensor-odd-versions-seed908463824-shapes.csv and …-seed102972022-…).
using Any = Tiles<Tile<Shape<32, 6>::Loads, 750, 1600>, Tile<Shape<64, 8>::Loads, 800, 2000>,
                  Tile<Shape<128, 6>::Loads, 1100, 6500>>;
constexpr double kDram = 1900;

}  // namespace

template <class Op, class T, class C>
std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most) {
  return Any::choices<Op>(g, most, kDram);
}
template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
  Any::launch<Op>(g, choice, stream);
}

namespace {

template <class Op>
struct ReadAnywhere {
  static constexpr ladder::Version version{"rows shifted in registers, by warps instead of TMA"};
  // Blocks that split K; rows that end within the last vector; short rows
  static constexpr gemm_tensor::Problem test_problems[] = {
      {33, 65, 401}, {17, 130, 197}, {259, 5, 67}};

  template <class T, class C>
  static Choice plan(const gemm_tensor::Args<T, C>& g, bool) {
    if (gemm_k_tiles::is_empty(g)) return {};
    return choices<Op>(g, 1).front();
  }
  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>&, const Choice&) {
    return 0;
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    gemm_realigned::launch<Op>(g, choice, stream);
  }
};

const ladder::Register<ReadAnywhere<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<ReadAnywhere<gemm_tensor_nt>, gemm_tensor_nt, ladder::half, ladder::bfloat16>
    nt;
const ladder::Register<ReadAnywhere<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<ReadAnywhere<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

#define LADDER_INSTANTIATE(Op, T, C)                                                           \
  template std::vector<Choice> choices<Op, T, C>(const gemm_tensor::Args<T, C>&, std::size_t); \
  template void launch<Op, T, C>(const gemm_tensor::Args<T, C>&, const Choice&, cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE

}  // namespace gemm_realigned
