// Launchers of versions that later versions call. Each is defined, and compiled for every element
// type, in the version that its comment names.
#pragma once

#include "matrix_reduction.hpp"

namespace matrix_reduction {

/// v05, for rows of up to ladder::kLongestShortRow<T> elements
template <class T>
void launch_short_row_sums(const Args<T>& a, cudaStream_t stream);

}  // namespace matrix_reduction
