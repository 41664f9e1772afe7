// What LayerNorm and RMSNorm tell the harness: problems, costs, exact results and how far a kernel
// may be from them, for the operations forward, add and backward. Included by both family.cpp.
#pragma once

#include "harness/family.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace row_norm {

inline constexpr double kU = 0x1p-24;  // fp32's unit roundoff
/// In units of u, what a mean below the normal numbers is off by: half of their step, 2^-149.
inline constexpr double kOfTinyMean = 0x1p-126;

/// Below the normal numbers rounding errors are half a step: fp32's and the output type's. In units
/// of fp32's unit roundoff.
template <class T>
double least_step() {
  const double of_output = ladder::DTypeOf<T>::value == ladder::DType::f16    ? 0x1p-25
                           : ladder::DTypeOf<T>::value == ladder::DType::bf16 ? 0x1p-134
                                                                              : 0;
  return (0x1p-149 + of_output) / kU;
}

/// The roundings of a sum of n terms: at most n; taken as independent, lambda * sqrt(n) but for a
/// probability that falls like exp(-lambda^2 / 2) (Higham and Mary, A New Approach to Probabilistic
/// Rounding Error Analysis, 2019).
inline double roundings(double n) {
  constexpr double kLambda = 8;
  return std::min(n, kLambda * std::sqrt(n));
}

/// The roundings of a sum of n terms of the sizes that size(i) gives. Where outliers are nearly all
/// of it they are not independent: terms that differ by less than a step of the sum are rounded
/// alike, one after the other, those below a step down to nothing. Such are counted that lie a step
/// from what is a typical term, the median of some of them.
template <class Size>
double roundings(std::size_t n, Size size) {
  std::array<double, 63> some;
  const std::size_t stride = n / some.size() + 1, taken = (n + stride - 1) / stride;
  double all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double term = size(i);
    all += term;
    if (i % stride == 0) some[i / stride] = term;
  }
  const double count = static_cast<double>(n);
  if (!(all > 0)) return roundings(count);
  std::nth_element(some.begin(), some.begin() + taken / 2, some.begin() + taken);
  const double step = 2 * kU * all, typical = some[taken / 2];
  double lost = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double term = size(i);
    const bool alike = term < 2 * step || std::abs(term - typical) < step;
    if (alike) lost += std::min(term, step / 2);
  }
  return std::min(count, roundings(count) + lost / (kU * all));
}

/// A row's mean (0 for RMSNorm) and r = 1 / sqrt(variance + eps), and their errors in units of u.
/// With kappa = sqrt(mean of x^2) * r, about 1 + |mean| / deviation, and s the roundings of the sum
/// over the row:
///   mean     s + 2 times the mean of |x|, no more than its root mean square; times r it moves z
///   r        half the relative error of variance + eps, and 5 for the addition and rsqrt (2 units
///            in the last place). That error is s + 5 of a two-pass variance, with the square of
///            the mean's error, and s * kappa of Welford's (Chan, Golub and LeVeque, Algorithms
///            for Computing the Sample Variance, 1983, table 1). Of RMSNorm, whose squares are all
///            there is and nothing cancels, it is s + 2.
template <class Norm>
struct Row {
  double mean = 0, r;
  double of_mean = 0, of_r;

  Row(std::span<const double> x, double epsilon) {
    const auto n = static_cast<double>(x.size());
    double squares = 0;
    if constexpr (Norm::kCentred) {
      for (const double value : x) mean += value;
      mean /= n;
    }
    for (const double value : x) squares += (value - mean) * (value - mean);
    const double of_squares =
        roundings(x.size(), [&](std::size_t c) { return (x[c] - mean) * (x[c] - mean); });
    const double variance = squares / n;
    r = 1 / std::sqrt(variance + epsilon);
    if constexpr (Norm::kCentred) {
      const double kappa = std::sqrt(mean * mean + variance) * r;
      const double of_sum = roundings(x.size(), [&](std::size_t c) { return std::abs(x[c]); });
      of_mean = (of_sum + 2) * kappa + kOfTinyMean * r;
      of_r = ((of_squares + 5) * (1 + kappa) + of_mean * of_mean * kU) / 2 + 5;
    } else {
      of_r = (of_squares + 2) / 2 + 5;
    }
  }

