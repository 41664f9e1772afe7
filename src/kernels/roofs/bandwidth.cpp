// The roofs of the L2, of shared memory and its atomics, and of loads from random places.
#include "harness/family.hpp"
#include "roofs.hpp"

#include <bit>
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
  static std::vector<ladder::Field> fields() {
    constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 4096;
    return {ladder::size<&Problem::bytes>("BYTES").from(1).to(kMost).multiple_of(4 * kTile)};
  }
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
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::blocks>("BLOCKS").from(1)};
  }
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

struct SharedAtomics : shared_atomics {
  static ladder::Measurement measures(ladder::DType) { return {"shared atomics", "atomic"}; }

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::blocks>("BLOCKS").from(1),
            ladder::size<&Problem::counters>("COUNTERS").from(32).to(kMostCounters)};
  }
  static bool valid(const Problem& p) {
    return std::has_single_bit(static_cast<unsigned>(p.counters));
  }
  static std::vector<Problem> test_problems() { return {{1, 32}, {2, 256}, {1, 512}, {3, 4096}}; }
  // One wave of eight blocks for each of 132 SMs.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1, 1024}};
    return {{8 * 132, 32}, {8 * 132, 1024}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"none", ladder::small_integer_value, true}};
  }
  /// flops are the additions.
  static ladder::Cost cost(const Problem& p, ladder::DType) {
    const auto blocks = static_cast<double>(p.blocks);
    return {.flops = blocks * kBlock * kSteps,
            .bytes_read = 0,
            .bytes_written = blocks * p.counters * sizeof(std::int32_t)};
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::output<T>("y", {p.blocks, p.counters})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.y = of["y"], .blocks = p.blocks, .counters = p.counters};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands) {
    const double each = kBlock * kSteps / p.counters;
    return ladder::answers(ladder::Expected{ladder::filled({p.blocks, p.counters}, each), {}});
  }
};

struct Gather : Contract<gather> {
  static ladder::Measurement measures(ladder::DType) { return {"gather", "load"}; }
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::bytes>("BYTES").from(4).to(std::int64_t{1} << 32).multiple_of(4),
            ladder::size<&Problem::loads>("LOADS").from(kTile).multiple_of(kTile)};
  }
  static std::vector<Problem> test_problems() {
    return {{4, 4096}, {124, 4096}, {4 * 1021, 3 * 4096}, {1 << 20, 2 * 4096}};
  }
  // Many times the L2.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1 << 22, 4096}};
    return {{1 << 30, 1 << 24}};
  }
  /// flops are the loads. Bytes are those that are wanted of them, and the indices.
  static ladder::Cost cost(const Problem& p, ladder::DType) {
    const auto loads = static_cast<double>(p.loads);
    return {.flops = loads, .bytes_read = 8 * loads, .bytes_written = 4 * loads / kLoads};
  }
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("x", p.bytes / 4),
            ladder::input<std::int32_t>("index", p.loads).below(p.bytes / 4),
            ladder::output<T>("y", p.loads / kLoads)};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.x = of["x"], .index = of["index"], .y = of["y"], .loads = p.loads};
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const T* const x = of["x"];
    const std::int32_t* const index = of["index"];
    ladder::Expected sums{.values = ladder::filled(p.loads / kLoads), .magnitude = {}};
    ladder::parallel_for(sums.values.size(), 1 << 14, [&](std::size_t begin, std::size_t end) {
      for (std::size_t thread = begin; thread < end; ++thread) {
        const std::size_t first = thread / kBlock * kTile + thread % kBlock * 4;
        for (std::size_t load = 0; load < kLoads; ++load) {
          sums.values[thread] += x[index[first + load / 4 * 4 * kBlock + load % 4]];
        }
      }
    });
    return ladder::answers(std::move(sums));
  }
};

const ladder::RegisterFamily<L2, float> register_l2;
const ladder::RegisterFamily<Shared, float> register_shared;
const ladder::RegisterFamily<SharedAtomics, std::int32_t> register_shared_atomics;
const ladder::RegisterFamily<Gather, float> register_gather;

}  // namespace
}  // namespace roofs
