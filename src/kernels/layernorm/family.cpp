#include "kernels/row_norm/contract.hpp"
#include "layernorm.hpp"

#include <cmath>

namespace {

using row_norm::of_x, ladder::uniform;

// Mean 1000, standard deviation 1: the variance is a millionth of the mean square. (In bf16, whose
// steps are 4 there, rows of equal elements.) 1000 is a multiple of fp32's steps at the sums of
// long rows, so that rounding has no preferred direction, as the tolerance supposes.
double offset(std::uint64_t bits) { return 1000 + std::sqrt(3.0) * uniform(bits); }

// The variance is 0, and the result the bias.
double constant(std::uint64_t) { return 3.25; }

template <class Base>
struct Contract : Base {
  static const char* best(const typename Base::Problem&) {
    const std::string_view op = Base::op;
    return op == "add" ? "v22_" : op == "backward" ? "v36_" : "v13_";
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},      {"offset", of_x<offset>},
            {"large", of_x<row_norm::large>},        {"outliers", of_x<row_norm::outlier>},
            {"huge", of_x<row_norm::huge>},          {"constant", of_x<constant>},
            {"denormals", of_x<row_norm::denormal>}, {"NaN", of_x<row_norm::sparse_nan>},
            {"largest", row_norm::largest}};
  }
};

template <class Base>
using Family = ladder::RegisterFamily<Contract<Base>, float, ladder::half, ladder::bfloat16>;
const Family<row_norm::Forward<layernorm>> forward;
const Family<row_norm::Forward<layernorm_add>> add;
const Family<row_norm::Backward<layernorm_backward>> backward;

}  // namespace
