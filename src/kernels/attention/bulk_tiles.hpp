// Q, K and V as TMA brings them: tiles of rows in shared memory, in slices of 64 columns, which are
// 128 bytes wide and swizzled as wgmma reads them (device/ptx/wgmma.hpp). A slice begins at a
// multiple of 1024 bytes.
#pragma once

#include "attention.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "device/tensor_map.hpp"
#include "device/vector.hpp"

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

  /// Eight columns of a row, the first of which is chunk * 8.
  __device__ T* chunk(int row, int chunk) {
    return element + chunk / 8 * kSliceSize + row * kSlice + (chunk % 8 ^ row % 8) * 8;
  }

  /// 16 columns of it from step * 16 on, of the rows from `row` on, which is a multiple of 8: of a
  /// product over the columns.
  __device__ std::uint64_t over_columns(int row, int step) const {
    return ladder::ptx::wgmma_descriptor<ladder::ptx::Major::k>(element + step / 4 * kSliceSize +
                                                                row * kSlice) +
           step % 4 * ladder::ptx::wgmma_step(ladder::ptx::Major::k);
  }
  /// The columns of a slice and of those behind it, of the 16 rows from step * 16 on: of a product
  /// over the rows.
  __device__ std::uint64_t over_rows(int step, int slice = 0) const {
    return ladder::ptx::wgmma_descriptor<ladder::ptx::Major::mn, 128, kSliceSize * sizeof(T)>(
               element + slice * kSliceSize) +
           step * ladder::ptx::wgmma_step(ladder::ptx::Major::mn);
  }

  /// The rows behind the first `rows` become zeros, for wgmma after the next barrier, by kThreads
  /// threads: the tile's last rows may be another sequence's, or nobody's.
  template <int kThreads>
  __device__ void clear_behind(int rows) {
    if (rows >= kRows) return;
    constexpr int kChunk = 8, kChunks = kSlice / kChunk;  // all of a row become zeros, in any order
    for (int i = rows * kChunks + threadIdx.x % kThreads; i < kRows * kChunks; i += kThreads) {
#pragma unroll
      for (int slice = 0; slice < D / kSlice; ++slice) {
        ladder::Vec128<T>{}.store(element + slice * kSliceSize + i * kChunk);
      }
    }
    ladder::ptx::fence_proxy_async();
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
/// Sequences of different lengths are one. `data` lies as q does.
template <class T>
CUtensorMap q_map(const attention::Args<T>& a, const T* data, int tile_rows) {
  const bool is_one = a.query_starts != nullptr;
  return map_of(data, a.q_strides, a.d, is_one ? a.all_queries : a.queries, a.heads,
                is_one ? 1 : a.batch, tile_rows);
}
template <class T>
CUtensorMap q_map(const attention::Args<T>& a, int tile_rows) {
  return q_map(a, a.q, tile_rows);
}
template <class T>
CUtensorMap kv_map(const attention::Args<T>& a, const T* data, int tile_rows) {
  const bool is_one = a.query_starts != nullptr;
  return map_of(data, a.k_strides, a.d, is_one ? a.all_keys : a.keys, a.kv_heads,
                is_one ? 1 : a.batch, tile_rows);
}

/// Where a sequence's rows begin in the maps.
struct MapPlace {
  int sequence, query, key;

  template <class T>
  __device__ MapPlace(const attention::Args<T>& a, int number)
      : sequence(a.query_starts == nullptr ? number : 0),
        query(a.query_starts == nullptr ? 0 : a.query_starts[number]),
        key(a.query_starts == nullptr ? 0 : a.key_starts[number]) {}
};

/// Dynamic shared memory from the next multiple of 1024 bytes on.
template <class S>
__device__ S& aligned_shared() {
  unsigned char* const shared = ladder::dynamic_shared<unsigned char>();
  return *reinterpret_cast<S*>(shared + (-ladder::ptx::shared_address(shared) & 1023));
}
template <class S>
constexpr std::size_t kSharedBytes = sizeof(S) + 1024;

}  // namespace attention_tiles
