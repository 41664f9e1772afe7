#include "harness/family.hpp"
#include "ring.hpp"

namespace {

std::string name(const char* array, int device) { return array + std::to_string(device); }

struct Contract : ring {
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::devices>("DEVICES").from(1).to(kMost),
            ladder::size<&Problem::n>("N")};
  }
  static std::vector<Problem> test_problems() {
    return {{1, 0}, {1, 1000}, {2, 0}, {2, 1}, {2, 1031}, {3, 2048}, {8, 5000}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend) { return {{1, 5000}, {2, 5000}}; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value}, {"small integers", ladder::small_integer_value}};
  }
  static double flops(const Problem& p) { return static_cast<double>(p.devices * p.n); }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    std::vector<ladder::Array> all;
    for (int i = 0; i < p.devices; ++i) {
      const ladder::Tolerance rounded{.relative = ladder::unit_roundoff(ladder::DTypeOf<T>::value)};
      all.push_back(ladder::input<T>(name("x", i), p.n).on(i));
      all.push_back(ladder::output<T>(name("y", i), p.n, rounded).on(i));
    }
    return all;
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    Args<T> a{.x = {}, .y = {}, .n = p.n};
    for (int i = 0; i < p.devices; ++i) {
      a.x[i] = of[name("x", i)];
      a.y[i] = of[name("y", i)];
    }
    return a;
  }
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    std::vector<ladder::Expected> all;
    for (int i = 0; i < p.devices; ++i) {
      const std::span<const T> own = of[name("x", i)];
      const std::span<const T> before = of[name("x", (i + p.devices - 1) % p.devices)];
      ladder::Doubles y = ladder::filled(p.n);
      for (std::size_t k = 0; k < y.size(); ++k) y[k] = double{own[k]} + before[k];
      all.push_back({std::move(y), {}});
    }
    return all;
  }
};

const ladder::RegisterFamily<Contract, float> registration;

}  // namespace
