// Idea      TF32 for nn and tn: operands that lie across K are transposed first, into scratch
//           memory, because wgmma reads this type along K only
// Vs v18    its kernel, after one that transposes B and, in tn, one that transposes A. An operand
//           moves three times: it is read, written transposed, and read again
// Bound by  the tensor cores, and power. Transposing takes time in proportion to the matrices: the
//           smaller they are, the larger its share
// Limits    compute capability 9.0; nn, rows of A start at multiples of 16 bytes. K up to 2097120
// Tile      as in v18; what is transposed 32 x 32, 256 threads, 4.1 KiB of shared memory
#include "k_major.hpp"
#include "k_tiles.hpp"
#include "transpose_tile.hpp"

namespace {

using namespace gemm_k_tiles;
using ladder::tfloat32;

/// From [k][rows] to [rows][pitch]: a tile per block.
__global__ void __launch_bounds__(kTransposeThreads)
    transpose(const float* matrix, float* transposed, int rows, int k, int pitch) {
  __shared__ TransposeTile tile;
  transpose_tile(tile, matrix, rows, k, [&](int row, int column, float x) {
    transposed[std::int64_t{row} * pitch + column] = x;
  });
}

template <class Op>
struct Tf32Transposed {
  static constexpr ladder::Version version{"operands across K are transposed first"};
  using Args = gemm_tensor::Args<tfloat32>;

  /// Of the transposed operands: rows of whole 16 bytes, as TMA requires.
  static int pitch(const Args& g) { return ladder::ceil_div(g.k, 4) * 4; }
  /// Of A and B transposed, A first.
  static std::int64_t elements_a(const Args& g) {
    return Op::kTransposedA ? std::int64_t{g.m} * pitch(g) : 0;
  }
  static std::size_t workspace(const Args& g) {
    return (elements_a(g) + std::int64_t{g.n} * pitch(g)) * sizeof(tfloat32);
  }

  /// Transposes an operand that lies across K into `to`.
  static gemm_k_major::Operand<tfloat32> transpose_operand(const tfloat32* matrix, tfloat32* to,
                                                           int rows, const Args& g,
                                                           cudaStream_t stream) {
    ladder::launch(transpose, tiles_to_transpose(rows, g.k), kTransposeThreads, 0, stream,
                   reinterpret_cast<const float*>(matrix), reinterpret_cast<float*>(to), rows, g.k,
                   pitch(g));
    return {to, pitch(g)};
  }
  static void launch(const Args& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    auto* const transposed_a = static_cast<tfloat32*>(g.workspace);
    auto* const transposed_b = transposed_a + elements_a(g);
    gemm_k_major::Operand<tfloat32> a{g.a, g.k};
    if constexpr (Op::kTransposedA) a = transpose_operand(g.a, transposed_a, g.m, g, stream);
    gemm_k_major::launch(a, transpose_operand(g.b, transposed_b, g.n, g, stream), g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (!Op::kTransposedA && p.k % 4 != 0) {
      return ladder::unsupported("rows of A do not start at multiples of 16 bytes");
    }
    return supports_transposing(p);
  }
};

const ladder::Register<Tf32Transposed<gemm_tensor_nn>, gemm_tensor_nn, tfloat32> nn;
const ladder::Register<Tf32Transposed<gemm_tensor_tn>, gemm_tensor_tn, tfloat32> tn;

}  // namespace
