// What programs know of the element types.
#pragma once

#include "device/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace ladder {

inline constexpr DType kDTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::tf32, DType::e4m3,
                                    DType::e5m2, DType::e2m1, DType::f64,  DType::i4,   DType::i8,
                                    DType::i32,  DType::i64,  DType::u8,   DType::u32,  DType::u64};

/// Bytes of so many elements that begin with a byte.
std::size_t bytes_of(DType dtype, std::size_t elements);
double bytes_of(DType dtype, double elements);

bool is_integer(DType dtype);
bool has_nan(DType dtype);

/// The least and the largest number of a type of integers.
struct IntegerRange {
  std::int64_t least;
  std::uint64_t most;
};
IntegerRange range_of(DType dtype);

const char* to_string(DType dtype);  ///< "f32"
std::optional<DType> parse_dtype(std::string_view text);

/// Half the distance from 1 to the next number: the largest relative rounding error. 0 of integers.
double unit_roundoff(DType dtype);

/// Calls f with std::type_identity of the type; of packed elements that of the byte.
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
    case DType::e5m2:
      return f(std::type_identity<float8_e5m2>{});
    case DType::e2m1:
      return f(std::type_identity<float4_e2m1x2>{});
    case DType::f64:
      return f(std::type_identity<double>{});
    case DType::i4:
      return f(std::type_identity<int4x2>{});
    case DType::i8:
      return f(std::type_identity<std::int8_t>{});
    case DType::i32:
      return f(std::type_identity<std::int32_t>{});
    case DType::i64:
      return f(std::type_identity<std::int64_t>{});
    case DType::u8:
      return f(std::type_identity<std::uint8_t>{});
    case DType::u32:
      return f(std::type_identity<std::uint32_t>{});
    case DType::u64:
      break;
  }
  return f(std::type_identity<std::uint64_t>{});
}

}  // namespace ladder
