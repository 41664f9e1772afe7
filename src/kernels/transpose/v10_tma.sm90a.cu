// Idea      the copy engine brings tiles into shared memory and takes them away (TMA), and swizzles
//           them on its way; threads only turn their patches
// Vs v06    no thread computes an address or a bound: eight instructions of one of them move the
//           tile, and tiles at the edges are like all others, because what lies beyond is loaded as
//           zeros and not stored
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; rows and columns are multiples of V, so that all rows of both
//           matrices start at multiples of 16 bytes
// Tile      2 x 2 boxes of 8 x 8 patches, 256 threads; f32 64 x 64, 16 KiB of shared memory; 16-bit
//           128 x 128, 32 KiB
//
// The engine's swizzle moves chunk c (16 bytes) of row r of a box, 128 bytes each, to c ^ (r % 8).
// If rows lay in shared memory as they do in the matrix, the 8 lanes that turn neighbouring patches
// would store into rows V apart, where r % 8 is the same or one of two. So the matrix is described
// in three dimensions: its columns; row / V; row % V. A box has 8 vectors of the first, 8 of the
// second and V of the third, and row i of patch row py comes to lie in row 8i + py of the box,
// where the swizzle is by py.
//
//   access                       vector that lane 8y + x touches, of the row's 8
//   load a patch's row i         box[i][py], chunk x ^ py: all 8 for 8 lanes
//   store its column j, turned   box[j][x], chunk py ^ x: all 8 for 8 lanes
#include "device/ptx/tma.hpp"
#include "device/tensor_map.hpp"
#include "device/vector.hpp"
#include "transpose.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kBoxes = 2;    // per side of a tile
constexpr int kPatches = 8;  // per side of a box: 8 chunks are the 128 bytes of the swizzle
constexpr int kThreads = kBoxes * kBoxes * kPatches * kPatches;

template <class T>
__global__ void __launch_bounds__(kThreads, 32 / ladder::Vec128<T>::size)
    tma(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  using Vec = ladder::Vec128<T>;
  constexpr int V = Vec::size, kBox = kPatches * V;
  __shared__ alignas(1024) T boxes[kBoxes * kBoxes][V][kPatches][kPatches][V];
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

  const int px = threadIdx.x % kPatches, py = threadIdx.x / kPatches % kPatches;
  auto& box = boxes[threadIdx.x / (kPatches * kPatches)];
  Vec patch[V];
#pragma unroll
  for (int i = 0; i < V; ++i) patch[i] = Vec::load(box[i][py][px ^ py]);
  __syncthreads();  // all have their patches: each box is overwritten with itself, transposed
#pragma unroll
  for (int j = 0; j < V; ++j) {
    Vec column;
#pragma unroll
    for (int i = 0; i < V; ++i) column[i] = patch[i][j];
    column.store(box[j][px][py ^ px]);
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

/// A matrix of whole patches, cut into boxes as the head says.
template <class T>
CUtensorMap boxes_of(const T* matrix, int rows, int cols) {
  constexpr int V = ladder::Vec128<T>::size;
  const std::int64_t row = std::int64_t{cols} * static_cast<int>(sizeof(T));  // bytes
  return ladder::tensor_map(ladder::DTypeOf<T>::value, matrix,
                            {{.size = cols, .stride = sizeof(T), .box = kPatches * V},
                             {.size = rows / V, .stride = V * row, .box = kPatches},
                             {.size = V, .stride = row, .box = V}},
                            CU_TENSOR_MAP_SWIZZLE_128B);
}

template <int V>
struct Tma {
  static constexpr ladder::Version version{"TMA loads and stores, with its 128-byte swizzle"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    static_assert(V == ladder::Vec128<T>::size);
    constexpr int kTile = kBoxes * kPatches * V;
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
