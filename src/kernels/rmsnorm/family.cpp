#include "kernels/row_norm/contract.hpp"
#include "rmsnorm.hpp"

namespace {

// Inputs: 0 is x, the others are weight, residual, dy; only x differs between the sets.

double large_value(std::uint64_t bits, int input) {
  return (input == 0 ? 1e4 : 1.0) * ladder::uniform_value(bits, input);
}

// One element in 64 is a hundred times as large as the others, like the outliers of language
// models.
double outlier_value(std::uint64_t bits, int input) {
  return input == 0 && bits % 64 == 0 ? 100 : ladder::uniform_value(bits, input);
}

// Few elements that are all of the sum of squares.
double huge_value(std::uint64_t bits, int input) {
  return input == 0 && bits % 1024 == 0 ? 3e4 : ladder::uniform_value(bits, input);
}

// The mean of the squares is a thirtieth of eps.
double tiny_value(std::uint64_t bits, int input) {
  return (input == 0 ? 1e-3 : 1.0) * ladder::uniform_value(bits, input);
}

// Only eps keeps the results, which are 0, from being NaN.
double zero_value(std::uint64_t bits, int input) {
  return input == 0 ? 0 : ladder::uniform_value(bits, input);
}

// Below the normal numbers of fp32 and bf16, and of fp16.
double denormal_value(std::uint64_t bits, int input) {
  const double size = input != 0 ? 1 : bits % 2 == 0 ? 1e-39 : 1e-5;
  return size * ladder::uniform_value(bits, input);
}

template <class Base>
struct Contract : Base {
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {"large", large_value},
            {"outliers", outlier_value},
            {"huge", huge_value},
            {"tiny", tiny_value},
            {"zero", zero_value},
            {"denormals", denormal_value}};
  }
};

template <class Base>
using Family = ladder::RegisterFamily<Contract<Base>, float, ladder::half, ladder::bfloat16>;
const Family<row_norm::Forward<rmsnorm>> forward;
const Family<row_norm::Add<rmsnorm_add>> add;
const Family<row_norm::Backward<rmsnorm_backward>> backward;

}  // namespace
