#include "harness/family.hpp"
#include "gemm_tensor.hpp"
#include "kernels/gemm/reference.hpp"
#include "reference.hpp"

#include <algorithm>

namespace {

template <class Op>
struct Contract : Op {
  using Problem = typename Op::Problem;
  template <class T>
  using Output = typename Op::template Output<T>;
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::m>("M"), ladder::size<&Problem::n>("N"),
            ladder::size<&Problem::k>("K")};
  }

  // Sizes that are multiples of 16, for rows of every type that start at multiples of 16 bytes; of
  // 8 and of 4, for those of 2 and of 4 bytes; and ragged ones.
  static std::vector<Problem> test_problems() {
    return {{16, 16, 16},    {128, 128, 128}, {64, 256, 64},  {144, 272, 80}, {16, 528, 208},
            {16, 144, 1040}, {272, 16, 208},  {256, 512, 48}, {400, 144, 16}, {0, 16, 32},
            {32, 48, 0},     {8, 8, 8},       {136, 264, 72}, {120, 248, 56}, {4, 4, 4},
            {132, 260, 20},  {1, 1, 1},       {31, 33, 17},   {127, 129, 65}, {1, 257, 100},
            {257, 1, 100},   {129, 127, 255}, {70, 13, 1030}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{128, 256, 128}, {144, 272, 80}, {143, 271, 80}};
    return {{2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192}};
  }

  /// More tiles than a GPU runs at a time; K as sign_value needs it.
  static Problem smaller(const Problem& p) {
    const auto size = [](int n, int most) { return static_cast<int>(ladder::shortened(n, most)); };
    return {size(p.m, 2048), size(p.n, 2048), size(p.k, 1024)};
  }

  /// -1, 0 or 1: sums of up to 1040 products stay below 256 but for 12 standard deviations, and are
  /// exact in every type of C. Longer ones, which are only tried where a version can't do the smaller
  /// problem, are rounded once.
  static double sign_value(std::uint64_t bits, const ladder::Array&) {
    return static_cast<double>(bits % 3) - 1.0;
  }
  static const char* best(const Problem&) { return "v20_"; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {.name = "signs", .value = sign_value, .exact = true, .rounded = true}};
  }

  static double flops(const Problem& p) { return 2.0 * p.m * p.n * p.k; }

  /// fp32 is made of TF32, with three products for one (v04).
  static std::vector<ladder::Demand> demands(const Problem&, ladder::DType dtype,
                                             const ladder::Cost& cost) {
    if (dtype == ladder::DType::f32) return {{{"tensor", ladder::DType::tf32}, 3 * cost.flops}};
    return {{{"tensor", dtype}, cost.flops}};
  }

  // The products are exact. An instruction aligns some of them and the sum so far to the largest,
  // cuts off what lies more than some bits below it, and adds: 23 bits on the first tensor cores,
  // 24 and 25 on later ones (Fasi, Higham, Mikaitis and Pranesh, Numerical Behavior of NVIDIA
  // Tensor Cores, 2021); of e4m3 13 bits on Hopper (DeepSeek-V3 Technical Report, section 3.3.2).
  //
  // With u = 2^-23, what is cut off of a number is at most u times the largest partial sum S, and
  // at most 2 K numbers are cut, the products and no more partial sums than those. It has always
  // the sign of the number, so nothing averages out where all are positive: there the error is up
  // to 2 K u (|A||B|). Here inputs have both signs. Partial sums stay below lambda * sqrt(K) times
  // the rms of a product, which is 4/3 of its mean magnitude (|A||B|) / K: S is at most
  // 4/3 lambda / sqrt(K) (|A||B|), and even if all cuts went one way, the K of the products came to
  // 4/3 lambda sqrt(K) u (|A||B|), those of the sums, one per instruction and so K / 4 at most, to a
  // quarter of that: 13 sqrt(K) u (|A||B|) with lambda = 8, which is never reached. At K = 4096
  // that is 0.1, and rounding C to bf16 may take as much; a missing K-tile of 16 changes C by 1.3.
  //
  // For e4m3 that would allow more than C itself. There the cuts of the products, whose signs are
  // random, are taken as the independent numbers they are, of at most u S each: lambda * sqrt(K) of
  // them come to 4/3 lambda^2 u (|A||B|), and the sums' cuts, one for 32 products and one-sided, to
  // 4/3 lambda / 32 sqrt(K) u (|A||B|). With a uniform distribution of the cuts (rms u S / sqrt(3)),
  // partial sums that are on average 2/3 of the last, and lambda = 5, that is
  // (13 + 0.14 sqrt(K)) u (|A||B|): 2.7 at K = 4096, where C is about 21. A missing K-tile of 32
  // changes C by 1.9 on average, and by 4 times that in some of its many elements.
  //
  // f32 is held to what gemm's kernels are, which use the CUDA cores, and to 2^-21 (|A||B|) that
  // products lack when they are made of TF32 (v04): only K below 16 can tell.
  template <class T>
  static ladder::Tolerance tolerance(const Problem& p) {
    const double k = p.k, root = std::sqrt(k);
    const ladder::DType out = ladder::DTypeOf<Output<T>>::value;
    const double rounding = ladder::unit_roundoff(out);
    if (std::is_same_v<T, float>) return {.scaled = 0x1p-21 + std::min(k, 8 * root) * 0x1p-24};
    if (std::is_same_v<T, ladder::float8_e4m3>) {
      return {.relative = rounding, .scaled = std::min(2 * k, 13 + 0.14 * root) * 0x1p-13};
    }
    return {.relative = out == ladder::DType::f32 ? 0 : rounding,
            .scaled = std::min(2 * k, 13 * root) * 0x1p-23,
            .absolute = out == ladder::DType::f16 ? 0x1p-25 : 0};  // subnormal numbers
  }

  template <class T>
  using Args = typename Op::template Args<T>;
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("a", {p.m, p.k}), ladder::input<T>("b", {p.k, p.n}),
            ladder::output<Output<T>>("c", {p.m, p.n}, tolerance<T>(p))};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.a = of["a"], .b = of["b"], .c = of["c"], .m = p.m, .n = p.n, .k = p.k};
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    return ladder::answers(
        gemm_reference<T>({of["a"], Op::kTransposedA}, {of["b"], Op::kTransposedB}, p.m, p.n, p.k));
  }
