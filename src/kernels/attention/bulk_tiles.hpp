// Q, K and V as TMA brings them: tiles of rows in shared memory, in slices of 64 columns, which are
// 128 bytes wide and swizzled as wgmma reads them (device/ptx/wgmma.hpp). A slice begins at a
// multiple of 1024 bytes.
#pragma once

#include "attention.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "device/tensor_map.hpp"

namespace attention_tiles {

constexpr int kSlice = 64;  // columns

template <class T, int kRows, int D>
struct Tile {
  static constexpr int kSliceSize = kRows * kSlice;  // elements
  static constexpr unsigned kBytes = kRows * D * sizeof(T);
  alignas(1024) T element[kRows * D];

  __device__ void load(const CUtensorMap* map, int row, int head, int sequence,
                       ladder::ptx::Mbarrier* barrier) {
#pragma unroll
    for (int slice = 0; slice < D / kSlice; ++slice) {
      ladder::ptx::tensor_load(element + slice * kSliceSize, map, slice * kSlice, row, head,
                               sequence, barrier);
    }
  }

  /// 16 columns of it from step * 16 on, of the rows from `row` on, which is a multiple of 8: of a
  /// product over the columns.
  __device__ std::uint64_t over_columns(int row, int step) const {
    return ladder::ptx::wgmma_descriptor<ladder::ptx::Major::k>(element + step / 4 * kSliceSize +
                                                                row * kSlice) +
           step % 4 * ladder::ptx::wgmma_step(ladder::ptx::Major::k);
  }
  /// All columns of the 16 rows from step * 16 on: of a product over the rows.
  __device__ std::uint64_t over_rows(int step) const {
    return ladder::ptx::wgmma_descriptor<ladder::ptx::Major::mn, 128, kSliceSize * sizeof(T)>(
               element) +
           step * ladder::ptx::wgmma_step(ladder::ptx::Major::mn);
  }
};

/// Rows of q, or of k or v, of which a tile has `tile_rows`. Nobody loads from an empty tensor,
/// which a map cannot describe.
template <class T>
CUtensorMap map_of(const T* data, const attention::Strides& strides, int d, std::int64_t rows,
                   int heads, int batch, int tile_rows) {
  if (rows == 0 || heads == 0 || batch == 0) return {};
  constexpr std::int64_t kSize = sizeof(T);
  return ladder::tensor_map(ladder::DTypeOf<T>::value, data,
                            {{.size = d, .stride = kSize, .box = kSlice},
                             {.size = rows, .stride = strides.row * kSize, .box = tile_rows},
                             {.size = heads, .stride = strides.head * kSize, .box = 1},
                             {.size = batch, .stride = strides.batch * kSize, .box = 1}},
                            CU_TENSOR_MAP_SWIZZLE_128B);
}
/// Sequences of different lengths are one.
template <class T>
CUtensorMap q_map(const attention::Args<T>& a, int tile_rows) {
  const bool is_one = a.query_starts != nullptr;
  return map_of(a.q, a.q_strides, a.d, is_one ? a.all_queries : a.queries, a.heads,
                is_one ? 1 : a.batch, tile_rows);
}
template <class T>
CUtensorMap kv_map(const attention::Args<T>& a, const T* data, int tile_rows) {
  const bool is_one = a.query_starts != nullptr;
  return map_of(data, a.k_strides, a.d, is_one ? a.all_keys : a.keys, a.kv_heads,
                is_one ? 1 : a.batch, tile_rows);
}

/// Dynamic shared memory from the next multiple of 1024 bytes on.
template <class S>
__device__ S& aligned_shared() {
  unsigned char* const shared = ladder::dynamic_shared<unsigned char>();
  return *reinterpret_cast<S*>(shared + (-ladder::ptx::shared_address(shared) & 1023));
}
template <class S>
constexpr std::size_t kSharedBytes = sizeof(S) + 1024;

}  // namespace attention_tiles
