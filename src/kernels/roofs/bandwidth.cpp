// The roofs of the L2 and of shared memory.
#include "harness/family.hpp"
#include "roofs.hpp"

#include <numeric>

namespace roofs {
namespace {

template <class Op>
struct Contract : Op {
  static ladder::Measurement measures(ladder::DType) { return {Op::op, "B"}; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"small integers", ladder::small_integer_value, true}};
  }
};

struct L2 : Contract<l2> {
  static constexpr const char* problem_help =
      "B bytes read again and again, a multiple of 4096, e.g. 16777216";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 1, 1);
    const bool valid = d && d->front() % (4 * kTile) == 0 && d->front() < std::int64_t{1} << 32;
    return valid ? std::optional(Problem{d->front()}) : std::nullopt;
  }
  static std::string text(const Problem& p) { return std::to_string(p.bytes); }
  static std::vector<Problem> test_problems() {
    return {{4096}, {2 * 4096}, {36 * 4096}, {37 * 4096}, {101 * 4096}};
  }
  // On an H100 the L2 has two parts, and what is read through the one may be kept in both.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    return {{backend == ladder::Backend::host ? 1 << 15 : 1 << 24}};
  }
  static ladder::Cost cost(const Problem& p, ladder::DType) {
    return {.flops = 0,
            .bytes_read = kPasses * static_cast<double>(p.bytes),
            .bytes_written = 4.0 * p.tiles()};
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("x", p.bytes / 4), ladder::output<T>("y", p.tiles())};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.x = of["x"], .y = of["y"], .tiles = p.tiles()};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::span<const T> x = of["x"];
    const auto tiles = static_cast<std::size_t>(p.tiles());
    std::vector<double> sums;
    for (auto tile = x.begin(); tile != x.end(); tile += kTile) {
      sums.push_back(std::accumulate(tile, tile + kTile, 0.0));
    }
    ladder::Expected expected{.values = ladder::filled(tiles), .magnitude = {}};
    for (std::size_t block = 0; block < tiles; ++block) {
      for (std::size_t pass = 0; pass < kPasses; ++pass) {
        expected.values[block] += sums[(block + pass * kShift) % tiles];
      }
    }
    return ladder::answers(std::move(expected));
  }
};

struct Shared : Contract<shared> {
  static constexpr const char* problem_help = "N blocks, which read 16 MiB each, e.g. 1056";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 1, 1);
    return d ? std::optional(Problem{d->front()}) : std::nullopt;
  }
  static std::string text(const Problem& p) { return std::to_string(p.blocks); }
  static std::vector<Problem> test_problems() { return {{1}, {2}}; }
  // One wave of eight blocks for each of 132 SMs.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    return {{backend == ladder::Backend::host ? 1 : 8 * 132}};
  }
  static ladder::Cost cost(const Problem& p, ladder::DType) {
    const auto threads = static_cast<double>(p.blocks * kBlock);
    return {
        .flops = 0, .bytes_read = threads * kPasses * kVectors * 16, .bytes_written = threads * 4};
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("x", 4 * kVectors), ladder::output<T>("y", p.blocks * kBlock)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.x = of["x"], .y = of["y"], .blocks = p.blocks};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::span<const T> x = of["x"];
    const double sum = std::accumulate(x.begin(), x.end(), 0.0);
    return ladder::answers(ladder::Expected{ladder::filled(p.blocks * kBlock, kPasses * sum), {}});
  }
};

const ladder::RegisterFamily<L2, float> register_l2;
const ladder::RegisterFamily<Shared, float> register_shared;

}  // namespace
}  // namespace roofs
