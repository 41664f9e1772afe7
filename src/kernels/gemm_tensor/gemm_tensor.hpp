// GEMM on tensor cores: C = A * B, accumulated in fp32. C is row-major; nn, nt and tn say how A and
// B lie in memory, n for as written, t for transposed, as frameworks call them: a linear layer's
// forward pass is nt (its weights are [N][K]), its weights' gradient tn.
//
// In the kernels M, N, K are the sizes, BM x BN the tile of C that a block computes, BK the depth
// of the K-tiles of A and B that it holds at once.
#pragma once

#include "device/kernel.hpp"

struct gemm_tensor {
  static constexpr const char* family = "gemm_tensor";

  struct Problem {
    int m, n, k;
  };

  /// The type of C: T, but for tf32 float and for e4m3 bfloat16.
  template <class T>
  struct OutputOf {
    using type = T;
  };
  template <class T>
  using Output = typename OutputOf<T>::type;

  template <class T, class C = Output<T>>
  struct Args {
    const T* a;  // nn, nt: [M][K]; tn: [K][M]
    const T* b;  // nn, tn: [K][N]; nt: [N][K]
    C* c;        // [M][N]
    int m, n, k;
    void* workspace = nullptr;  // for versions that need some
    const T* bias = nullptr;    // [N], of nt_bias_gelu
    // Of copies that versions make for others: elements from a row to the next; 0: as many as it has.
    int pitch_a = 0, pitch_b = 0;
  };
};

template <>
struct gemm_tensor::OutputOf<ladder::tfloat32> {
  using type = float;
};
template <>
struct gemm_tensor::OutputOf<ladder::float8_e4m3> {
  using type = ladder::bfloat16;
};

struct gemm_tensor_nn : gemm_tensor {
  static constexpr const char* op = "nn";
  static constexpr bool kTransposedA = false, kTransposedB = false;
};
struct gemm_tensor_nt : gemm_tensor {
  static constexpr const char* op = "nt";
  static constexpr bool kTransposedA = false, kTransposedB = true;
};
struct gemm_tensor_tn : gemm_tensor {
  static constexpr const char* op = "tn";
  static constexpr bool kTransposedA = true, kTransposedB = false;
};

/// C = gelu(A * B + bias), with a bias for each column and gelu in the form with tanh
/// (elementwise.hpp).
struct gemm_tensor_nt_bias_gelu : gemm_tensor_nt {
  static constexpr const char* op = "nt_bias_gelu";
};

/// tn with C in fp32 whatever the type of A and B.
struct gemm_tensor_tn_f32 : gemm_tensor_tn {
  static constexpr const char* op = "tn_f32";
  template <class T>
  using Output = float;
  template <class T>
  using Args = gemm_tensor::Args<T, float>;
};
