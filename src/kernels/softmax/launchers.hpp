// The launchers that later versions call too. Each is compiled once, in the version that introduces
// it and that has its kernels.
#pragma once

#include "softmax.hpp"

namespace softmax_rows {

/// The longest rows that a block holds in registers, in v07, v12 and v21. In v31 a block holds half
/// as many columns.
constexpr int kLongestOfBlock = 32768;

// v07:
template <class T>
void launch_unaligned(const softmax::Args<T>& a, cudaStream_t stream);
extern template void launch_unaligned(const softmax::Args<float>&, cudaStream_t);
extern template void launch_unaligned(const softmax::Args<ladder::half>&, cudaStream_t);
extern template void launch_unaligned(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

// v08:
template <class T>
void launch_cluster(const softmax::Args<T>& a, cudaStream_t stream);
extern template void launch_cluster(const softmax::Args<float>&, cudaStream_t);
extern template void launch_cluster(const softmax::Args<ladder::half>&, cudaStream_t);
extern template void launch_cluster(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

// v09:
template <class T>
void launch_ahead(const softmax::Args<T>& a, void* state, cudaStream_t stream);
extern template void launch_ahead(const softmax::Args<float>&, void*, cudaStream_t);
extern template void launch_ahead(const softmax::Args<ladder::half>&, void*, cudaStream_t);
extern template void launch_ahead(const softmax::Args<ladder::bfloat16>&, void*, cudaStream_t);

// v10:
template <class T>
std::size_t state_of_by_length(const softmax::Args<T>& a);
template <class T>
void launch_by_length(const softmax::Args<T>& a, void* state, cudaStream_t stream);
extern template std::size_t state_of_by_length(const softmax::Args<float>&);
extern template std::size_t state_of_by_length(const softmax::Args<ladder::half>&);
extern template std::size_t state_of_by_length(const softmax::Args<ladder::bfloat16>&);
extern template void launch_by_length(const softmax::Args<float>&, void*, cudaStream_t);
extern template void launch_by_length(const softmax::Args<ladder::half>&, void*, cudaStream_t);
extern template void launch_by_length(const softmax::Args<ladder::bfloat16>&, void*, cudaStream_t);

// v10b, for rows of up to ladder::kLongestShortRow<T> elements, and of log_softmax too:
template <class Op, class T>
void launch_short_rows(const softmax::Args<T>& a, cudaStream_t stream);
extern template void launch_short_rows<softmax>(const softmax::Args<float>&, cudaStream_t);
extern template void launch_short_rows<softmax>(const softmax::Args<ladder::half>&, cudaStream_t);
extern template void launch_short_rows<softmax>(const softmax::Args<ladder::bfloat16>&,
                                                cudaStream_t);
extern template void launch_short_rows<log_softmax>(const softmax::Args<float>&, cudaStream_t);
extern template void launch_short_rows<log_softmax>(const softmax::Args<ladder::half>&,
                                                    cudaStream_t);
extern template void launch_short_rows<log_softmax>(const softmax::Args<ladder::bfloat16>&,
                                                    cudaStream_t);

// v10c, of log_softmax too; with ladder::state_of_split bytes of state:
template <class T>
std::size_t workspace_of_split_rows(const softmax::Args<T>& a);
template <class Op, class T>
void launch_split_rows(const softmax::Args<T>& a, void* state, cudaStream_t stream);
extern template std::size_t workspace_of_split_rows(const softmax::Args<float>&);
extern template std::size_t workspace_of_split_rows(const softmax::Args<ladder::half>&);
extern template std::size_t workspace_of_split_rows(const softmax::Args<ladder::bfloat16>&);
extern template void launch_split_rows<softmax>(const softmax::Args<float>&, void*, cudaStream_t);
extern template void launch_split_rows<softmax>(const softmax::Args<ladder::half>&, void*,
                                                cudaStream_t);
extern template void launch_split_rows<softmax>(const softmax::Args<ladder::bfloat16>&, void*,
                                                cudaStream_t);
extern template void launch_split_rows<log_softmax>(const softmax::Args<float>&, void*,
                                                    cudaStream_t);
extern template void launch_split_rows<log_softmax>(const softmax::Args<ladder::half>&, void*,
                                                    cudaStream_t);
extern template void launch_split_rows<log_softmax>(const softmax::Args<ladder::bfloat16>&, void*,
                                                    cudaStream_t);

// v12:
template <class T>
void launch_log_registers(const softmax::Args<T>& a, cudaStream_t stream);
extern template void launch_log_registers(const softmax::Args<float>&, cudaStream_t);
extern template void launch_log_registers(const softmax::Args<ladder::half>&, cudaStream_t);
extern template void launch_log_registers(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

// v21:
template <class T>
void launch_causal_skipped(const softmax::Args<T>& a, cudaStream_t stream);
extern template void launch_causal_skipped(const softmax::Args<float>&, cudaStream_t);
extern template void launch_causal_skipped(const softmax::Args<ladder::half>&, cudaStream_t);
extern template void launch_causal_skipped(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

// v31, for both gradients:
template <class Op, class T>
void launch_backward(const softmax_gradient::Args<T>& a, cudaStream_t stream);
extern template void launch_backward<softmax_backward>(const softmax_gradient::Args<float>&,
                                                       cudaStream_t);
extern template void launch_backward<softmax_backward>(const softmax_gradient::Args<ladder::half>&,
                                                       cudaStream_t);
extern template void launch_backward<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);
extern template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                           cudaStream_t);
extern template void launch_backward<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);

// v32, for both gradients:
template <class Op, class T>
void launch_backward_by_length(const softmax_gradient::Args<T>& a, cudaStream_t stream);
extern template void launch_backward_by_length<softmax_backward>(
    const softmax_gradient::Args<float>&, cudaStream_t);
extern template void launch_backward_by_length<softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward_by_length<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);
extern template void launch_backward_by_length<log_softmax_backward>(
    const softmax_gradient::Args<float>&, cudaStream_t);
extern template void launch_backward_by_length<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward_by_length<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);

