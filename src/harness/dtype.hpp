// What programs know of the element types.
#pragma once

#include "device/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace ladder {

inline constexpr DType kDTypes[] = {DType::f32,  DType::f16, DType::bf16, DType::tf32,
                                    DType::e4m3, DType::f64, DType::i32,  DType::i64};
std::size_t size_of(DType dtype);  ///< bytes
bool is_integer(DType dtype);
const char* to_string(DType dtype);  ///< "f32"
std::optional<DType> parse_dtype(std::string_view text);

/// Half the distance from 1 to the next number: the largest relative rounding error. 0 of integers.
double unit_roundoff(DType dtype);

/// Calls f with std::type_identity of the type.
template <class F>
auto with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f(std::type_identity<float>{});
    case DType::f16:
      return f(std::type_identity<half>{});
    case DType::bf16:
      return f(std::type_identity<bfloat16>{});
    case DType::tf32:
      return f(std::type_identity<tfloat32>{});
    case DType::e4m3:
      return f(std::type_identity<float8_e4m3>{});
    case DType::f64:
      return f(std::type_identity<double>{});
    case DType::i32:
      return f(std::type_identity<std::int32_t>{});
    case DType::i64:
      break;
  }
  return f(std::type_identity<std::int64_t>{});
}

}  // namespace ladder
