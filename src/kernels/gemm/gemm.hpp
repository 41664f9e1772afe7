// GEMM: C = A * B, all matrices row-major and dense.
//
// In the kernels M, N, K are the sizes, BM x BN the tile of C that a block computes, BK the depth
// of the K-tiles of A and B it holds at once, TM x TN the thread tile: the part of it that a thread
// computes, in TM * TN accumulators.
#pragma once

#include "device/kernel.hpp"

struct gemm {
  static constexpr const char* family = "gemm";
  static constexpr const char* op = "";

  struct Problem {
    int m, n, k;
  };

  template <class T>
  struct Args {
    const T* a;  // [M][K]
    const T* b;  // [K][N]
    T* c;        // [M][N]
    int m, n, k;
    void* workspace = nullptr;  // for versions that need some
  };
};
