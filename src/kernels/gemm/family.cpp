#include "harness/family.hpp"
#include "gemm.hpp"
#include "reference.hpp"

#include <algorithm>

namespace {

struct Contract : gemm {
  static constexpr const char* problem_help = "MxNxK, each at least 1, e.g. 4096x4096x4096";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 3, 0);
    constexpr std::int64_t kMost = 1 << 30;  // so that the kernels may count beyond it in an int
    if (!d || std::max({(*d)[0], (*d)[1], (*d)[2]}) > kMost) return std::nullopt;
    return Problem{static_cast<int>((*d)[0]), static_cast<int>((*d)[1]), static_cast<int>((*d)[2])};
  }
  static std::string text(const Problem& p) {
    return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k);
  }

  static std::vector<Problem> test_problems() {
    return {{1, 1, 1},     {0, 5, 3},       {4, 4, 0},       {31, 33, 17},    {32, 32, 32},
            {64, 64, 64},  {127, 129, 65},  {128, 128, 128}, {1, 257, 100},   {257, 1, 100},
            {7, 9, 600},   {200, 100, 300}, {256, 128, 8},   {129, 127, 255}, {132, 260, 20},
            {36, 40, 777}, {250, 500, 40},  {380, 250, 20}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) {
      return {{128, 128, 128}, {100, 77, 130}, {4, 128, 70}};
    }
    return {{1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {1000, 3000, 777}};
  }
  // More tiles than a GPU runs at a time.
  static Problem smaller(const Problem& p) {
    const auto size = [](int n, int most) { return static_cast<int>(ladder::shortened(n, most)); };
    return {size(p.m, 2048), size(p.n, 2048), size(p.k, 4096)};
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {"small integers", ladder::small_integer_value, true}};
  }

  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double m = p.m, n = p.n, k = p.k;
    const auto size = static_cast<double>(ladder::size_of(dtype));
    return {.flops = 2 * m * n * k,
            .bytes_read = (m * k + k * n) * size,
            .bytes_written = m * n * size};
  }

  // Rounding errors of a sum of K products, taken as independent, stay below
  // lambda * sqrt(K) * u * (|A||B|) but for a probability that falls like exp(-lambda^2 / 2)
  // (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).
  static ladder::Tolerance tolerance(const Problem& p, ladder::DType dtype) {
    constexpr double kLambda = 8;
    const double k = p.k;
    return {.relative = dtype == ladder::DType::f32 ? 0 : ladder::unit_roundoff(dtype),
            .scaled = std::min(k, kLambda * std::sqrt(k)) * 0x1p-24};
  }

  static std::vector<std::size_t> input_sizes(const Problem& p) {
    const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n),
               k = static_cast<std::size_t>(p.k);
    return {m * k, k * n};
  }
  static std::size_t output_size(const Problem& p) {
    return static_cast<std::size_t>(p.m) * static_cast<std::size_t>(p.n);
  }

  template <class T>
  static Args<T> bind(const Problem& p, std::span<T* const> inputs, T* output) {
    return {.a = inputs[0], .b = inputs[1], .c = output, .m = p.m, .n = p.n, .k = p.k};
  }

  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::span<const T>> inputs) {
    return gemm_reference<T>({inputs[0].data()}, {inputs[1].data()}, p.m, p.n, p.k);
  }

#if defined(LADDER_CUDA_BACKEND)
  static bool wants_gpu_reference(const Problem& p) { return cost(p, {}).flops > 1e9; }
  static void reference_on_gpu(const Args<float>& args, double* values, double* magnitude) {
    gemm_reference_on_gpu<float>({args.a}, {args.b}, args.m, args.n, args.k, values, magnitude);
  }
#endif
};

const ladder::RegisterFamily<Contract, float> registration;

}  // namespace
