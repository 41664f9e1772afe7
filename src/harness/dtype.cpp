#include "harness/dtype.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ladder {
namespace {

struct Known {
  DType dtype;
  const char* name;
  unsigned bits;
  double unit_roundoff;
};
constexpr Known kKnown[] = {
    {DType::f32, "f32", 32, 0x1p-24},  {DType::f16, "f16", 16, 0x1p-11},
    {DType::bf16, "bf16", 16, 0x1p-8}, {DType::tf32, "tf32", 32, 0x1p-11},
    {DType::e4m3, "e4m3", 8, 0x1p-4},  {DType::e5m2, "e5m2", 8, 0x1p-3},
    {DType::e2m1, "e2m1", 4, 0x1p-2},  {DType::f64, "f64", 64, 0x1p-53},
    {DType::i4, "i4", 4, 0},           {DType::i8, "i8", 8, 0},
    {DType::i32, "i32", 32, 0},        {DType::i64, "i64", 64, 0},
    {DType::u8, "u8", 8, 0},           {DType::u32, "u32", 32, 0},
    {DType::u64, "u64", 64, 0},
};
static_assert(std::size(kKnown) == std::size(kDTypes));

const Known& known(DType dtype) { return *std::ranges::find(kKnown, dtype, &Known::dtype); }

}  // namespace

std::size_t bytes_of(DType dtype, std::size_t elements) {
  const unsigned bits = known(dtype).bits;
  return bits < 8 ? ceil_div(elements, 8 / bits) : elements * (bits / 8);
}
double bytes_of(DType dtype, double elements) {
  return std::ceil(elements * known(dtype).bits / 8);
}

bool is_integer(DType dtype) { return unit_roundoff(dtype) == 0; }

bool has_nan(DType dtype) { return !is_integer(dtype) && dtype != DType::e2m1; }

IntegerRange range_of(DType dtype) {
  const bool is_signed = dtype != DType::u8 && dtype != DType::u32 && dtype != DType::u64;
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - known(dtype).bits + is_signed);
  return {is_signed ? -static_cast<std::int64_t>(most) - 1 : 0, most};
}

const char* to_string(DType dtype) { return known(dtype).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  const Known* const found = std::ranges::find(kKnown, text, &Known::name);
  return found == std::end(kKnown) ? std::nullopt : std::optional(found->dtype);
}

double unit_roundoff(DType dtype) { return known(dtype).unit_roundoff; }

}  // namespace ladder
