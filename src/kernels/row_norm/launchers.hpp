// Launchers of LayerNorm's and RMSNorm's kernels, which versions of both ladders call. Each is
// defined in the version of layernorm that its comment names, and compiled there for both norms and
// every element type. Norm is what describes the operation: layernorm or rmsnorm, with _add or
// _backward behind it.
#pragma once

#include "device/row_scheduler.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"

namespace row_norm {

/// v08
template <class Norm, class T>
void launch_prefetch(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v09
template <class Norm, class T>
void launch_cluster(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// The longest rows, in elements, that v10 leaves to v09: on an H100 one row for each block is faster
/// for them than rows ahead. Of longer fp32 rows than 16384 a block is alone on its SM, and waits
/// twice for LayerNorm's sums.
template <class Norm, class T>
constexpr int kLongestOfBlock = Norm::kCentred && sizeof(T) == 4 ? 16384 : 32768;

/// v10
template <class Norm, class T>
std::size_t state_of_rows_ahead(const typename Norm::template Args<T>& a) {
  return a.cols > kLongestOfBlock<Norm, T> ? sizeof(ladder::RowCounters) : 0;
}
template <class Norm, class T>
void launch_rows_ahead(const typename Norm::template Args<T>& a, void* state, cudaStream_t stream);

/// v11 of rmsnorm: fp32, and RMSNorm, only; with v10's state
template <class T>
void launch_parked_weights(const rmsnorm::Args<T>& a, void* state, cudaStream_t stream);

/// v11, for rows of up to ladder::kLongestShortRow<T> elements
template <class Norm, class T>
void launch_short_rows(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v12, with ladder::state_of_split
template <class Norm, class T>
std::size_t workspace_of_split_rows(const typename Norm::template Args<T>& a);
template <class Norm, class T>
void launch_split_rows(const typename Norm::template Args<T>& a, void* state, cudaStream_t stream);

/// v21
template <class Norm, class T>
void launch_fused_add(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v22
template <class Norm, class T>
void launch_cluster_add(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v31
template <class Norm, class T>
std::size_t workspace_of_block_backward(const typename Norm::template Args<T>& a);
template <class Norm, class T>
void launch_block_backward(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v32, for rows of up to this many elements
constexpr int kLongestPersistent = 8192;
template <class Norm, class T>
std::size_t workspace_of_persistent_backward(const typename Norm::template Args<T>& a);
template <class Norm, class T>
void launch_persistent_backward(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v34, with a state of ladder::StepCounters
template <class Norm, class T>
std::size_t workspace_of_rows_ahead_backward(const typename Norm::template Args<T>& a);
template <class Norm, class T>
void launch_rows_ahead_backward(const typename Norm::template Args<T>& a, void* state,
                                cudaStream_t stream);

/// v35, for rows of up to ladder::kLongestShortRow<T> elements
template <class Norm, class T>
std::size_t workspace_of_short_rows_backward(const typename Norm::template Args<T>& a);
template <class Norm, class T>
void launch_short_rows_backward(const typename Norm::template Args<T>& a, cudaStream_t stream);

/// v35b
template <class Norm, class T>
std::size_t workspace_of_split_rows_backward(const typename Norm::template Args<T>& a);
template <class Norm, class T>
std::size_t state_of_split_rows_backward(const typename Norm::template Args<T>& a) {
  return a.cols == 0 ? 0 : sizeof(unsigned) * static_cast<std::size_t>(a.rows);
}
template <class Norm, class T>
void launch_split_rows_backward(const typename Norm::template Args<T>& a, void* state,
                                cudaStream_t stream);

}  // namespace row_norm

/// instantiate(Norm, T) for both norms, of an operation (nothing, _add or _backward), in every element
/// type.
// clang-format off
#define LADDER_EACH_NORM(instantiate, operation)      \
  instantiate(layernorm##operation, float)            \
  instantiate(layernorm##operation, ladder::half)     \
  instantiate(layernorm##operation, ladder::bfloat16) \
  instantiate(rmsnorm##operation, float)              \
  instantiate(rmsnorm##operation, ladder::half)       \
  instantiate(rmsnorm##operation, ladder::bfloat16)
// clang-format on