#if defined(LADDER_CUDA_BACKEND)
  static bool wants_gpu_reference(const Problem& p) { return flops(p) > 1e9; }
  template <class T>
  static void reference_on_gpu(const Args<T>& g, std::span<const ladder::AnswerOnGpu> c) {
    gemm_reference_on_gpu<T>({g.a, Op::kTransposedA}, {g.b, Op::kTransposedB}, g.m, g.n, g.k, c[0]);
  }
#endif
};

/// What is to be said of nt_bias_gelu beyond nt. Magnitudes hold the error allowed.
struct BiasGelu : Contract<gemm_tensor_nt_bias_gelu> {
  using Product = Contract<gemm_tensor_nt>;

  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return Product::bench_problems(backend);
    return {{512, 14336, 4096}, {4096, 14336, 4096}, {8192, 8192, 8192}};  // Llama-3-8B's, a cube
  }

  /// Small ones are where gelu is curved, whatever K.
  static double small_value(std::uint64_t bits, const ladder::Array& array) {
    return ladder::uniform(bits) * (array.name == "a" ? 0x1p-4 : 1);
  }
  static const char* best(const Problem&) { return "v22_"; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value}, {"small", small_value}};
  }

  static double flops(const Problem& p) {
    return Product::flops(p) + (1.0 + elementwise::gelu_tanh::flops) * p.m * p.n;
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("a", {p.m, p.k}), ladder::input<T>("b", {p.k, p.n}),
            ladder::input<T>("bias", p.n), ladder::output<T>("c", {p.m, p.n}, {.scaled = 1})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    Args<T> args = Product::bind<T>(p, of);
    args.bias = of["bias"];
    return args;
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    std::vector<ladder::Expected> answers = Product::reference<T>(p, of);
    ladder::Expected& c = answers[0];
    const double scaled = Product::tolerance<T>(p).scaled;
    const std::span<const T> bias = of["bias"];
    for (std::size_t i = 0; i < c.values.size(); ++i) {
      const gemm_tensor_reference::Answer y = gemm_tensor_reference::bias_gelu(
          c.values[i], scaled * c.magnitude[i], bias[i % bias.size()]);
      c.values[i] = y.value;
      c.magnitude[i] = y.allowed;
    }
    return answers;
  }
#if defined(LADDER_CUDA_BACKEND)
  template <class T>
  static void reference_on_gpu(const Args<T>& g, std::span<const ladder::AnswerOnGpu> c) {
    Product::reference_on_gpu(g, c);
    const double scaled = Product::tolerance<T>({g.m, g.n, g.k}).scaled;
    gemm_tensor_reference::bias_gelu_on_gpu(g.bias, g.m, g.n, scaled, c[0]);
  }
#endif
};

using ladder::bfloat16;
using ladder::float8_e4m3;
using ladder::half;
using ladder::tfloat32;
const ladder::RegisterFamily<Contract<gemm_tensor_nn>, half, bfloat16, tfloat32, float> nn;
const ladder::RegisterFamily<Contract<gemm_tensor_nt>, half, bfloat16, tfloat32, float8_e4m3> nt;
const ladder::RegisterFamily<Contract<gemm_tensor_tn>, half, bfloat16, tfloat32> tn;
const ladder::RegisterFamily<BiasGelu, half, bfloat16> nt_bias_gelu;
const ladder::RegisterFamily<Contract<gemm_tensor_tn_f32>, half, bfloat16> tn_f32;

}  // namespace
