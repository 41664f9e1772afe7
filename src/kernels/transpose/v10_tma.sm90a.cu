// Idea      the TMA unit copies tiles to shared memory and back, and swizzles them on the way;
//           threads only transpose their thread tiles
// Vs v06    no thread computes an address or a bound: eight instructions of one of them move the
//           tile, and tiles at the edges are like all others, because TMA loads what lies beyond as
//           zeros and does not store it
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; rows and columns are multiples of V, so that all rows of both
//           matrices start at multiples of 16 bytes
// Tile      2 x 2 boxes of 8 x 8 thread tiles, 256 threads; f32 64 x 64, 16 KiB of shared memory;
//           16-bit 128 x 128, 32 KiB
//
// TMA's swizzle moves chunk c (16 bytes) of row r of a box, 128 bytes each, to c ^ (r % 8). If rows
// lay in shared memory as they do in the matrix, the 8 lanes that transpose neighbouring thread
// tiles would store into rows V apart, where r % 8 is the same or one of two. So the matrix is
// described in three dimensions: its columns; row / V; row % V. A box has 8 vectors of the first, 8
// of the second and V of the third, and row i of the thread tiles in row ty comes to lie in row
// 8i + ty of the box, where the swizzle is by ty.
//
//   access                            vector that lane 8y + x touches, of the row's 8
//   load a thread tile's row i        box[i][ty], chunk x ^ ty: all 8 for 8 lanes
//   store its column j, transposed    box[j][x], chunk ty ^ x: all 8 for 8 lanes
#include "device/ptx/tma.hpp"
#include "device/tensor_map.hpp"
#include "device/vector.hpp"
#include "transpose.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kBoxes = 2;        // per side of a tile
constexpr int kThreadTiles = 8;  // per side of a box: 8 chunks are the 128 bytes of the swizzle
constexpr int kThreads = kBoxes * kBoxes * kThreadTiles * kThreadTiles;

template <class T>
__global__ void __launch_bounds__(kThreads, 32 / ladder::Vec128<T>::size)
    tma(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  using Vec = ladder::Vec128<T>;
  constexpr int V = Vec::size, kBox = kThreadTiles * V;
  alignas(1024) __shared__ T boxes[kBoxes * kBoxes][V][kThreadTiles][kThreadTiles][V];
  __shared__ Mbarrier arrived;
  const int row0 = blockIdx.y * kBoxes * kBox, col0 = blockIdx.x * kBoxes * kBox;
  const bool leader = threadIdx.x == 0;

  if (leader) {
    mbarrier_init(&arrived, 1);
    fence_proxy_async();
    mbarrier_arrive_expect_tx(&arrived, sizeof(boxes));
#pragma unroll
    for (int b = 0; b < kBoxes * kBoxes; ++b) {
      const int row = row0 + b / kBoxes * kBox, col = col0 + b % kBoxes * kBox;
      tensor_load(boxes[b], &in, col, row / V, 0, &arrived);
    }
  }
  __syncthreads();  // the barrier exists
  mbarrier_wait(&arrived, 0);

  const int tx = threadIdx.x % kThreadTiles, ty = threadIdx.x / kThreadTiles % kThreadTiles;
  auto& box = boxes[threadIdx.x / (kThreadTiles * kThreadTiles)];
  Vec thread_tile[V];
#pragma unroll
  for (int i = 0; i < V; ++i) thread_tile[i] = Vec::load(box[i][ty][tx ^ ty]);
  __syncthreads();  // all have their thread tiles: each box is overwritten with itself, transposed
#pragma unroll
  for (int j = 0; j < V; ++j) {
    Vec column;
#pragma unroll
    for (int i = 0; i < V; ++i) column[i] = thread_tile[i][j];
    column.store(box[j][tx][ty ^ tx]);
  }
  fence_proxy_async();
  __syncthreads();

  if (leader) {
#pragma unroll
    for (int b = 0; b < kBoxes * kBoxes; ++b) {
      const int row = row0 + b / kBoxes * kBox, col = col0 + b % kBoxes * kBox;
      tensor_store(&out, row, col / V, 0, boxes[b]);
    }
    bulk_commit_group();
    bulk_wait_group_read<0>();
  }
}

/// A matrix of whole thread tiles, cut into boxes as the head says.
template <class T>
CUtensorMap boxes_of(const T* matrix, int rows, int cols) {
  constexpr int V = ladder::Vec128<T>::size;
  const std::int64_t row = std::int64_t{cols} * static_cast<int>(sizeof(T));  // bytes
  return ladder::tensor_map(ladder::DTypeOf<T>::value, matrix,
                            {{.size = cols, .stride = sizeof(T), .box = kThreadTiles * V},
                             {.size = rows / V, .stride = V * row, .box = kThreadTiles},
                             {.size = V, .stride = row, .box = V}},
                            CU_TENSOR_MAP_SWIZZLE_128B);
}

template <int V>
struct Tma {
  static constexpr ladder::Version version{"TMA loads and stores, with its 128-byte swizzle"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    static_assert(V == ladder::Vec128<T>::size);
    constexpr int kTile = kBoxes * kThreadTiles * V;
    if (a.rows == 0 || a.cols == 0) return;  // of which there are no maps
    const dim3 grid(ladder::ceil_div(a.cols, kTile), ladder::ceil_div(a.rows, kTile));
    ladder::launch(tma<T>, grid, kThreads, 0, stream, boxes_of(a.in, a.rows, a.cols),
                   boxes_of(a.out, a.cols, a.rows));
  }
  static ladder::Support supports(const transpose::Problem& p) {
    if (p.rows % V != 0 || p.cols % V != 0) {
      return ladder::unsupported("rows or columns are no multiple of %d", V);
    }
    return p.rows <= 64 * 65535 ? ladder::supported()
                                : ladder::unsupported("more than 4194240 rows");
  }
};

const ladder::Register<Tma<4>, transpose, float> f32;
const ladder::Register<Tma<8>, transpose, ladder::half, ladder::bfloat16> f16_and_bf16;

}  // namespace
