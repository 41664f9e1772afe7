// Idea      several blocks per row, a cluster: all of a long row is in registers, spread over up to
//           eight multiprocessors, whose maxima and sums meet through distributed shared memory
// Vs v07    rows of more than 32768 elements are read from memory once, not twice: in fp32 1.36
//           times as fast at 1024x131072 on an H200, in 16-bit types no faster. What crosses
//           between the multiprocessors is one pair of numbers per block, and takes one barrier of
//           the cluster; another at the end keeps shared memory alive until it is read, and the
//           stores go on meanwhile
// Bound by  DRAM bandwidth; of 132 multiprocessors some are left over, because the blocks of a
//           cluster are neighbours, of one of the chip's groups of 16 or 18
// Limits    compute capability 9.0; rows of more than 16384 elements, which keep two blocks busy;
//           matrices start at multiples of 32 bytes. What of a row is beyond 262144 elements, the
//           registers of eight times 1024 threads, is read twice
// Tile      32 elements per thread and 512 threads per block, two blocks to a multiprocessor; 2, 4
//           or 8 blocks per row, by its length; from 131073 elements on 8 blocks of 1024 threads
#include "cluster_row.hpp"

namespace {

struct Cluster {
  static constexpr ladder::Version version{"a cluster of blocks per row"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_cluster_forward<false, softmax_rows::Mask::none>(a, stream);
  }
  static ladder::Support supports(const softmax::Problem& p) {
    if (p.cols > softmax_rows::kLongestForward / 2) return ladder::supported();
    return ladder::unsupported("rows of 16384 elements or fewer are too short for a cluster");
  }
};

const ladder::Register<Cluster, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace softmax_rows {
// Other versions call it too.
template void launch_cluster_forward<false, Mask::none>(const softmax::Args<float>&, cudaStream_t);
template void launch_cluster_forward<false, Mask::none>(const softmax::Args<ladder::half>&,
                                                        cudaStream_t);
template void launch_cluster_forward<false, Mask::none>(const softmax::Args<ladder::bfloat16>&,
                                                        cudaStream_t);
}  // namespace softmax_rows
