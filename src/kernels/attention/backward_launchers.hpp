// What later versions of the gradients launch too. Each is compiled once, in the version that
// introduces it.
#pragma once

#include "attention.hpp"

namespace attention_backward_parts {

/// v31: delta, a float for each query, in the order of BackwardHead::first_row.
template <class T>
void launch_delta(const attention_backward::Args<T>& a, float* delta, cudaStream_t stream);
extern template void launch_delta(const attention_backward::Args<ladder::half>&, float*,
                                  cudaStream_t);
extern template void launch_delta(const attention_backward::Args<ladder::bfloat16>&, float*,
                                  cudaStream_t);

/// v32: dq of its sums in fp32, rows of d in the same order, times the scale.
template <class T>
void launch_round_dq(const attention_backward::Args<T>& a, const float* sums, cudaStream_t stream);
extern template void launch_round_dq(const attention_backward::Args<ladder::half>&, const float*,
                                     cudaStream_t);
extern template void launch_round_dq(const attention_backward::Args<ladder::bfloat16>&,
                                     const float*, cudaStream_t);

}  // namespace attention_backward_parts
