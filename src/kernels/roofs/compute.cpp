// The roofs of arithmetic: FMAs on the CUDA cores, products on the tensor cores.
#include "harness/family.hpp"
#include "roofs.hpp"

namespace roofs {
namespace {

struct FmaContract : fma {
  static constexpr ladder::Limit limit = ladder::Limit::fma;
  static constexpr const char* problem_help =
      "BxS, blocks of 256 threads and steps of each chain, a multiple of 64 up to 1024, e.g. "
      "16896x1024";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 2, 1);
    if (!d || (*d)[1] % kUnroll != 0 || (*d)[1] > kMostSteps) return std::nullopt;
    return Problem{(*d)[0], static_cast<int>((*d)[1])};
  }
  static std::string text(const Problem& p) {
    return std::to_string(p.blocks) + "x" + std::to_string(p.steps);
  }
  static std::vector<Problem> test_problems() { return {{1, 64}, {2, 1024}, {5, 128}}; }
  // 128 blocks for each of 132 SMs; a GPU with another number of them has a short last wave.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1, 128}};
    return {{128 * 132, 1024}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    auto value = [](std::uint64_t bits, int input) {
      return input == 0 ? 1.0 : static_cast<double>(bits % 3) - 1.0;
    };
    return {{"counting", value, true}};
  }

  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double width = dtype == ladder::DType::f16 ? kWidth<ladder::half> : 1;
    const auto threads = static_cast<double>(p.blocks * kBlock);
    return {.flops = 2.0 * width * kChains * p.steps * threads,
            .bytes_read = (1 + kBlock) * static_cast<double>(ladder::size_of(dtype)),
            .bytes_written = threads * (dtype == ladder::DType::f64 ? 8 : 4)};
  }
  static ladder::Tolerance tolerance(const Problem&, ladder::DType) { return {}; }

  static std::vector<std::size_t> input_sizes(const Problem&) { return {1, kBlock}; }
  static std::size_t output_size(const Problem& p) {
    return static_cast<std::size_t>(p.blocks * kBlock);
  }
  template <class T>
  static Args<T> bind(const Problem& p, std::span<T* const> inputs, Output<T>* output) {
    return {.a = inputs[0], .b = inputs[1], .y = output, .blocks = p.blocks, .steps = p.steps};
  }
  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::span<const T>> inputs) {
    ladder::Expected expected{.values = ladder::filled(output_size(p)), .magnitude = {}};
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      expected.values[i] = result<T>(static_cast<double>(inputs[1][i % kBlock]), p.steps);
    }
    return expected;
  }
};

template <class Op>
struct TensorContract : Op {
  static constexpr ladder::Limit limit = ladder::Limit::tensor;
  using Problem = typename Op::Problem;
  static constexpr const char* problem_help =
      "BxS, blocks and products that each warp or warpgroup adds up, at most 8192, e.g. 264x4096";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 2, 1);
    if (!d || (*d)[1] > Op::kMostSteps) return std::nullopt;
    return Problem{(*d)[0], static_cast<int>((*d)[1])};
  }
  static std::string text(const Problem& p) {
    return std::to_string(p.blocks) + "x" + std::to_string(p.steps);
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

  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const auto products = static_cast<double>(p.blocks * Op::kProducts);
    return {.flops = 2.0 * Op::kM * Op::kN * Op::kK * products * p.steps,
            .bytes_read = (Op::kM + Op::kN) * Op::kK * static_cast<double>(ladder::size_of(dtype)),
            .bytes_written = 4.0 * Op::kM * Op::kN * products};
  }
  static ladder::Tolerance tolerance(const Problem&, ladder::DType) { return {}; }

  static std::vector<std::size_t> input_sizes(const Problem&) {
    return {Op::kM * Op::kK, Op::kN * Op::kK};
  }
  static std::size_t output_size(const Problem& p) {
    return static_cast<std::size_t>(p.blocks * Op::kProducts) * Op::kM * Op::kN;
  }
  template <class T>
  static TensorArgs<T> bind(const Problem& p, std::span<T* const> inputs, float* output) {
    return {.a = inputs[0], .b = inputs[1], .c = output, .blocks = p.blocks, .steps = p.steps};
  }
  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::span<const T>> inputs) {
    auto value = [&](std::size_t input, int row, int k) {
      return static_cast<double>(
          static_cast<float>(inputs[input][static_cast<std::size_t>(row * Op::kK + k)]));
    };
    std::vector<double> product;
    for (int i = 0; i < Op::kM; ++i) {
      for (int j = 0; j < Op::kN; ++j) {
        double sum = 0;
        for (int k = 0; k < Op::kK; ++k) sum += value(0, i, k) * value(1, j, k);
        product.push_back(Op::added(p.steps) * sum);
      }
    }
    ladder::Expected expected{.values = ladder::filled(output_size(p)), .magnitude = {}};
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      expected.values[i] = product[i % product.size()];
    }
    return expected;
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
