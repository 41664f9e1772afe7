// GEMM: C = A * B, all matrices row-major and dense.
//
// In the kernels M, N, K are the sizes, BM x BN the tile of C that a block computes, BK the depth
// of the slices of A and B it holds at once, TM x TN the part of the tile that a thread computes.
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
    void* workspace = nullptr;  // for versions that ask for some
  };
};
