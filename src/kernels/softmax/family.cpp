#include "harness/family.hpp"
#include "reference.hpp"
#include "softmax.hpp"

namespace {

namespace reference_of = softmax_reference;
using ladder::Array;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// From 0 to 1.
double fraction(std::uint64_t bits) { return 0.5 + 0.5 * ladder::uniform(bits); }

// --- Inputs of the forward pass -----------------------------------------------------------------

// exp overflows in fp32 above 88 and underflows below -103.
double large_value(std::uint64_t bits, const Array&) { return 100 * ladder::uniform(bits); }

// A quarter of the elements is masked.
double masked_value(std::uint64_t bits, const Array&) {
  return bits % 4 == 0 ? -kInfinity : ladder::uniform(bits);
}

// Few elements are not masked: many threads, and short rows, have none.
double mostly_masked_value(std::uint64_t bits, const Array&) {
  return bits % 256 != 0 ? -kInfinity : ladder::uniform(bits);
}

// Up to the type's largest; a product with log2(e) must still fit f32.
double climbing_value(std::uint64_t index, std::uint64_t bits, const Array& array) {
  const double most = array.dtype == ladder::DType::f16 ? 0x1p16 : 0x1p126;
  return ladder::climbing(index, array, most) + ladder::uniform(bits);
}

// exp underflows, but relative to the row's largest element.
double constant_value(std::uint64_t, const Array&) { return -20000; }

// A row with a NaN or +inf is all NaN. Of finite ones the largest overflows where it is scaled before the
// maximum is subtracted.
double special_value(std::uint64_t bits, const Array& array) {
  if (bits % 2048 != 0) return ladder::uniform(bits);
  const double largest = array.dtype == ladder::DType::f16 ? 65504 : 0x1p128;
  const std::uint64_t kind = bits / 2048 % 8;
  if (kind == 0) return kNaN;
  if (kind == 1) return kInfinity;
  return kind < 5 ? 0.75 * largest : -0.125 * largest;
}

// Of bf16 and f32 denormal, of f16 zero.
double denormal_value(std::uint64_t bits, const Array&) { return 0x1p-127 * ladder::uniform(bits); }

// --- Inputs of the gradients: of y, and of dy ---------------------------------------------------

// Results of rows of about a thousand elements.
double probability(std::uint64_t bits, const Array& array) {
  return array.name == "y" ? 0x1p-9 * fraction(bits) : ladder::uniform(bits);
}

// Rows that a few elements dominate; the others have no gradient.
double sparse_probability(std::uint64_t bits, const Array& array) {
  return array.name == "y" ? (bits % 64 == 0 ? 1 : 0) : ladder::uniform(bits);
}

// Of all dy the same is subtracted: where the y add up to 1, nothing is left.
double constant_probability(std::uint64_t, const Array& array) {
  return array.name == "y" ? 0x1p-10 : 1;
}

double denormal_probability(std::uint64_t bits, const Array& array) {
  return array.name == "y" ? 0x1p-127 * fraction(bits) : ladder::uniform(bits);
}

double log_probability(std::uint64_t bits, const Array& array) {
  return array.name == "y" ? -10 * fraction(bits) : ladder::uniform(bits);
}

// exp underflows in fp32 below -103.
double low_log_probability(std::uint64_t bits, const Array& array) {
  return array.name == "y" ? -200 * fraction(bits) : ladder::uniform(bits);
}

// In few dy a NaN or an infinity, which the whole row sees.
template <double kOthers(std::uint64_t bits, const Array&)>
double special_dy(std::uint64_t bits, const Array& array) {
  if (array.name == "y" || bits % 4096 != 0) return kOthers(bits, array);
  return bits & 4096 ? kNaN : kInfinity;
}

double masked_log_probability(std::uint64_t bits, const Array& array) {
  return array.name == "y" && bits % 4 == 0 ? -kInfinity : log_probability(bits, array);
}

double constant_log_probability(std::uint64_t, const Array& array) {
  return array.name == "y" ? -6.9375 : 1;
}

template <class Op>
std::vector<ladder::InputSet> input_sets_of() {
  if (std::same_as<Op, softmax_backward>) {
    return {{"uniform", probability},
            {"sparse", sparse_probability},
            {"constant", constant_probability},
            {"denormal", denormal_probability},
            {"special", special_dy<probability>}};
  }
  if (std::same_as<Op, log_softmax_backward>) {
    return {{"uniform", log_probability},
            {"low", low_log_probability},
            {"masked", masked_log_probability},
            {"constant", constant_log_probability},
            {"special", special_dy<log_probability>}};
  }
  // Of a row of nothing but -inf cuDNN makes zeros.
  return {{"uniform", ladder::uniform_value},
          {"large", large_value},
          {"masked", masked_value},
          {.name = "mostly masked", .value = mostly_masked_value, .gpu_exception = "v00_cudnn"},
          {.name = "climbing", .at = climbing_value},
          {"constant", constant_value},
          {"special", special_value},
          {"denormal", denormal_value}};
}

template <class Op>
struct Contract : Op {
  using Problem = softmax::Problem;
  static constexpr bool is_causal = std::same_as<Op, causal_softmax>;
  static constexpr bool is_forward = Op::inputs == 1;
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::rows>("ROWS"), ladder::size<&Problem::cols>("COLS")};
  }

  // Causal ones also: a matrix higher than wide, whose first rows see nothing, and rows with
  // vectors to skip among those that a block does not hold.
  static std::vector<Problem> test_problems() {
    std::vector<Problem> problems{
        {0, 5},     {3, 0},     {1, 1},     {5, 1},     {5, 7},      {5, 31},    {3, 33},
        {5, 200},   {3, 257},   {1, 504},   {9, 912},   {3, 1023},   {3, 1024},  {3, 1025},
        {1, 2048},  {1, 4095},  {2, 4096},  {3, 4097},  {1, 5000},   {1, 8200},  {1, 9001},
        {2, 20000}, {1, 33003}, {1, 40000}, {2, 50257}, {1, 131073}, {1, 270001}};
    if (is_causal) {
      problems.insert(problems.end(), {{40, 33}, {33, 40}, {70, 70}, {101, 1030}, {20, 32800}});
    }
    return problems;
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) {
      if (is_causal) return {{128, 128}, {97, 1031}};
      return {{16, 1024}, {5, 4097}, {2, 20000}, {64, 32}};
    }
    if (is_causal) {
      return {{1024, 1024}, {4096, 4096},   {8192, 8192},
              {8191, 8191}, {16384, 16384}, {1024, 131072}};
    }
    return {{8192, 1024},  {8192, 4096},  {8192, 8192},  {8192, 8191},
            {4096, 32768}, {1024, 50257}, {1024, 131072}};
  }
  static const char* best(const Problem&) {
    if (!is_forward) return "v35_";
    return std::same_as<Op, softmax> ? "v10d_" : is_causal ? "v22_" : "v13_";
  }
  static std::vector<ladder::InputSet> input_sets() { return input_sets_of<Op>(); }
  static Problem smaller(const Problem& p) {
    return {static_cast<int>(ladder::fewer_rows(p.rows, p.cols)), p.cols};
  }

  // Useful operations of an element. Forward: comparison, subtraction, exp, addition, and a product
  // or a difference. Backward: two in the sum, or one and an exp; a difference and a product.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double n = static_cast<double>(p.rows) * p.cols;
    const double seen = is_causal ? elements_seen(p) : n;
    return {.flops = (is_forward ? 5 : 4) * seen,
            .bytes_read = ladder::bytes_of(dtype, Op::inputs * seen),
            .bytes_written = ladder::bytes_of(dtype, n)};
  }

  // The terms are made in reference.hpp, in units of u; the type's own rounding comes on top.
  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    const double u = ladder::unit_roundoff(ladder::DTypeOf<T>::value);
    const double rounding = std::is_same_v<T, float> ? 0 : u;
    const ladder::Tolerance tolerance{.relative = rounding,
                                      .scaled = reference_of::kU * (1 + rounding)};
    const ladder::Extents size{p.rows, p.cols};
    if (is_forward) return {ladder::input<T>("x", size), ladder::output<T>("y", size, tolerance)};
    return {ladder::input<T>("y", size), ladder::input<T>("dy", size),
            ladder::output<T>("dx", size, tolerance)};
  }
  template <class T>
  static typename Op::template Args<T> bind(const Problem& p, ladder::Operands of) {
    if constexpr (is_forward) {
      return {of["x"], of["y"], p.rows, p.cols, nullptr};
    } else {
      return {of["y"], of["dy"], of["dx"], p.rows, p.cols, nullptr};
    }
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const auto cols = static_cast<std::size_t>(p.cols);
    const T *const x = of[is_forward ? "x" : "y"], *const dy = of[is_forward ? "x" : "dy"];
    ladder::Expected expected = ladder::zeros({p.rows, p.cols});
    auto rows = [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r) {
        const std::size_t at = r * cols;
        const reference_of::Row row{&expected.values[at], &expected.magnitude[at]};
        if constexpr (is_causal) {  // the others are 0 exactly, as they are already
          reference_of::answer(softmax{}, x + at,
                               Op::visible(static_cast<std::int64_t>(r), p.rows, p.cols), row);
        } else if constexpr (is_forward) {
          reference_of::answer(Op{}, x + at, p.cols, row);
        } else {
          reference_of::answer(Op{}, x + at, dy + at, p.cols, row);
        }
      }
    };
    if (cols > 0) ladder::parallel_for(static_cast<std::size_t>(p.rows), 1 + 65536 / cols, rows);
    return ladder::answers(std::move(expected));
  }

 private:
  // The rows that see something see one more each, up to all columns.
  static double elements_seen(const Problem& p) {
    const double rows = std::min(p.rows, p.cols);
    return rows * (2.0 * p.cols - rows + 1) / 2;
  }
};

template <class Op>
using Family = ladder::RegisterFamily<Contract<Op>, float, ladder::half, ladder::bfloat16>;
const Family<softmax> register_softmax;
const Family<log_softmax> register_log_softmax;
const Family<causal_softmax> register_causal_softmax;
const Family<softmax_backward> register_softmax_backward;
const Family<log_softmax_backward> register_log_softmax_backward;

}  // namespace
