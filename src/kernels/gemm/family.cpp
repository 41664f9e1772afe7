#include "harness/family.hpp"
#include "gemm.hpp"
#include "reference.hpp"

#include <algorithm>

namespace {

struct Contract : gemm {
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::m>("M"), ladder::size<&Problem::n>("N"),
            ladder::size<&Problem::k>("K")};
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
  static const char* best(const Problem&) { return "v20_"; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {"small integers", ladder::small_integer_value, true}};
  }

  static double flops(const Problem& p) { return 2.0 * p.m * p.n * p.k; }

  // Rounding errors of a sum of K products, taken as independent, stay below
  // lambda * sqrt(K) * u * (|A||B|) but for a probability that falls like exp(-lambda^2 / 2)
  // (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    constexpr double kLambda = 8;
    const double k = p.k;
    return {ladder::input<T>("a", {p.m, p.k}), ladder::input<T>("b", {p.k, p.n}),
            ladder::output<T>("c", {p.m, p.n},
                              {.scaled = std::min(k, kLambda * std::sqrt(k)) * 0x1p-24})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.a = of["a"], .b = of["b"], .c = of["c"], .m = p.m, .n = p.n, .k = p.k};
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    return ladder::answers(gemm_reference<T>({of["a"]}, {of["b"]}, p.m, p.n, p.k));
  }
#if defined(LADDER_CUDA_BACKEND)
  static bool wants_gpu_reference(const Problem& p) { return flops(p) > 1e9; }
  static void reference_on_gpu(const Args<float>& g, std::span<const ladder::AnswerOnGpu> c) {
    gemm_reference_on_gpu<float>({g.a}, {g.b}, g.m, g.n, g.k, c[0]);
  }
#endif
};

const ladder::RegisterFamily<Contract, float> registration;

}  // namespace
