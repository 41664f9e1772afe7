// The roofs of arithmetic: FMAs on the CUDA cores, products on the tensor cores.
#include "harness/family.hpp"
#include "roofs.hpp"

namespace roofs {
namespace {

/// The same values over and over.
ladder::Expected repeated(const std::vector<double>& values, std::int64_t times) {
  ladder::Expected all;
  all.values.reserve(values.size() * static_cast<std::size_t>(times));
  for (; times > 0; --times) all.values.insert(all.values.end(), values.begin(), values.end());
  return all;
}

struct FmaContract : fma {
  static ladder::Measurement measures(ladder::DType dtype) { return {{"fma", dtype}, "FLOP"}; }

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::blocks>("BLOCKS").from(1),
            ladder::size<&Problem::steps>("STEPS").from(1).to(kMostSteps).multiple_of(kUnroll)};
  }
  static std::vector<Problem> test_problems() { return {{1, 64}, {2, 1024}, {5, 128}}; }
  // 128 blocks for each of 132 SMs; a GPU with another number of them has a short last wave.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1, 128}};
    return {{128 * 132, 1024}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    auto value = [](std::uint64_t bits, const ladder::Array& array) {
      return array.name == "a" ? 1.0 : static_cast<double>(bits % 3) - 1.0;
    };
    return {{"counting", value, true}};
  }

  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double width = dtype == ladder::DType::f16 ? kWidth<ladder::half> : 1;
    const auto threads = static_cast<double>(p.blocks * kBlock);
    return {.flops = 2.0 * width * kChains * p.steps * threads,
            .bytes_read = ladder::bytes_of(dtype, 1.0 + kBlock),
            .bytes_written = threads * (dtype == ladder::DType::f64 ? 8 : 4)};
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("a", 1), ladder::input<T>("b", kBlock),
            ladder::output<Output<T>>("y", p.blocks * kBlock)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.a = of["a"], .b = of["b"], .y = of["y"], .blocks = p.blocks, .steps = p.steps};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const T* const b = of["b"];
    std::vector<double> y;  // of a block
    for (int i = 0; i < kBlock; ++i) y.push_back(result<T>(static_cast<double>(b[i]), p.steps));
    return ladder::answers(repeated(y, p.blocks));
  }
};

template <class Op>
struct TensorContract : Op {
  static ladder::Measurement measures(ladder::DType dtype) { return {{"tensor", dtype}, "FLOP"}; }
  using Problem = typename Op::Problem;

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::blocks>("BLOCKS").from(1),
            ladder::size<&Problem::steps>("STEPS").from(1).to(Op::kMostSteps)};
  }
  static std::vector<Problem> test_problems() { return {{1, 1}, {2, 7}, {3, 20}}; }
  // One wave on 132 SMs: two blocks per SM, or with wgmma, whose C fills the registers, one.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1, 8}};
    if constexpr (Op::kM == 64) return {{132, 1024}};
    return {{2 * 132, 4096}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"small integers", ladder::small_integer_value, true}};
  }

  static double flops(const Problem& p) {
    return 2.0 * Op::kM * Op::kN * Op::kK * Op::kProducts * static_cast<double>(p.blocks) * p.steps;
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("a", {Op::kM, Op::kK}), ladder::input<T>("b", {Op::kN, Op::kK}),
            ladder::output<float>("c", {p.blocks, Op::kProducts, Op::kM, Op::kN})};
  }
  template <class T>
  static TensorArgs<T> bind(const Problem& p, ladder::Operands of) {
    return {.a = of["a"], .b = of["b"], .c = of["c"], .blocks = p.blocks, .steps = p.steps};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const T *const a = of["a"], *const b = of["b"];
    std::vector<double> product;
    for (int i = 0; i < Op::kM; ++i) {
      for (int j = 0; j < Op::kN; ++j) {
        double sum = 0;
        for (int k = 0; k < Op::kK; ++k) {
          sum += ladder::widen(a[i * Op::kK + k]) * ladder::widen(b[j * Op::kK + k]);
        }
        product.push_back(Op::added(p.steps) * sum);
      }
    }
    return ladder::answers(repeated(product, p.blocks * Op::kProducts));
  }
};

const ladder::RegisterFamily<FmaContract, float, double, ladder::half> register_fma;
const ladder::RegisterFamily<TensorContract<mma>, ladder::half, ladder::bfloat16> register_mma;
const ladder::RegisterFamily<TensorContract<mma_tf32>, ladder::tfloat32> register_mma_tf32;
const ladder::RegisterFamily<TensorContract<wgmma>, ladder::half, ladder::bfloat16> register_wgmma;
const ladder::RegisterFamily<TensorContract<wgmma_tf32>, ladder::tfloat32> register_wgmma_tf32;
const ladder::RegisterFamily<TensorContract<wgmma_e4m3>, ladder::float8_e4m3> register_wgmma_e4m3;

}  // namespace
}  // namespace roofs
