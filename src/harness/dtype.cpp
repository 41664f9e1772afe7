#include "harness/dtype.hpp"

namespace ladder {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::tf32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::e4m3:
      return 1;
  }
  return 0;
}

bool is_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::tf32:
      return "tf32";
    case DType::e4m3:
      return "e4m3";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
  }
  return "";
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (DType dtype : kDTypes) {
    if (text == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
    case DType::tf32:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::e4m3:
      return 0x1p-4;
    case DType::f64:
      return 0x1p-53;
    case DType::i32:
    case DType::i64:
      return 0;
  }
  return 0;
}

}  // namespace ladder
