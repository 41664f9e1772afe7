// How v27 fills the ring of pushed_sums.hpp from rows that start anywhere: through registers.
#pragma once

#include "pushed_sums.hpp"

namespace gemm_pushed_sums {

/// The vectors of memory that hold a chunk of 8 elements; where it starts with one, the low one alone.
struct TwoVectors {
  uint4 low, high;
};

/// The 8 elements of `both` from number `shift` on, of which the first `left` are wanted; then zeros.
/// Lanes differ in both: selections and funnel shifts, no branches.
__device__ __forceinline__ uint4 realigned(const uint4& low, const uint4& high, int shift,
                                           int left) {
  std::uint32_t w[] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = shift & 4 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = shift & 2 ? w[i + 1] : w[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = shift & 1 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  if (left < 8) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i] &= (left > 2 * i ? 0xffffu : 0) | (left > 2 * i + 1 ? 0xffff0000u : 0);
    }
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/// A matrix with rows along `kMajor`, of which tiles have kRows of M or N. Of a K-tile kDeep of the depth are
/// loaded.
template <Major kMajor, int kRows, class T, int kDeep = BK>
struct Realigned {
  static constexpr int kPerRow = kMajor == Major::k ? kDeep / 8 : kRows < 64 ? kRows / 8 : 8;
  static constexpr int kChunks = kRows * kDeep / 8;  // of a K-tile

  const T* matrix;
  int rows, columns, pitch;

  /// Chunk `number` of a K-tile: where it is in the matrix, and which row of the K-tile it is in.
  struct Place {
    int row, column, to;
  };
  __device__ __forceinline__ static Place place(int number, int mn, int k) {
    const int r = number / kPerRow, column = number % kPerRow * 8;
    if constexpr (kMajor == Major::k) return {mn + r, k + column, r};
    return {k + r % kDeep, mn + r / kDeep * 64 + column, r / kDeep * 64 + r % kDeep};
  }
  __device__ __forceinline__ static int chunk_of(int number) { return number % kPerRow; }

  __device__ __forceinline__ const T* address(const Place& p) const {
    return matrix + std::int64_t{p.row} * pitch + p.column;
  }
  __device__ __forceinline__ int left(const Place& p) const {
    return p.row < rows ? columns - p.column : 0;
  }
  __device__ __forceinline__ static int shift(const T* from) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(from) / sizeof(T) % 8);
  }

  /// Zeros for what is not wanted, and for vectors that lie partly outside of the matrix: complete().
  /// There is no branch but for a load that is not made: or one load would wait for the other.
  __device__ __forceinline__ TwoVectors load(const Place& p) const {
    TwoVectors both{};
    const T* const from = address(p);
    const int wanted = min(left(p), 8), before = shift(from);
    const T* const low = from - before;
    if (wanted > 0 && is_inside(low)) both.low = *reinterpret_cast<const uint4*>(low);
    if (wanted + before > 8 && is_inside(low + 8)) {
      both.high = *reinterpret_cast<const uint4*>(low + 8);
    }
    return both;
  }
  /// Into the K-tile, in the swizzle that TMA would write.
  __device__ __forceinline__ void store(T* k_tile, const Place& p, int number,
                                        const TwoVectors& both) const {
    *reinterpret_cast<uint4*>(k_tile + p.to * BK + (chunk_of(number) ^ p.to % 8) * 8) =
        realigned(both.low, both.high, shift(address(p)), left(p));
  }

  /// Whether complete() has something to do in a K-tile.
  __device__ __forceinline__ bool is_at_edge(int mn, int k) const {
    const int row = kMajor == Major::k ? mn : k, column = kMajor == Major::k ? k : mn;
    constexpr int kDown = kMajor == Major::k ? kRows : BK;
    constexpr int kAlong = kMajor == Major::k ? BK : kRows;
    const bool is_last = columns < 8 || (row + kDown >= rows && column + kAlong + 8 > columns);
    return (behind() > 0 && is_last) || (ahead() > 0 && row + column == 0);
  }
  /// The elements of vectors that lie partly outside of the matrix, at most seven at its beginning and
  /// at its end. By 16 threads, when the chunks are stored.
  __device__ __forceinline__ void complete(T* k_tile, int mn, int k, int thread) const {
    const std::int64_t all = std::int64_t{rows} * pitch;
    const std::int64_t i = thread < 8 ? thread : all - 1 - (thread - 8);
    if (thread < 8 ? thread >= ahead() || i >= all : thread - 8 >= behind() || i < 0) return;
    const int row = static_cast<int>(i / pitch) - (kMajor == Major::k ? mn : k);
    const int column = static_cast<int>(i % pitch) - (kMajor == Major::k ? k : mn);
    constexpr int kDown = kMajor == Major::k ? kRows : BK;
    constexpr int kAlong = kMajor == Major::k ? BK : kRows;
    if (row < 0 || row >= kDown || column < 0 || column >= kAlong) return;
    const int to = column / 64 * 64 + row;
    k_tile[to * BK + (column % 64 / 8 ^ to % 8) * 8 + column % 8] = matrix[i];
  }

 private:
  /// Elements before the first multiple of 16 bytes, and from the last one on.
  __device__ __forceinline__ int ahead() const { return -shift(matrix) & 7; }
  __device__ __forceinline__ int behind() const {
    return shift(matrix + std::int64_t{rows} * pitch);
  }
  __device__ __forceinline__ bool is_inside(const T* vector) const {
    return vector >= matrix && vector + 8 <= matrix + std::int64_t{rows} * pitch;
  }
};

