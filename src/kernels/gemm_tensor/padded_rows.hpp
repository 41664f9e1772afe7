// v26's copies of A and B whose rows start at multiples of 16 bytes, which v20 makes too. The kernel is
// compiled once, in v26.
#pragma once

#include "k_tiles.hpp"

namespace gemm_padded_rows {

/// A matrix and its copy.
template <class T>
struct Copy {
  const T* from;
  T* to;
  int rows, columns, pitch;  // of the copy; from has no padding
};

/// Of rows that start at multiples of 16 bytes none is needed. Long rows are padded to lines of 128
/// bytes, which costs little and saves the L2 half of its work.
inline int pitch_of_copy(int columns) {
  if (columns % 8 == 0) return 0;
  const int unit = columns >= 256 ? 64 : 8;
  return ladder::ceil_div(columns, unit) * unit;
}

/// Which of a product's operands are copied.
template <class Op>
struct Copies {
  int rows_a, columns_a, pitch_a, rows_b, columns_b, pitch_b;  // pitches: 0 where nothing is copied

  Copies(int m, int n, int k)
      : rows_a(Op::kTransposedA ? k : m),
        columns_a(Op::kTransposedA ? m : k),
        pitch_a(pitch_of_copy(columns_a)),
        rows_b(Op::kTransposedB ? n : k),
        columns_b(Op::kTransposedB ? k : n),
        pitch_b(pitch_of_copy(columns_b)) {}

  bool any() const { return pitch_a + pitch_b > 0; }

  /// Whether matrices that are not copied start at multiples of 16 bytes, where their rows then do.
  template <class T, class C>
  bool starts_aligned(const gemm_tensor::Args<T, C>& g) const {
    return (pitch_a > 0 || has_aligned_rows(g.a, 8)) && (pitch_b > 0 || has_aligned_rows(g.b, 8)) &&
           (g.n % 8 > 0 || has_aligned_rows(g.c, 8));
  }

  /// With the copies' pitches.
  template <class T, class C>
  gemm_tensor::Args<T, C> pitched(gemm_tensor::Args<T, C> g) const {
    g.pitch_a = pitch_a;
    g.pitch_b = pitch_b;
    return g;
  }

  /// Of the copies, each at a multiple of 256 bytes.
  template <class T>
  std::size_t bytes_a() const {
    return bytes<T>(rows_a, pitch_a);
  }
  template <class T>
  std::size_t bytes() const {
    return bytes_a<T>() + bytes<T>(rows_b, pitch_b);
  }
  /// What DRAM moves for them.
  template <class T>
  double traffic() const {
    const double a = rows_a, b = rows_b;
    return 2. * sizeof(T) * (a * pitch_a + b * pitch_b);
  }

 private:
  template <class T>
  static std::size_t bytes(int rows, int pitch) {
    return (static_cast<std::size_t>(rows) * static_cast<std::size_t>(pitch) * sizeof(T) + 255) &
           ~std::size_t{255};
  }
};

/// Both copies, in one launch; one that has no pitch is none.
template <class T>
void launch_copies(const Copy<T>& a, const Copy<T>& b, cudaStream_t stream);

/// By how many ns a product takes longer for copies of however few bytes.
constexpr double kCopyLaunch = 2800;

/// Makes them at the beginning of the workspace. Returns args of them, and of the workspace that lies behind.
template <class Op, class T, class C>
gemm_tensor::Args<T, C> make_copies(const Copies<Op>& of, const gemm_tensor::Args<T, C>& g,
                                    cudaStream_t stream) {
  if (!of.any()) return g;
  char* const copies = static_cast<char*>(g.workspace);
  T* const a = reinterpret_cast<T*>(copies);
  T* const b = reinterpret_cast<T*>(copies + of.template bytes_a<T>());
  launch_copies<T>({g.a, a, of.rows_a, of.columns_a, of.pitch_a},
                   {g.b, b, of.rows_b, of.columns_b, of.pitch_b}, stream);
  gemm_tensor::Args<T, C> args = of.pitched(g);
  if (of.pitch_a > 0) args.a = a;
  if (of.pitch_b > 0) args.b = b;
  args.workspace = copies + of.template bytes<T>();
  return args;
}

}  // namespace gemm_padded_rows
