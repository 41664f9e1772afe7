// Launchers of versions that later versions call for the rows they leave to them. Each is defined,
// and compiled for every element type, in the version that its comment names.
#pragma once

#include "kernels/row_norm/ahead_options.hpp"
#include "layernorm.hpp"

namespace layernorm_rows {

/// v08
template <class T>
void launch_prefetch(const layernorm::Args<T>& a, cudaStream_t stream);

/// v09
template <class T>
void launch_cluster(const layernorm::Args<T>& a, cudaStream_t stream);

/// v10
template <class T>
void launch_rows_ahead(const layernorm::Args<T>& a, cudaStream_t stream);

/// v11, for rows of up to ladder::kLongestShortRow<T> elements
template <class T>
void launch_short_rows(const layernorm::Args<T>& a, cudaStream_t stream);

/// v12
template <class T>
std::size_t workspace_of_split_rows(const layernorm::Args<T>& a);
template <class T>
void launch_split_rows(const layernorm::Args<T>& a, cudaStream_t stream);

/// v21
template <class T>
void launch_fused_add(const layernorm_add::Args<T>& a, cudaStream_t stream);

/// v31
template <class T>
std::size_t workspace_of_block_backward(const layernorm_backward::Args<T>& a);
template <class T>
void launch_block_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream);

/// v32, for rows of up to this many elements
constexpr int kLongestPersistent = 8192;
template <class T>
std::size_t workspace_of_persistent_backward(const layernorm_backward::Args<T>& a);
template <class T>
void launch_persistent_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream);

/// v33; up to so many elements of a row a cluster holds, longer ones it leaves to v31
constexpr int kLongestOfCluster = 8 * kLongestPersistent;
template <class T>
std::size_t workspace_of_cluster_backward(const layernorm_backward::Args<T>& a);
template <class T>
void launch_cluster_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream);

/// v34, v34b and v34c
template <class T>
std::size_t workspace_of_rows_ahead_backward(const layernorm_backward::Args<T>& a);
template <class T>
void launch_rows_ahead_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream,
                                row_norm::AheadOptions options);

/// v35, for rows as short
template <class T>
std::size_t workspace_of_short_rows_backward(const layernorm_backward::Args<T>& a);
template <class T>
void launch_short_rows_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream);

/// v35b
template <class T>
std::size_t workspace_of_split_rows_backward(const layernorm_backward::Args<T>& a);
template <class T>
void launch_split_rows_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream);

}  // namespace layernorm_rows
