// Describes a tensor to the copy engine (TMA): see device/ptx/tma.hpp.
#pragma once

#include "device/kernel.hpp"

#include <cuda.h>

#include <initializer_list>

namespace ladder {

/// A dimension of a tensor in global memory.
struct TensorDimension {
  std::int64_t size;    ///< elements
  std::int64_t stride;  ///< bytes from one to the next; of the innermost the size of an element
  int box;              ///< elements that a copy spans, at most 256
  int step = 1;         ///< of those it moves each step-th; of the innermost all. At most 8
};

/// A tensor of up to 5 dimensions, the innermost first; the box of a 128-byte swizzle is 128 bytes
/// wide. The base and all strides but the innermost are multiples of 16 bytes. Strides need not
/// ascend. Of packed elements it is a tensor of their bytes.
///
/// A version may encode its maps in every launch: that is a little arithmetic on the CPU, done
/// before the launch is enqueued, and no part of the time between two events. Throws
/// std::runtime_error when the driver refuses; on the host executor it names the rule.
///
/// `fill` is what a load brings for what lies outside of the tensor: zeros, or NaNs.
CUtensorMap tensor_map(DType type, const void* base, std::initializer_list<TensorDimension> tensor,
                       CUtensorMapSwizzle swizzle,
                       CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

}  // namespace ladder