  double z(double x) const { return (x - mean) * r; }
  /// Of x - mean and its product with r, too.
  double error_of_z(double z) const { return of_mean + std::abs(z) * (of_r + 2); }
  /// Of y = z * weight + bias: z's, the product, and with a bias the sum.
  double error_of_y(double z, double weight, double y) const {
    const double of_product = std::abs(weight) * error_of_z(z);
    return Norm::kCentred ? of_product + 2 * std::abs(z * weight) + std::abs(y) : of_product;
  }
};

// --- Inputs: only x differs between the sets ------------------------------------------------------

using ladder::uniform;

inline double large(std::uint64_t bits) { return 1e4 * uniform(bits); }

// One element in 64 is a hundred times as large as the others, like the outliers of language models.
inline double outlier(std::uint64_t bits) { return bits % 64 == 0 ? 100 : uniform(bits); }

// Few elements that are all of the variance.
inline double huge(std::uint64_t bits) { return bits % 1024 == 0 ? 3e4 : uniform(bits); }

// Below the normal numbers of fp32 and bf16, and of fp16.
inline double denormal(std::uint64_t bits) {
  return (bits % 2 == 0 ? 1e-39 : 1e-5) * uniform(bits);
}

// A row with one is all NaN.
inline double sparse_nan(std::uint64_t bits) {
  return bits % 2048 == 0 ? std::numeric_limits<double>::quiet_NaN() : uniform(bits);
}

// The largest of which a row of 2^18 has a sum of squares in fp32's range.
inline double largest(std::uint64_t bits, const ladder::Array& array) {
  if (array.name != "x") return uniform(bits);
  return (array.dtype == ladder::DType::f16 ? 65504 : 0x1p54) * uniform(bits);
}

template <double kX(std::uint64_t bits)>
double of_x(std::uint64_t bits, const ladder::Array& array) {
  return array.name == "x" ? kX(bits) : uniform(bits);
}

/// What the operations share.
template <class Op>
struct RowsContract : Op {
  using Problem = typename Op::Problem;
  static constexpr bool kIsForward = std::string_view(Op::op).empty();

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::rows>("ROWS"), ladder::size<&Problem::cols>("COLS"),
            ladder::real<&Problem::epsilon>("@eps").unless(Op::kEpsilon)};
  }

  // Rows beyond the registers of a block, above 65536 elements, are whole vectors and not.
  static std::vector<Problem> test_problems() {
    return {{0, 5},     {3, 0},     {1, 1},     {5, 1},     {3, 7},      {5, 31},        {3, 33},
            {70, 40},   {5, 200},   {3, 257},   {1, 504},   {3, 1023},   {3, 1024},      {3, 1025},
            {1, 2048},  {1, 4095},  {2, 4096},  {3, 4097},  {1, 5000},   {1, 8200},      {2, 9001},
            {1, 16392}, {2, 20000}, {1, 50257}, {1, 70000}, {1, 131073}, {3, 200, 1e-6f}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{16, 1024}, {5, 4097}, {64, 32}};
    if (!kIsForward) return {{8192, 1024}, {8192, 4096}, {4096, 8192}, {4096, 8191}, {1024, 32768}};
    return {{8192, 1024},  {8192, 4096},  {8192, 8192},  {8192, 8191},
            {4096, 32768}, {1024, 50257}, {1024, 131072}};
  }
  static Problem smaller(const Problem& p) {
    return {static_cast<int>(ladder::fewer_rows(p.rows, p.cols)), p.cols, p.epsilon};
  }

  static std::size_t columns(const Problem& p) { return static_cast<std::size_t>(p.cols); }

  // The terms are made in reference(), in units of u; the type's own rounding comes on top.
  template <class T>
  static ladder::Array result(const char* name, ladder::Extents size) {
    const double u = ladder::unit_roundoff(ladder::DTypeOf<T>::value);
    const double rounding = std::is_same_v<T, float> ? 0 : u;
    return ladder::output<T>(name, size, {.relative = rounding, .scaled = kU * (1 + rounding)});
  }

  /// What the operations' Args have in common.
  template <class T>
  static typename Op::template Args<T> bind_common(const Problem& p, ladder::Operands of) {
    typename Op::template Args<T> a{};
    a.x = of["x"];
    a.weight = of["weight"];
    a.rows = p.rows;
    a.cols = p.cols;
    a.epsilon = p.epsilon;
    return a;
  }

  /// Calls f(row) for every row that has columns.
  template <class F>
  static void for_each_row(const Problem& p, F f) {
    if (p.cols == 0) return;
    ladder::parallel_for(static_cast<std::size_t>(p.rows), 1 + 65536 / columns(p),
                         [&](std::size_t begin, std::size_t end) {
                           for (std::size_t row = begin; row < end; ++row) f(row);
                         });
  }

  template <class T>
  static std::vector<double> widened(std::span<const T> from) {
    std::vector<double> to(from.size());
    std::ranges::transform(from, to.begin(), ladder::widen<T>);
    return to;
  }
};

