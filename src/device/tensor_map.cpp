#include "device/tensor_map.hpp"

#include <array>
#include <stdexcept>
#include <string>

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/tensor_map.hpp"
#endif

namespace ladder {
namespace {

#if defined(LADDER_HOST_EXECUTOR)
constexpr auto encode = host::encode_tensor_map;
#else
/// The driver's function, asked for at run time: nothing links the driver's library, which is there
/// only where a GPU is.
decltype(&cuTensorMapEncodeTiled) encode_function() {
  static void* const function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr const char* kName = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
    expect_success(
        cudaGetDriverEntryPointByVersion(kName, &found, 12000, cudaEnableDefault, &result));
#else
    expect_success(cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess) {
      throw std::runtime_error(std::string("the driver has no ") + kName);
    }
    return found;
  }();
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

template <class... Arguments>
CUtensorMap encode(Arguments... arguments) {
  CUtensorMap map;
  const CUresult result = encode_function()(&map, arguments...);
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error("cuTensorMapEncodeTiled refused (CUresult " + std::to_string(result) +
                             ")");
  }
  return map;
}
#endif

CUtensorMapDataType data_type(DType type) {
  switch (type) {
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f32:
    case DType::tf32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::e4m3:
    case DType::e5m2:
    case DType::e2m1:
    case DType::i4:
    case DType::i8:
    case DType::u8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::i64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DType::u32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case DType::u64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  }
  return {};
}

}  // namespace

CUtensorMap tensor_map(DType type, const void* base, std::initializer_list<TensorDimension> tensor,
                       CUtensorMapSwizzle swizzle, CUtensorMapFloatOOBfill fill) {
  constexpr std::size_t kMost = 5;
  std::array<cuuint64_t, kMost> sizes{}, strides{};
  std::array<cuuint32_t, kMost> box{}, steps{};
  std::size_t rank = 0;
  for (const TensorDimension& dimension : tensor) {
    if (rank == kMost) throw std::runtime_error("a tensor map has at most 5 dimensions");
    sizes[rank] = static_cast<cuuint64_t>(dimension.size);
    strides[rank] = static_cast<cuuint64_t>(dimension.stride);
    box[rank] = static_cast<cuuint32_t>(dimension.box);
    steps[rank] = static_cast<cuuint32_t>(dimension.step);
    ++rank;
  }
  return encode(data_type(type), static_cast<cuuint32_t>(rank), const_cast<void*>(base),
                sizes.data(), strides.data() + 1, box.data(), steps.data(),
                CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, fill);
}

}  // namespace ladder