// v33, for rows as short as v10b's:
template <class Op, class T>
void launch_backward_short_rows(const softmax_gradient::Args<T>& a, cudaStream_t stream);
extern template void launch_backward_short_rows<softmax_backward>(
    const softmax_gradient::Args<float>&, cudaStream_t);
extern template void launch_backward_short_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward_short_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);
extern template void launch_backward_short_rows<log_softmax_backward>(
    const softmax_gradient::Args<float>&, cudaStream_t);
extern template void launch_backward_short_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward_short_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);

// v34, with ladder::state_of_split bytes of state:
template <class T>
std::size_t workspace_of_backward_split_rows(const softmax_gradient::Args<T>& a);
template <class Op, class T>
void launch_backward_split_rows(const softmax_gradient::Args<T>& a, void* state,
                                cudaStream_t stream);
extern template std::size_t workspace_of_backward_split_rows(const softmax_gradient::Args<float>&);
extern template std::size_t workspace_of_backward_split_rows(
    const softmax_gradient::Args<ladder::half>&);
extern template std::size_t workspace_of_backward_split_rows(
    const softmax_gradient::Args<ladder::bfloat16>&);
extern template void launch_backward_split_rows<softmax_backward>(
    const softmax_gradient::Args<float>&, void*, cudaStream_t);
extern template void launch_backward_split_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, void*, cudaStream_t);
extern template void launch_backward_split_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, void*, cudaStream_t);
extern template void launch_backward_split_rows<log_softmax_backward>(
    const softmax_gradient::Args<float>&, void*, cudaStream_t);
extern template void launch_backward_split_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, void*, cudaStream_t);
extern template void launch_backward_split_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, void*, cudaStream_t);

}  // namespace softmax_rows
