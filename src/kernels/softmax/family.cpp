#include "harness/family.hpp"
#include "reference.hpp"
#include "softmax.hpp"

namespace {

namespace reference_of = softmax_reference;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// From 0 to 1.
double fraction(std::uint64_t bits) { return 0.5 + 0.5 * ladder::uniform_value(bits, 0); }

// --- Inputs of the forward pass -----------------------------------------------------------------

// exp overflows in fp32 above 88 and underflows below -103.
double large_value(std::uint64_t bits, int input) {
  return 100 * ladder::uniform_value(bits, input);
}

// A quarter of the elements is masked.
double masked_value(std::uint64_t bits, int input) {
  return bits % 4 == 0 ? -kInfinity : ladder::uniform_value(bits, input);
}

// Few elements are not masked: many threads, and short rows, have none.
double mostly_masked_value(std::uint64_t bits, int input) {
  return bits % 256 != 0 ? -kInfinity : ladder::uniform_value(bits, input);
}

// One element in 64 is so large that the others vanish beside it; f16 ends at 65504.
double one_huge_value(std::uint64_t bits, int input) {
  return bits % 64 == 0 ? 6e4 : ladder::uniform_value(bits, input);
}

// exp underflows, but relative to the row's largest element.
double constant_value(std::uint64_t, int) { return -20000; }

// Of bf16 and f32 denormal, of f16 zero.
double denormal_value(std::uint64_t bits, int input) {
  return 0x1p-127 * ladder::uniform_value(bits, input);
}

// --- Inputs of the gradients: 0 is y, 1 is dy ---------------------------------------------------

// Results of rows of about a thousand elements.
double probability(std::uint64_t bits, int input) {
  return input == 0 ? 0x1p-9 * fraction(bits) : ladder::uniform_value(bits, input);
}

// Rows that a few elements dominate; the others have no gradient.
double sparse_probability(std::uint64_t bits, int input) {
  return input == 0 ? (bits % 64 == 0 ? 1 : 0) : ladder::uniform_value(bits, input);
}

// Of all dy the same is subtracted: where the y add up to 1, nothing is left.
double constant_probability(std::uint64_t, int input) { return input == 0 ? 0x1p-10 : 1; }

double denormal_probability(std::uint64_t bits, int input) {
  return input == 0 ? 0x1p-127 * fraction(bits) : ladder::uniform_value(bits, input);
}

double log_probability(std::uint64_t bits, int input) {
  return input == 0 ? -10 * fraction(bits) : ladder::uniform_value(bits, input);
}

// exp underflows in fp32 below -103.
double low_log_probability(std::uint64_t bits, int input) {
  return input == 0 ? -200 * fraction(bits) : ladder::uniform_value(bits, input);
}

double masked_log_probability(std::uint64_t bits, int input) {
  return input == 0 && bits % 4 == 0 ? -kInfinity : log_probability(bits, input);
}

double constant_log_probability(std::uint64_t, int input) { return input == 0 ? -6.9375 : 1; }

template <class Op>
std::vector<ladder::InputSet> input_sets_of() {
  if (std::same_as<Op, softmax_backward>) {
    return {{"uniform", probability},
            {"sparse", sparse_probability},
            {"constant", constant_probability},
            {"denormal", denormal_probability}};
  }
  if (std::same_as<Op, log_softmax_backward>) {
    return {{"uniform", log_probability},
            {"low", low_log_probability},
            {"masked", masked_log_probability},
            {"constant", constant_log_probability}};
  }
  // Of a row of nothing but -inf cuDNN makes zeros.
  return {{"uniform", ladder::uniform_value},
          {"large", large_value},
          {"masked", masked_value},
          {.name = "mostly masked", .value = mostly_masked_value, .gpu_exception = "v00_cudnn"},
          {"one huge", one_huge_value},
          {"constant", constant_value},
          {"denormal", denormal_value}};
}

template <class Op>
struct Contract : Op {
  using Problem = softmax::Problem;
  static constexpr bool is_causal = std::same_as<Op, causal_softmax>;
  static constexpr const char* problem_help = "ROWSxCOLS, e.g. 8192x4096";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 2, 0);
    constexpr std::int64_t kMost = 1 << 30;  // so that the kernels may count beyond it in an int
    if (!d || std::max((*d)[0], (*d)[1]) > kMost) return std::nullopt;
    return Problem{static_cast<int>((*d)[0]), static_cast<int>((*d)[1])};
  }
  static std::string text(const Problem& p) {
    return std::to_string(p.rows) + "x" + std::to_string(p.cols);
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
  static std::vector<ladder::InputSet> input_sets() { return input_sets_of<Op>(); }
  static Problem smaller(const Problem& p) {
    return {static_cast<int>(ladder::fewer_rows(p.rows, p.cols)), p.cols};
  }

  // Useful operations of an element. Forward: comparison, subtraction, exp, addition, and a product
  // or a difference. Backward: two in the sum, or one and an exp; a difference and a product.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double n = static_cast<double>(p.rows) * p.cols;
    const auto size = static_cast<double>(ladder::size_of(dtype));
    const double seen = is_causal ? elements_seen(p) : n;
    return {.flops = (Op::inputs == 1 ? 5 : 4) * seen,
            .bytes_read = Op::inputs * seen * size,
            .bytes_written = n * size};
  }

  // The terms are made in reference.hpp, in units of u; the type's own rounding comes on top.
  static ladder::Tolerance tolerance(const Problem&, ladder::DType dtype) {
    const double rounding = dtype == ladder::DType::f32 ? 0 : ladder::unit_roundoff(dtype);
    return {.relative = rounding, .scaled = reference_of::kU * (1 + rounding)};
  }

  static std::vector<std::size_t> input_sizes(const Problem& p) {
    return std::vector<std::size_t>(Op::inputs, output_size(p));
  }
  static std::size_t output_size(const Problem& p) {
    return static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.cols);
  }

  template <class T>
  static typename Op::template Args<T> bind(const Problem& p, std::span<T* const> inputs,
                                            T* output) {
    if constexpr (Op::inputs == 1) {
      return {.x = inputs[0], .y = output, .rows = p.rows, .cols = p.cols, .workspace = nullptr};
    } else {
      return {.y = inputs[0],
              .dy = inputs[1],
              .dx = output,
              .rows = p.rows,
              .cols = p.cols,
              .workspace = nullptr};
    }
  }

  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::span<const T>> inputs) {
    const auto cols = static_cast<std::size_t>(p.cols);
    ladder::Expected expected{.values = ladder::filled(output_size(p)),
                              .magnitude = ladder::filled(output_size(p))};
    auto rows = [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r) {
        const reference_of::Row row{&expected.values[r * cols], &expected.magnitude[r * cols]};
        const T* const first = &inputs[0][r * cols];
        if constexpr (is_causal) {  // the others are 0 exactly, as they are already
          reference_of::answer(softmax{}, first,
                               Op::visible(static_cast<std::int64_t>(r), p.rows, p.cols), row);
        } else if constexpr (Op::inputs == 1) {
          reference_of::answer(Op{}, first, p.cols, row);
        } else {
          reference_of::answer(Op{}, first, &inputs[1][r * cols], p.cols, row);
        }
      }
    };
    if (cols > 0) ladder::parallel_for(static_cast<std::size_t>(p.rows), 1 + 65536 / cols, rows);
    return expected;
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
