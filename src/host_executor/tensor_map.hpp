// Tensor maps on the host: what a CUtensorMap holds here, and the elements of a box.
//
// The rules are those of cuTensorMapEncodeTiled's documentation (cuda.h) and of the PTX ISA's
// section "Tensors". Its assertion that strides ascend is none of them: the driver takes others.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ladder::host {

/// cuTensorMapEncodeTiled for the host executor, with the same arguments. Throws std::runtime_error
/// that names the rule if one is broken, and for what the host executor does not have: interleaved
/// layouts, and types that a copy rounds, flushes or unpacks. Whose memory the tensor is does not
/// matter yet.
CUtensorMap encode_tensor_map(CUtensorMapDataType type, unsigned rank, void* base,
                              const std::uint64_t* sizes, const std::uint64_t* strides,
                              const std::uint32_t* box, const std::uint32_t* element_strides,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

/// What encode_tensor_map has put into a CUtensorMap; of dimensions the innermost is first.
struct TensorMap {
  static constexpr unsigned kMaxRank = 5;

  std::uint64_t magic;
  std::uintptr_t base;
  std::array<std::uint64_t, kMaxRank> size;     ///< elements
  std::array<std::uint64_t, kMaxRank> stride;   ///< bytes; of the innermost the size of an element
  std::array<std::uint16_t, kMaxRank> box;      ///< elements that a copy moves
  std::array<std::uint8_t, kMaxRank> box_step;  ///< from one of them to the next, in elements
  std::uint8_t rank;
  CUtensorMapDataType type;
  bool fills_with_nan;
  CUtensorMapSwizzle swizzle;

  unsigned element_bytes() const { return static_cast<unsigned>(stride[0]); }
  std::size_t row_bytes() const { return box[0] * stride[0]; }

  /// The box in shared memory, what is out of bounds included: what a load adds to an mbarrier.
  std::size_t box_bytes() const {
    std::size_t bytes = row_bytes();
    for (unsigned d = 1; d < rank; ++d) bytes *= box[d];
    return bytes;
  }

  /// Of the box's address in shared memory, so that the swizzle begins with it.
  unsigned box_alignment() const { return 128u << swizzle; }

  /// Writes what a load puts where elements are out of bounds.
  void fill(void* to, unsigned bytes) const;
};

/// Nothing if encode_tensor_map has not made the map.
std::optional<TensorMap> decode(const CUtensorMap& map);

/// Where a byte lies that has this address in shared memory without the swizzle.
constexpr unsigned swizzle(CUtensorMapSwizzle mode, unsigned address) {
  const unsigned chunks = (1u << mode) - 1;  // of 16 bytes, less one: 128 bytes have eight
  return address ^ (address >> 7 & chunks) << 4;
}

/// Calls visit(std::size_t shared, const char* global, unsigned bytes) for each piece of a box, in
/// the order of shared memory: elements side by side, none of them out of bounds or all, in which
/// case global is null. shared counts from the start of the box and is before swizzling; no piece
/// leaves its chunk of 16 bytes there.
template <class Visit>
void for_each_chunk(const TensorMap& map, const int* coordinates, Visit visit) {
  constexpr int kChunk = 16;
  const std::size_t row_bytes = map.row_bytes(), box_bytes = map.box_bytes();
  for (std::size_t begin = 0; begin < box_bytes; begin += row_bytes) {
    std::uintptr_t row = map.base;
    bool inside = true;
    std::size_t index = begin / row_bytes;
    for (unsigned d = 1; d < map.rank; ++d) {
      const auto at = coordinates[d] + std::int64_t(index % map.box[d]) * map.box_step[d];
      index /= map.box[d];
      inside = inside && at >= 0 && at < std::int64_t(map.size[d]);
      row += std::uint64_t(at) * map.stride[d];
    }
    for (std::size_t offset = 0, bytes; offset < row_bytes; offset += bytes) {
      const auto size = std::int64_t(map.size[0]);
      const std::int64_t x = coordinates[0] + std::int64_t(offset / map.stride[0]);
      const bool within = inside && x >= 0 && x < size;
      const std::int64_t edge = x < 0 ? 0 : x < size ? size : x + kChunk;  // of the tensor, or far
      bytes = std::min(kChunk - offset % kChunk, std::uint64_t(edge - x) * map.stride[0]);
      const std::uintptr_t global = row + std::uint64_t(x) * map.stride[0];
      visit(begin + offset, within ? reinterpret_cast<const char*>(global) : nullptr,
            static_cast<unsigned>(bytes));
    }
  }
}

}  // namespace ladder::host
