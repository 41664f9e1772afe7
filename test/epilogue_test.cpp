// The epilogue of gemm_tensor's v22 by itself, on the host executor, which has no wgmma to make
// sums. This file is compiled as kernels are.
#include "kernels/gemm_tensor/epilogue.hpp"
#include "host_kernels.hpp"

namespace {

using ladder::test::Array;
using ladder::test::run_block;

constexpr int kRows = 16, kCols = 64;

/// From -4 to 4: where gelu is curved.
float product(int row, int col) { return static_cast<float>((row * 5 + col * 3) % 33 - 16) / 4; }

/// One warp with sums as wgmma leaves them (device/ptx/wgmma.hpp).
template <class T>
__global__ void finish(const T* bias, int n, int column, float* c) {
  const gemm_k_tiles::BiasGelu<T, kCols> epilogue{bias, n};
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto row = [&](int i) { return g + i / 2 % 2 * 8; };
  const auto col = [&](int i) { return i / 4 * 8 + 2 * t + i % 2; };
  const auto loaded = epilogue.load(column);
  float sum[kCols / 2];
  for (int i = 0; i < kCols / 2; ++i) sum[i] = product(row(i), col(i));
  epilogue.apply(sum, loaded);
  for (int i = 0; i < kCols / 2; ++i) c[row(i) * kCols + col(i)] = sum[i];
}

template <class T>
void expect_the_bias_of_each_column(int n, int column) {
  SCOPED_TRACE(testing::Message() << n << " columns, a tile from column " << column);
  Array<T> bias(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) bias.begin()[i] = T(static_cast<float>(i % 61 - 30) / 16);
  Array<float> c(kRows * kCols);
  run_block(32, finish<T>, bias, n, column, c);
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols && column + col < n; ++col) {
      const double x = product(row, col) + static_cast<float>(bias.begin()[column + col]);
      const double w = 0.79788456080286536 * (x + 0.044715 * x * x * x);
      ASSERT_NEAR(c.begin()[row * kCols + col], x / 2 * (1 + std::tanh(w)), 0x1p-22 * std::abs(x))
          << "row " << row << ", column " << col;
    }
  }
}

TEST(BiasGelu, AddsTheBiasOfItsColumnToEverySum) {
  for (const auto& [n, column] : {std::pair{64, 0}, {192, 64}, {40, 0}, {104, 64}}) {
    expect_the_bias_of_each_column<ladder::half>(n, column);
    expect_the_bias_of_each_column<ladder::bfloat16>(n, column);
  }
}

}  // namespace
