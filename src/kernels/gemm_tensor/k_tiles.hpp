// What the Hopper versions share: A and B as TMA brings them, in K-tiles that are 64 elements of K
// deep and lie in shared memory as wgmma reads them (device/ptx/wgmma.hpp), and C.
#pragma once

#include "device/pairs.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "device/tensor_map.hpp"
#include "gemm_tensor.hpp"
#include "limits.hpp"

namespace gemm_k_tiles {

using ladder::pack;

using ladder::ptx::Major;

constexpr int kDepth = 64;      // of a K-tile: 128 bytes, the width of the swizzle
constexpr int kReady = 15;      // the named barrier at which a block's mbarriers are initialised
constexpr int kFirstLoad = 14;  // the one at which the first load has been asked for

/// Whether a product is of empty matrices, of which there are no tensor maps.
template <class T, class C>
bool is_empty(const gemm_tensor::Args<T, C>& g) {
  return g.m == 0 || g.n == 0 || g.k == 0;
}

/// The same; then C is filled with zeros.
template <class T, class C>
bool launch_empty(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
  if (g.m == 0 || g.n == 0) return true;
  if (g.k > 0) return false;
  ladder::fill_async(g.c, 0, sizeof(C) * std::size_t(g.m) * std::size_t(g.n), stream);
  return true;
}

/// Launches a kernel of a product, in clusters of so many blocks; 0: as it says. A or B may be copies that
/// the launch before makes: the kernel begins meanwhile, and calls griddepcontrol_wait() before it reads
/// them.
template <class T, class C, class Kernel, class... A>
void launch_product(const gemm_tensor::Args<T, C>& g, Kernel* kernel, int cluster, int blocks,
                    int threads, std::size_t shared_bytes, cudaStream_t stream, A&&... args) {
  ladder::launch_with({.cluster = cluster, .overlapping = g.pitch_a + g.pitch_b > 0}, kernel,
                      blocks, threads, shared_bytes, stream, std::forward<A>(args)...);
}

/// Along which index the operands of an operation are contiguous.
template <class Op>
constexpr Major kMajorA = Op::kTransposedA ? Major::mn : Major::k;
template <class Op>
constexpr Major kMajorB = Op::kTransposedB ? Major::k : Major::mn;

/// Elements from a row in memory to the next.
template <class Op, class T, class C>
int pitch_of_a(const gemm_tensor::Args<T, C>& g) {
  return g.pitch_a > 0 ? g.pitch_a : Op::kTransposedA ? g.m : g.k;
}
template <class Op, class T, class C>
int pitch_of_b(const gemm_tensor::Args<T, C>& g) {
  return g.pitch_b > 0 ? g.pitch_b : Op::kTransposedB ? g.k : g.n;
}

/// A or B for TMA. `mn` is its size along M or N, of which a load brings `rows`, or 64 where that is
/// contiguous, and then so much of K. Rows are `pitch` elements apart; 0: as many as they have.
template <class T>
CUtensorMap operand_map(Major major, const T* matrix, int mn, int k, int rows, int depth = kDepth,
                        int pitch = 0) {
  const int inner = major == Major::k ? k : mn, outer = major == Major::k ? mn : k;
  return ladder::tensor_map(ladder::DTypeOf<T>::value, matrix,
                            {{.size = inner, .stride = sizeof(T), .box = kDepth},
                             {.size = outer,
                              .stride = (pitch > 0 ? pitch : inner) * std::int64_t{sizeof(T)},
                              .box = major == Major::k ? rows : depth}},
                            CU_TENSOR_MAP_SWIZZLE_128B);
}

/// C for TMA, in epilogue tiles of `rows` x 64.
template <class T>
CUtensorMap output_map(T* c, int m, int n, int rows) {
  return operand_map(Major::k, c, m, n, rows);
}

/// How many rows of M or N a K-tile holds when kRows are needed: where M or N is contiguous, they
/// are loaded 64 at a time.
template <Major kMajor, int kRows>
constexpr int kHeld = kMajor == Major::k ? kRows : (kRows + 63) / 64 * 64;

/// Issues the TMA loads of a K-tile, from row `mn` of M or N and from `k` on.
template <Major kMajor, int kRows, class T>
__device__ __forceinline__ void load_k_tile(T* to, const CUtensorMap* map, int mn, int k,
                                            ladder::ptx::Mbarrier* barrier) {
  if constexpr (kMajor == Major::k) {
    ladder::ptx::tensor_load(to, map, k, mn, barrier);
  } else {
#pragma unroll
    for (int i = 0; i < kRows; i += 64) {
      ladder::ptx::tensor_load(to + i * kDepth, map, mn + i, k, barrier);
    }
  }
}

/// The same, by multicast into the blocks of a cluster whose bits are set.
template <Major kMajor, int kRows, class T>
__device__ __forceinline__ void load_k_tile_multicast(T* to, const CUtensorMap* map, int mn, int k,
                                                      ladder::ptx::Mbarrier* barrier,
                                                      std::uint16_t blocks) {
  if constexpr (kMajor == Major::k) {
    ladder::ptx::tensor_load_multicast(to, map, k, mn, barrier, blocks);
  } else {
#pragma unroll
    for (int i = 0; i < kRows; i += 64) {
      ladder::ptx::tensor_load_multicast(to + i * kDepth, map, mn + i, k, barrier, blocks);
    }
  }
}

/// Rows of A, B and C that start at multiples of 16 bytes, as TMA wants them.
template <class Op>
ladder::Support supports(const gemm_tensor::Problem& p) {
  if (p.n % 8 != 0) return ladder::unsupported("rows of C do not start at multiples of 16 bytes");
  return needs_aligned_rows<Op, half>(p);
}

}  // namespace gemm_k_tiles
