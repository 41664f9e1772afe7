// Idea      rows of any length in 128-bit vectors: they lie where memory has 16-byte boundaries,
//           and the few elements before the first and after the last are loaded and stored one by
//           one
// Vs v06    rows that are no whole number of vectors, whose starts lie between the boundaries. The
//           vectors start at a sector of 32 bytes, so that a warp's request touches no sector that
//           its neighbour's touches too
// Bound by  DRAM bandwidth
// Limits    none; matrices start at multiples of 32 bytes. What of a row is beyond 32768 elements,
//           the registers of 1024 threads, is read twice
// Tile      a row is spread over kThreads threads of kElements elements each, by its length: see
//           device/row_length.hpp. Its kernel is in forward_row.hpp, because the rungs that follow
//           share it
//
// Of 16-bit types a warp holds its row as it came, to leave registers to more warps; a row of about
// 1024 elements is half a warp's, so that more rows are under way.
#include "forward_row.hpp"

namespace {

struct Unaligned {
  static constexpr ladder::Version version{"vectors in rows that start anywhere"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_forward<false, softmax_rows::Mask::none>(a, stream);
  }
};

const ladder::Register<Unaligned, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace softmax_rows {
// Other versions call it too.
template void launch_forward<false, Mask::none>(const softmax::Args<float>&, cudaStream_t);
template void launch_forward<false, Mask::none>(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_forward<false, Mask::none>(const softmax::Args<ladder::bfloat16>&,
                                                cudaStream_t);
}  // namespace softmax_rows
