// The launchers that later versions call too. Each is compiled once, in the version that introduces
// it and that has its kernels.
#pragma once

#include "transpose.hpp"

namespace transpose_tiles {

// v06, for matrices of up to kMostOfBigTile rows:
constexpr int kMostOfBigTile = 64 * 65535;
template <class T>
void launch_big_tile(const transpose::Args<T>& a, cudaStream_t stream);
extern template void launch_big_tile(const transpose::Args<float>&, cudaStream_t);
extern template void launch_big_tile(const transpose::Args<ladder::half>&, cudaStream_t);
extern template void launch_big_tile(const transpose::Args<ladder::bfloat16>&, cudaStream_t);

// v07:
template <class T>
void launch_any_start(const transpose::Args<T>& a, cudaStream_t stream);
extern template void launch_any_start(const transpose::Args<float>&, cudaStream_t);
extern template void launch_any_start(const transpose::Args<ladder::half>&, cudaStream_t);
extern template void launch_any_start(const transpose::Args<ladder::bfloat16>&, cudaStream_t);

// v08, for matrices of up to kNarrow rows or columns; v09 with streaming stores:
constexpr int kNarrow = 128;
inline ladder::Support supports_narrow(const transpose::Problem& p) {
  if (min(p.rows, p.cols) <= kNarrow) return ladder::supported();
  return ladder::unsupported("more than %d rows and columns", kNarrow);
}
enum class Stores { ordinary, streaming };
template <Stores kHow, class T>
void launch_narrow(const transpose::Args<T>& a, cudaStream_t stream);
extern template void launch_narrow<Stores::ordinary>(const transpose::Args<float>&, cudaStream_t);
extern template void launch_narrow<Stores::ordinary>(const transpose::Args<ladder::half>&,
                                                     cudaStream_t);
extern template void launch_narrow<Stores::ordinary>(const transpose::Args<ladder::bfloat16>&,
                                                     cudaStream_t);
extern template void launch_narrow<Stores::streaming>(const transpose::Args<float>&, cudaStream_t);
extern template void launch_narrow<Stores::streaming>(const transpose::Args<ladder::half>&,
                                                      cudaStream_t);
extern template void launch_narrow<Stores::streaming>(const transpose::Args<ladder::bfloat16>&,
                                                      cudaStream_t);

}  // namespace transpose_tiles
