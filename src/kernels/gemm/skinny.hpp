// The launcher of v16's kernels for few rows or columns, which v20 calls too. They are compiled
// once, in v16.
#pragma once

#include "device/needs.hpp"
#include "gemm.hpp"

constexpr int kFew = 16;  // rows or columns

/// Dynamic shared memory of a block, in bytes.
std::size_t skinny_shared_bytes(int m, int n);

/// Bytes of the partial sums where K is split.
std::size_t skinny_workspace(const gemm::Args<float>& g);

/// Bytes of state.
std::size_t skinny_state(const gemm::Args<float>& g);

void launch_skinny(const gemm::Args<float>& g, void* state, cudaStream_t stream);
