#include "kernels/row_norm/contract.hpp"
#include "rmsnorm.hpp"

namespace {

using row_norm::of_x, ladder::uniform;

// The mean of the squares is a thirtieth of eps.
double tiny(std::uint64_t bits) { return 1e-3 * uniform(bits); }

// Only eps keeps the results, which are 0, from being NaN.
double zero(std::uint64_t) { return 0; }

template <class Base>
struct Contract : Base {
  static const char* best(const typename Base::Problem&) {
    const std::string_view op = Base::op;
    return op == "add" ? "v22_" : op == "backward" ? "v36_" : "v14_";
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {"large", of_x<row_norm::large>},
            {"outliers", of_x<row_norm::outlier>},
            {"huge", of_x<row_norm::huge>},
            {"tiny", of_x<tiny>},
            {"zero", of_x<zero>},
            {"denormals", of_x<row_norm::denormal>},
            {"NaN", of_x<row_norm::sparse_nan>},
            {"largest", row_norm::largest}};
  }
};

template <class Base>
using Family = ladder::RegisterFamily<Contract<Base>, float, ladder::half, ladder::bfloat16>;
const Family<row_norm::Forward<rmsnorm>> forward;
const Family<row_norm::Forward<rmsnorm_add>> add;
const Family<row_norm::Backward<rmsnorm_backward>> backward;

}  // namespace