/// x, weight, bias (not of RMSNorm) -> y; of the operation add also residual -> sum.
template <class Op>
struct Forward : RowsContract<Op> {
  using Base = RowsContract<Op>;
  using typename Base::Problem;
  static constexpr bool kAdds = !Base::kIsForward;

  // Useful operations of an element: one for the mean, three for the variance, four for the result;
  // of RMSNorm two for the mean of the squares, two for the result; and one for the sum.
  static double flops(const Problem& p) {
    return ((Op::kCentred ? 8.0 : 4.0) + (kAdds ? 1 : 0)) * p.rows * p.cols;
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    const ladder::Extents size{p.rows, p.cols};
    std::vector<ladder::Array> all{ladder::input<T>("x", size), ladder::input<T>("weight", p.cols)};
    if (Op::kCentred) all.push_back(ladder::input<T>("bias", p.cols));
    if (kAdds) all.push_back(ladder::input<T>("residual", size));
    all.push_back(Base::template result<T>("y", size));
    if (kAdds) all.push_back(Base::template result<T>("sum", size));
    return all;
  }
  template <class T>
  static typename Op::template Args<T> bind(const Problem& p, ladder::Operands of) {
    auto a = Base::template bind_common<T>(p, of);
    if constexpr (Op::kCentred) a.bias = of["bias"];
    if constexpr (kAdds) a.residual = of["residual"];
    a.y = of["y"];
    if constexpr (kAdds) a.sum = of["sum"];
    return a;
  }

  // The sum is exact: one rounding to fp32, one to the type. y is that of the rounded sum.
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::span<const T> all_x = of["x"], residual = of[kAdds ? "residual" : "x"];
    const auto weight = Base::template widened<T>(of["weight"]);
    const auto bias = Base::template widened<T>(of[Op::kCentred ? "bias" : "weight"]);
    ladder::Expected y = ladder::zeros({p.rows, p.cols});
    ladder::Expected sum = ladder::zeros({kAdds ? p.rows : 0, p.cols});
    Base::for_each_row(p, [&](std::size_t r) {
      const std::size_t start = r * Base::columns(p);
      std::vector<double> x = Base::widened(all_x.subspan(start, Base::columns(p)));
      for (std::size_t c = 0; kAdds && c < x.size(); ++c) {
        x[c] = sum.values[start + c] = ladder::widen(
            T(static_cast<float>(all_x[start + c]) + static_cast<float>(residual[start + c])));
      }
      const Row<Op> row(x, static_cast<double>(p.epsilon));
      for (std::size_t c = 0; c < x.size(); ++c) {
        const double z = row.z(x[c]), value = z * weight[c] + (Op::kCentred ? bias[c] : 0);
        y.values[start + c] = value;
        y.magnitude[start + c] = row.error_of_y(z, weight[c], value) + least_step<T>();
      }
    });
    if constexpr (kAdds) return ladder::answers(std::move(y), std::move(sum));
    return ladder::answers(std::move(y));
  }
};

/// x, weight, dy -> dx, dweight, dbias (not of RMSNorm)
template <class Op>
struct Backward : RowsContract<Op> {
  using Base = RowsContract<Op>;
  using typename Base::Problem;

