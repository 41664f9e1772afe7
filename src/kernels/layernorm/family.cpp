#include "kernels/row_norm/contract.hpp"
#include "layernorm.hpp"

#include <cmath>

namespace {

// Inputs: 0 is x, the others are weight, bias, residual, dy; only x differs between the sets.

// Mean 1000, standard deviation 1: the variance is a millionth of the mean square. (In bf16, whose
// steps are 4 there, rows of equal elements.) 1000 is a multiple of fp32's steps at the sums of
// long rows, so that rounding has no preferred direction, as the tolerance supposes.
double offset_value(std::uint64_t bits, int input) {
  const double uniform = ladder::uniform_value(bits, input);
  return input == 0 ? 1000 + std::sqrt(3.0) * uniform : uniform;
}

double large_value(std::uint64_t bits, int input) {
  return (input == 0 ? 1e4 : 1.0) * ladder::uniform_value(bits, input);
}

// One element in 64 is a hundred times as large as the others, like the outliers of language
// models.
double outlier_value(std::uint64_t bits, int input) {
  return input == 0 && bits % 64 == 0 ? 100 : ladder::uniform_value(bits, input);
}

// Few elements that are all of the variance.
double huge_value(std::uint64_t bits, int input) {
  return input == 0 && bits % 1024 == 0 ? 3e4 : ladder::uniform_value(bits, input);
}

// The variance is 0, and the result the bias.
double constant_value(std::uint64_t bits, int input) {
  return input == 0 ? 3.25 : ladder::uniform_value(bits, input);
}

// Below the normal numbers of fp32 and bf16, and of fp16.
double denormal_value(std::uint64_t bits, int input) {
  const double size = input != 0 ? 1 : bits % 2 == 0 ? 1e-39 : 1e-5;
  return size * ladder::uniform_value(bits, input);
}

template <class Base>
struct Contract : Base {
  static std::vector<ladder::InputSet> input_sets() {
    return {
        {"uniform", ladder::uniform_value}, {"offset", offset_value}, {"large", large_value},
        {"outliers", outlier_value},        {"huge", huge_value},     {"constant", constant_value},
        {"denormals", denormal_value}};
  }
};

template <class Base>
using Family = ladder::RegisterFamily<Contract<Base>, float, ladder::half, ladder::bfloat16>;
const Family<row_norm::Forward<layernorm>> forward;
const Family<row_norm::Add<layernorm_add>> add;
const Family<row_norm::Backward<layernorm_backward>> backward;

}  // namespace
