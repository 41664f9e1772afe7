// The link between the host's memory and the device's.
#include "harness/family.hpp"
#include "roofs.hpp"

namespace roofs {
namespace {

template <class Op>
struct Contract : Op {
  static ladder::Measurement measures(ladder::DType) { return {Op::op, "B"}; }
  using Problem = typename Op::Problem;
  static constexpr bool has_x = std::is_same_v<Op, d2h>, has_y = !has_x;
  static constexpr bool has_samples = !std::is_same_v<Op, h2d>;

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::bytes>("BYTES").from(1).multiple_of(4 * Op::kSamples)};
  }
  static std::vector<Problem> test_problems() { return {{256}, {768}, {256 * 4099}}; }
  static std::vector<Problem> bench_problems(ladder::Backend) { return {{1 << 28}}; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"small integers", ladder::small_integer_value, true}};
  }

  /// What goes over the link: towards the device is read, towards the host is written.
  static ladder::Cost cost(const Problem& p, ladder::DType) {
    const auto bytes = static_cast<double>(p.bytes);
    return {.flops = 0, .bytes_read = has_x ? 0 : bytes, .bytes_written = has_samples ? bytes : 0};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    std::vector<ladder::Array> all;
    if (has_x) all.push_back(ladder::input<T>("x", p.bytes / 4));
    const std::int64_t samples = has_samples ? Op::kSamples : 0;
    all.push_back(ladder::output<T>("y", (has_y ? p.bytes / 4 : 0) + samples));
    return all;
  }
  template <class T>
  static typename Op::template Args<T> bind(const Problem& p, ladder::Operands of) {
    const std::int64_t n = p.bytes / 4;
    const T* x = nullptr;
    if (has_x) x = of["x"];
    T* const y = of["y"];
    return {.x = x, .y = y, .samples = has_y ? y + n : y, .n = n, .workspace = nullptr};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::int64_t n = p.bytes / 4;
    const T* x = nullptr;
    if (has_x) x = of["x"];
    auto arrived = [&](std::int64_t i) -> double {
      if (has_x) return x[i];
      return has_samples ? 2 * Op::on_host(i) + 1 : Op::on_host(i);
    };
    ladder::Expected y;
    y.values.reserve(std::span<T>(of["y"]).size());
    for (std::int64_t i = 0; has_y && i < n; ++i) y.values.push_back(arrived(i));
    for (std::int64_t k = 0; has_samples && k < Op::kSamples; ++k) {
      y.values.push_back(arrived(k * (n / Op::kSamples)));
    }
    return ladder::answers(std::move(y));
  }
};

const ladder::RegisterFamily<Contract<h2d>, float> register_h2d;
const ladder::RegisterFamily<Contract<d2h>, float> register_d2h;
const ladder::RegisterFamily<Contract<overlap>, float> register_overlap;

}  // namespace
}  // namespace roofs