  // Useful operations of an element: of LayerNorm four for mean and variance, two for z, one for g,
  // three for the means of g and g * z, four for dx, three for the sums over the rows.
  static double flops(const Problem& p) { return (Op::kCentred ? 17.0 : 11.0) * p.rows * p.cols; }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    const ladder::Extents size{p.rows, p.cols};
    std::vector<ladder::Array> all{ladder::input<T>("x", size), ladder::input<T>("weight", p.cols),
                                   ladder::input<T>("dy", size),
                                   Base::template result<T>("dx", size),
                                   Base::template result<T>("dweight", p.cols)};
    if (Op::kCentred) all.push_back(Base::template result<T>("dbias", p.cols));
    return all;
  }
  template <class T>
  static typename Op::template Args<T> bind(const Problem& p, ladder::Operands of) {
    auto a = Base::template bind_common<T>(p, of);
    a.dy = of["dy"];
    a.dx = of["dx"];
    a.dweight = of["dweight"];
    if constexpr (Op::kCentred) a.dbias = of["dbias"];
    return a;
  }

  // Errors in units of u, with s the roundings of the sum over the row, S over the rows:
  //   g            1 |g|, the product
  //   mean of g    (s + 3) times the mean of |g|
  //   mean of g*z  (s + 4) times the mean of |g * z|, and the mean of |g| times z's errors
  //   dx           r times those of its terms, 4 roundings of each, and r's own
  //   dweight      (S + 2) times the sum of |dy * z|, and the sum of |dy| times z's errors
  //   dbias        S times the sum of |dy|
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::size_t rows = static_cast<std::size_t>(p.rows), cols = Base::columns(p);
    const std::span<const T> all_x = of["x"], all_dy = of["dy"];
    const auto weight = Base::template widened<T>(of["weight"]);
    const double n = p.cols, over_rows = roundings(p.rows);
    std::vector<ladder::Expected> answers =
        ladder::answers(ladder::zeros({p.rows, p.cols}), ladder::zeros(cols));
    if (Op::kCentred) answers.push_back(ladder::zeros(cols));
    ladder::Expected& dx = answers[0];
    std::vector<std::optional<Row<Op>>> all(rows);
    Base::for_each_row(p, [&](std::size_t r) {
      const auto x = Base::widened(all_x.subspan(r * cols, cols));
      const auto dy = Base::widened(all_dy.subspan(r * cols, cols));
      const Row<Op>& row = all[r].emplace(x, static_cast<double>(p.epsilon));
      const double of_sum_g =
          roundings(cols, [&](std::size_t c) { return std::abs(dy[c] * weight[c]); });
      const double of_sum_gz =
          roundings(cols, [&](std::size_t c) { return std::abs(dy[c] * weight[c] * row.z(x[c])); });
      double of_g = 0, of_gz = 0;             // means
      double size_of_g = 0, error_of_gz = 0;  // of |g|; of what the mean of g * z may be off
      for (std::size_t c = 0; c < cols; ++c) {
        const double z = row.z(x[c]), g = dy[c] * weight[c];
        of_g += g / n;
        of_gz += g * z / n;
        size_of_g += std::abs(g) / n;
        error_of_gz += std::abs(g) * ((of_sum_gz + 4) * std::abs(z) + row.error_of_z(z)) / n;
      }
      if constexpr (!Op::kCentred) of_g = size_of_g = 0;
      for (std::size_t c = 0; c < cols; ++c) {
        const double z = row.z(x[c]), g = dy[c] * weight[c];
        const double terms = std::abs(g) + std::abs(of_g) + std::abs(z * of_gz);
        const double value = row.r * (g - of_g - z * of_gz);
        dx.values[r * cols + c] = value;
        dx.magnitude[r * cols + c] =
            row.r * (std::abs(g) + (of_sum_g + 3) * size_of_g + std::abs(z) * error_of_gz +
                     row.error_of_z(z) * std::abs(of_gz) + 4 * terms) +
            (row.of_r + 1) * std::abs(value) + (row.r + 1) * least_step<T>();
      }
    });
    auto sum_columns = [&](std::size_t begin, std::size_t end) {
      for (std::size_t c = begin; c < end; ++c) {
        double dweight = 0, dbias = 0, of_dweight = 0, size_of_dy = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          const double dy = static_cast<float>(all_dy[r * cols + c]);
          const double z = all[r]->z(static_cast<float>(all_x[r * cols + c]));
          dweight += dy * z;
          dbias += dy;
          of_dweight += std::abs(dy) * ((over_rows + 2) * std::abs(z) + all[r]->error_of_z(z));
          size_of_dy += std::abs(dy);
        }
        answers[1].values[c] = dweight;
        answers[1].magnitude[c] = of_dweight + least_step<T>();
        if constexpr (Op::kCentred) {
          answers[2].values[c] = dbias;
          answers[2].magnitude[c] = over_rows * size_of_dy + least_step<T>();
        }
      }
    };
    ladder::parallel_for(cols, 1 + 65536 / std::max<std::size_t>(rows, 1), sum_columns);
    return answers;
  }
};

}  // namespace row_norm