/// A and B through registers: Groups groups of four warps take turns with the K-tiles, so that one loads
/// while another stores. A thread loads Batch chunks at a time, as many as its registers hold.
template <class Op, class Element, class Shape, int Groups, int Batch>
struct RealignedLoads {
  using T = Element;
  using S = Shape;
  static constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  static constexpr int kGroups = Groups, kThreads = kGroups * 128, kArrivals = 4;

  template <class C>
  explicit RealignedLoads(const gemm_tensor::Args<T, C>& g)
      : a{g.a, Op::kTransposedA ? g.k : g.m, Op::kTransposedA ? g.m : g.k, pitch_of_a<Op>(g)},
        b{g.b, Op::kTransposedB ? g.n : g.k, Op::kTransposedB ? g.k : g.n, pitch_of_b<Op>(g)} {}

  /// By all producers.
  __device__ __forceinline__ void fill(Ring<T> ring, int row0, int col0, int first,
                                       int last) const {
    static_assert(kAll % Batch == 0);
    const int group = static_cast<int>(threadIdx.x) / 128 - S::kConsumers;
    for (int i = 0; i < group; ++i) ring.state.advance();
    for (int k_tile = first + group; k_tile < last; k_tile += kGroups) {
      T* const to = ring.stages + ring.state.stage * kStage;
      fill_k_tile(to, ring, row0, col0, k_tile * BK);
      if (a.is_at_edge(row0, k_tile * BK) || b.is_at_edge(col0, k_tile * BK)) {
        named_barrier_sync<128>(kFirstBarrier + group);  // the chunks are stored
        const int thread = threadIdx.x % 128;
        if (thread < 16) {
          b.complete(to, col0, k_tile * BK, thread);
          a.complete(to + S::BN * BK, row0, k_tile * BK, thread);
        }
      }
      fence_proxy_async();  // what was stored is seen by wgmma
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(&ring.full[ring.state.stage]);
      for (int i = 0; i < kGroups; ++i) ring.state.advance();
    }
  }

 private:
  static constexpr int kStage = BK * (S::BN + kHeld<kA, S::BM>);
  static constexpr int kOfB = S::BN * 8 / 128, kAll = kOfB + S::BM * 8 / 128;  // chunks of a thread
  static constexpr int kFirstBarrier = 1 + S::kConsumers;  // the consumers have those before

  __device__ __forceinline__ void fill_k_tile(T* to, const Ring<T>& ring, int row0, int col0,
                                              int k) const {
    const int thread = threadIdx.x % 128;
#pragma unroll
    for (int i0 = 0; i0 < kAll; i0 += Batch) {
      TwoVectors both[Batch];
#pragma unroll
      for (int i = i0; i < i0 + Batch; ++i) {
        const int of_b = i * 128 + thread, of_a = of_b - kOfB * 128;
        both[i - i0] = i < kOfB ? b.load(b.place(of_b, col0, k)) : a.load(a.place(of_a, row0, k));
      }
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      if (i0 == 0) mbarrier_wait(&ring.empty[ring.state.stage], ring.state.parity ^ 1);
#pragma unroll
      for (int i = i0; i < i0 + Batch; ++i) {
        const int of_b = i * 128 + thread, of_a = of_b - kOfB * 128;
        if (i < kOfB) {
          b.store(to, b.place(of_b, col0, k), of_b, both[i - i0]);
        } else {
          a.store(to + S::BN * BK, a.place(of_a, row0, k), of_a, both[i - i0]);
        }
      }
    }
  }

 public:
  Realigned<kA, S::BM, T> a;
  Realigned<kB, S::BN, T> b;
};

}  // namespace gemm_pushed_sums
