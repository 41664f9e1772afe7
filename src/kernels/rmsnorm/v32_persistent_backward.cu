// Idea      persistent blocks: as many as run at once take row after row, hold it in registers, and
//           add their columns' part of dweight up there too; a second launch adds what
//           the blocks have
// Vs v31    x and dy are read once, 3n; and all in 128-bit vectors
// Bound by  DRAM bandwidth; the registers of the sums leave room for 512 threads on a
//           multiprocessor. What the blocks leave, 8 MB, stays in L2
// Limits    rows of up to 8192 elements, as many as 512 threads hold. x, dy and dx start at multiples
//           of 16 bytes. Where the columns are no multiple of the vector, each "vector" is one
//           element: shifted vectors would shift the columns that a thread adds up.
// Tile      a row per warp, 32 elements in a lane, or per block, 16 in a thread
//
// The sums are added in an order that depends on the number of multiprocessors only: the same bits
// in every run.
#include "kernels/layernorm/backward_persistent.hpp"
#include "rmsnorm.hpp"

namespace {

struct PersistentBackward {
  static constexpr ladder::Version version{"rows and columns in one pass, persistent blocks"};

  static ladder::Support supports(const rmsnorm::Problem& p) {
    if (p.cols <= layernorm_rows::kMostColumns) return ladder::supported();
    return ladder::unsupported("a row of more than 8192 elements does not fit a block's registers");
  }
  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return layernorm_rows::workspace_of_persistent<rmsnorm_backward, T>(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_persistent<rmsnorm_backward, T>(a, stream);
  }
};

const ladder::Register<PersistentBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_persistent<rmsnorm_backward>(const rmsnorm_backward::Args<float>&,
                                                  cudaStream_t);
template void launch_persistent<rmsnorm_backward>(const rmsnorm_backward::Args<ladder::half>&,
                                                  cudaStream_t);
template void launch_persistent<rmsnorm_backward>(const rmsnorm_backward::Args<ladder::bfloat16>&,
                                                  cudaStream_t);
}  // namespace layernorm_rows
