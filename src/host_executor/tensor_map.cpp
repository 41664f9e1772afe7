#include "host_executor/tensor_map.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

namespace ladder::host {
namespace {

constexpr std::uint64_t kLargestBox = 228 << 10;         // bytes, as the driver counts them
constexpr std::uint64_t kMagic = 0x6c61'6464'6572'746d;  // "laddertm"

template <class... Words>
void expect(bool holds, const Words&... words) {
  if (holds) return;
  std::ostringstream text;
  text << "a tensor map's ";
  (text << ... << words);
  throw std::runtime_error(text.str());
}

/// 0 of types whose elements do not arrive as they were, and of unknown ones.
unsigned size_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

bool is_floating_point(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ||
         type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 || type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
}

}  // namespace

CUtensorMap encode_tensor_map(CUtensorMapDataType type, unsigned rank, void* base,
                              const std::uint64_t* sizes, const std::uint64_t* strides,
                              const std::uint32_t* box, const std::uint32_t* element_strides,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  const bool in_slices = interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
  const unsigned unit = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  const unsigned element_bytes = size_of(type);
  TensorMap map{.magic = kMagic,
                .base = reinterpret_cast<std::uintptr_t>(base),
                .size = {},
                .stride = {element_bytes},
                .box = {},
                .box_step = {},
                .rank = static_cast<std::uint8_t>(rank),
                .type = type,
                .fills_with_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                .swizzle = swizzle};

  expect(element_bytes != 0, "data type is ", type, ": none that the host executor copies");
  expect(rank >= 1 && rank <= TensorMap::kMaxRank, "rank is ", rank, ": not from 1 to 5");
  expect(rank >= 3 || !in_slices, "rank is ", rank, ": not from 3 to 5, and it is interleaved");
  expect(map.base % unit == 0, "base is ", base, ": no multiple of ", unit);
  for (unsigned d = 0; d < rank; ++d) {
    expect(sizes[d] >= 1 && sizes[d] <= std::uint64_t{1} << 32, "size ", d, " is ", sizes[d],
           ": not from 1 to 2^32");
    expect(box[d] >= 1 && box[d] <= 256, "box ", d, " is ", box[d], ": not from 1 to 256");
    expect(element_strides[d] >= 1 && element_strides[d] <= 8, "element stride ", d, " is ",
           element_strides[d], ": not from 1 to 8");
    const unsigned step = d == 0 && !in_slices ? 1 : element_strides[d];  // as is documented
    map.size[d] = sizes[d];
    map.box[d] = static_cast<std::uint16_t>((box[d] + step - 1) / step);
    map.box_step[d] = static_cast<std::uint8_t>(step);
    if (d == 0) continue;
    map.stride[d] = strides[d - 1];
    expect(map.stride[d] % unit == 0, "stride ", d, " is ", map.stride[d],
           " bytes: no multiple of ", unit);
    expect(map.stride[d] < std::uint64_t{1} << 40, "stride ", d, " is ", map.stride[d],
           " bytes: not below 2^40");
  }
  expect(swizzle <= CU_TENSOR_MAP_SWIZZLE_128B, "swizzle is ", swizzle, ": none that Hopper has");
  if (!in_slices) {
    const std::size_t width = box[0] * element_bytes;
    expect(width % 16 == 0, "box is ", width, " bytes wide: no multiple of 16");
    expect(swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || width <= 16u << swizzle, "box is ", width,
           " bytes wide: more than the ", 16u << swizzle, " of its swizzle");
  }
  // The driver's count: a part of a step is nothing, and the innermost dimension has steps.
  std::uint64_t bytes = element_bytes;
  for (unsigned d = 0; d < rank; ++d) bytes *= box[d] / element_strides[d];
  expect(bytes <= kLargestBox, "box is ", bytes, " bytes: more than the ", kLargestBox,
         " of an SM's shared memory");
  expect(interleave != CU_TENSOR_MAP_INTERLEAVE_32B || swizzle == CU_TENSOR_MAP_SWIZZLE_32B,
         "swizzle is ", swizzle, ": not that of 32 bytes, which the interleave of 32 bytes needs");
  expect(!map.fills_with_nan || is_floating_point(type), "data type is ", type,
         ": no floating-point type, which a fill with NaN needs");
  expect(!in_slices, "interleave is ", interleave, ": none that the host executor copies");

  CUtensorMap encoded{};
  static_assert(sizeof(map) <= sizeof(encoded));
  std::memcpy(&encoded, &map, sizeof(map));
  return encoded;
}

std::optional<TensorMap> decode(const CUtensorMap& encoded) {
  TensorMap map;
  if (encoded.opaque[0] != kMagic) return std::nullopt;
  std::memcpy(&map, &encoded, sizeof(map));
  return map;
}

void TensorMap::fill(void* to, unsigned bytes) const {
  constexpr unsigned char kHalfOfNan[] = {0xf7, 0x7f};  // a NaN in all types; measured of fp32
  for (unsigned i = 0; i < bytes; ++i) {
    static_cast<unsigned char*>(to)[i] = fills_with_nan ? kHalfOfNan[i % 2] : 0;
  }
}

}  // namespace ladder::host
