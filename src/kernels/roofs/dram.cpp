#include "harness/family.hpp"
#include "reference.hpp"

namespace roofs {
namespace {

struct Contract : dram {
  static ladder::Measurement measures(ladder::DType) { return {"dram", "B"}; }

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::read>("READ").multiple_of(16),
            ladder::size<&Problem::write>("WRITTEN").multiple_of(16)};
  }
  static bool valid(const Problem& p) { return p.read + p.write > 0; }

  // Every mix, in whole tiles and not, with much and with little left over.
  static std::vector<Problem> test_problems() {
    std::vector<Problem> problems;
    for (const Problem& mix : {Problem{1, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {1, 2}}) {
      for (std::int64_t vectors : {1, 255, 1024, 20'001}) {
        problems.push_back({16 * vectors * mix.read, 16 * vectors * mix.write});
      }
    }
    for (const Problem& vectors :
         {Problem{5000, 1}, {1, 5000}, {5, 3}, {6000, 1000}, {1000, 4000}}) {
      problems.push_back({16 * vectors.read, 16 * vectors.write});
    }
    return problems;
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1 << 16, 1 << 16}, {1 << 16, 0}};
    constexpr std::int64_t kOne = 1;
    return {{kOne << 25, kOne << 25},
            {kOne << 28, kOne << 28},
            {kOne << 30, kOne << 30},
            {kOne << 31, 0},
            {0, kOne << 31}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"small integers", ladder::small_integer_value, true}};
  }

  static ladder::Cost cost(const Problem& p, ladder::DType) {
    return {.flops = 0,
            .bytes_read = static_cast<double>(p.read),
            .bytes_written = static_cast<double>(p.write)};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("x", p.read / 4),
            ladder::output<T>("y", p.write / 4 + ladder::ceil_div(mix(p).reads, kChunk))};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    T* const y = of["y"];
    return {.x = of["x"], .y = y, .sums = y + p.write / 4, .mix = mix(p)};
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const Args<T> args{.x = of["x"], .y = nullptr, .sums = nullptr, .mix = mix(p)};
    ladder::Expected y{.values = ladder::filled(std::span<T>(of["y"]).size()), .magnitude = {}};
    ladder::parallel_for(y.values.size(), 1 << 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        y.values[i] = answer(args, static_cast<std::int64_t>(i));
    });
    return ladder::answers(std::move(y));
  }

#if defined(LADDER_CUDA_BACKEND)
  static bool wants_gpu_reference(const Problem& p) { return p.read + p.write > 1 << 24; }
  static void reference_on_gpu(const Args<float>& args, std::span<const ladder::AnswerOnGpu> y) {
    roofs::reference_on_gpu(args, y[0]);
  }
#endif
};

const ladder::RegisterFamily<Contract, float> registration;

}  // namespace
}  // namespace roofs
