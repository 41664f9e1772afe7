// The latencies: of a load from each level of the memory, and of a launch.
#include "harness/family.hpp"
#include "roofs.hpp"

#include <algorithm>
#include <bit>

namespace roofs {
namespace {

template <class Op>
struct Contract : Op {
  using Problem = typename Op::Problem;

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::bytes>("BYTES").from(Op::kLine).to(std::int64_t{Op::kMostLines} *
                                                                      Op::kLine),
            ladder::size<&Problem::loads>("LOADS").from(1)};
  }
  static bool valid(const Problem& p) {
    return std::has_single_bit(static_cast<std::uint64_t>(p.bytes));
  }
  static std::vector<Problem> test_problems() {
    return {{128, 1}, {128, 7}, {4096, 31}, {1 << 14, 1000}, {1 << 17, 1021}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1 << 14, 1000}};
    switch (Op::level) {
      case Level::dram:
        return {{1 << 28, 1 << 12}};
      case Level::l2:
        return {{1 << 22, 1 << 14}};
      case Level::l1:
      case Level::shared:
        return {{1 << 14, 1 << 16}};
    }
    return {};
  }
  static std::vector<ladder::InputSet> input_sets() {
    // The smallest positive float has the bits of 1, its multiples those of whole numbers.
    auto step = [](std::uint64_t, const ladder::Array&) { return Op::kStep * 0x1p-149; };
    return {{"steps", step, true}};
  }
  static ladder::Measurement measures(ladder::DType) {
    std::string roof = Op::op;
    std::ranges::replace(roof, '_', ' ');
    return {roof.c_str(), "load"};
  }
  static ladder::Cost cost(const Problem& p, ladder::DType) {
    const auto loads = static_cast<double>(p.loads);
    return {.flops = loads, .bytes_read = 8 * loads, .bytes_written = 4};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    std::vector<ladder::Array> all{ladder::output<T>("y", 1)};
    if (Op::level == Level::dram) all.insert(all.begin(), ladder::input<T>("x", p.bytes / 4));
    return all;
  }
  template <class T>
  static typename Op::template Args<T> bind(const Problem& p, ladder::Operands of) {
    const T* x = nullptr;
    if (of.has("x")) x = of["x"];
    return {.x = x, .y = of["y"], .lines = p.lines(), .loads = p.loads, .workspace = nullptr};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands) {
    const std::uint64_t steps = static_cast<std::uint64_t>(p.loads) % p.lines() * Op::kStep;
    return {{.values = {static_cast<double>(steps % p.lines())}, .magnitude = {}}};
  }
};

struct Launch : launch {
  static ladder::Measurement measures(ladder::DType) { return {"launch", ""}; }

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::blocks>("BLOCKS").from(1)};
  }
  static std::vector<Problem> test_problems() { return {{1}, {1000}}; }
  static std::vector<Problem> bench_problems(ladder::Backend) { return {{1}}; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"none", ladder::small_integer_value, true}};
  }
  static double flops(const Problem&) { return 0; }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::output<T>("y", p.blocks)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.y = of["y"], .blocks = p.blocks};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands) {
    return ladder::answers(ladder::Expected{ladder::filled(p.blocks, 1), {}});
  }
};

const ladder::RegisterFamily<Contract<latency_dram>, float> register_dram;
const ladder::RegisterFamily<Contract<latency_l2>, float> register_l2;
const ladder::RegisterFamily<Contract<latency_l1>, float> register_l1;
const ladder::RegisterFamily<Contract<latency_shared>, float> register_shared;
const ladder::RegisterFamily<Launch, float> register_launch;

}  // namespace
}  // namespace roofs
