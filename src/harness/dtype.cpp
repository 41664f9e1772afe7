#include "harness/dtype.hpp"

#include <algorithm>
#include <iterator>

namespace ladder {
namespace {

struct Known {
  DType dtype;
  const char* name;
  std::size_t size;
  double unit_roundoff;
};
constexpr Known kKnown[] = {
    {DType::f32, "f32", 4, 0x1p-24},  {DType::f16, "f16", 2, 0x1p-11},
    {DType::bf16, "bf16", 2, 0x1p-8}, {DType::tf32, "tf32", 4, 0x1p-11},
    {DType::e4m3, "e4m3", 1, 0x1p-4}, {DType::f64, "f64", 8, 0x1p-53},
    {DType::i32, "i32", 4, 0},        {DType::i64, "i64", 8, 0},
};
static_assert(std::size(kKnown) == std::size(kDTypes));

const Known& known(DType dtype) { return *std::ranges::find(kKnown, dtype, &Known::dtype); }

}  // namespace

std::size_t size_of(DType dtype) { return known(dtype).size; }

bool is_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

const char* to_string(DType dtype) { return known(dtype).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  const Known* const found = std::ranges::find(kKnown, text, &Known::name);
  return found == std::end(kKnown) ? std::nullopt : std::optional(found->dtype);
}

double unit_roundoff(DType dtype) { return known(dtype).unit_roundoff; }

}  // namespace ladder
