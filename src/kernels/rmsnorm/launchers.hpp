// Launchers of versions that later versions call for the rows they leave to them. Each is defined,
// and compiled for every element type, in the version that its comment names.
#pragma once

#include "kernels/row_norm/ahead_options.hpp"
#include "rmsnorm.hpp"

namespace rmsnorm_rows {

/// v08
template <class T>
void launch_prefetch(const rmsnorm::Args<T>& a, cudaStream_t stream);

/// v09
template <class T>
void launch_cluster(const rmsnorm::Args<T>& a, cudaStream_t stream);

/// The longest rows, in elements, that v10 leaves to v09, and that v11 takes: on an H100 one row for
/// each block is faster for them than rows ahead.
constexpr int kLongestOfBlock = 32768;

/// v10
template <class T>
void launch_rows_ahead(const rmsnorm::Args<T>& a, cudaStream_t stream);

/// v11, fp32 only
template <class T>
void launch_parked_weights(const rmsnorm::Args<T>& a, cudaStream_t stream);

/// v12, for rows of up to ladder::kLongestShortRow<T> elements
template <class T>
void launch_short_rows(const rmsnorm::Args<T>& a, cudaStream_t stream);

/// v13
template <class T>
std::size_t workspace_of_split_rows(const rmsnorm::Args<T>& a);
template <class T>
void launch_split_rows(const rmsnorm::Args<T>& a, cudaStream_t stream);

/// v21
template <class T>
void launch_fused_add(const rmsnorm_add::Args<T>& a, cudaStream_t stream);

/// v31
template <class T>
std::size_t workspace_of_block_backward(const rmsnorm_backward::Args<T>& a);
template <class T>
void launch_block_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream);

/// v32, for rows of up to this many elements
constexpr int kLongestPersistent = 8192;
template <class T>
std::size_t workspace_of_persistent_backward(const rmsnorm_backward::Args<T>& a);
template <class T>
void launch_persistent_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream);

/// v33; up to so many elements of a row a cluster holds, longer ones it leaves to v31
constexpr int kLongestOfCluster = 8 * kLongestPersistent;
template <class T>
std::size_t workspace_of_cluster_backward(const rmsnorm_backward::Args<T>& a);
template <class T>
void launch_cluster_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream);

/// v34, v34b and v34c
template <class T>
std::size_t workspace_of_rows_ahead_backward(const rmsnorm_backward::Args<T>& a);
template <class T>
void launch_rows_ahead_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream,
                                row_norm::AheadOptions options);

/// v35, for rows as short
template <class T>
std::size_t workspace_of_short_rows_backward(const rmsnorm_backward::Args<T>& a);
template <class T>
void launch_short_rows_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream);

/// v35b
template <class T>
std::size_t workspace_of_split_rows_backward(const rmsnorm_backward::Args<T>& a);
template <class T>
void launch_split_rows_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream);

}  // namespace rmsnorm_rows
