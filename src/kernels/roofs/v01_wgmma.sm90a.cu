// Idea      nothing but wgmma: two warpgroups per SM, each adding A * B to 64 x 256 of C, with A
//           and B in shared memory
// Vs        mma.sync: the tensor cores read the operands from shared memory by themselves, an
//           instruction is 64 x 256 x 32 bytes, and it runs while the warps that started it go on
// Bound by  tensor cores, and board power: small integers flip fewer wires than the operands of a
//           real product, so the clock falls less under them. An instruction reads 10 KiB in the
//           128 cycles it takes, under the 16 KiB that shared memory could give it
// Limits    compute capability 9.0
// Tile      A 64 x 128 bytes, B 128 bytes x 256; 40 KiB of shared memory
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "roofs.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kThreads = 128 * roofs::wgmma::kProducts;
constexpr int kRow = 128;  // bytes, the width of the swizzle

/// Copies rows of kRow bytes to shared memory as the tensor cores read it with the 128-byte
/// swizzle: the 16-byte chunks of row r change places by an exclusive or with r % 8.
__device__ void stage(unsigned char* to, const void* from, int rows) {
  constexpr int kChunks = kRow / 16;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    reinterpret_cast<uint4*>(to + row * kRow)[chunk ^ (row % 8)] =
        static_cast<const uint4*>(from)[i];
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kThreads, 1) products(roofs::TensorArgs<T> g) {
  static_assert(Op::kK * sizeof(T) == kRow);
  __shared__ __align__(1024) unsigned char tile_a[Op::kM * kRow];
  __shared__ __align__(1024) unsigned char tile_b[Op::kN * kRow];
  stage(tile_a, g.a, Op::kM);
  stage(tile_b, g.b, Op::kN);
  fence_proxy_async();  // before wgmma reads what is stored
  __syncthreads();

  const std::uint64_t a = wgmma_descriptor<Major::k>(tile_a);
  const std::uint64_t b = wgmma_descriptor<Major::k>(tile_b);
  float c[Op::kN / 2] = {};
  int step = 0;
  do {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kRow / 32; ++k) {
      wgmma<Op::kN, Major::k, Major::k, T>(c, a + k * wgmma_step(Major::k),
                                           b + k * wgmma_step(Major::k),
                                           k > 0 || step % Op::kRound > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();  // the step before has ended
  } while (++step < g.steps);
  wgmma_wait_group<0>(c);

  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  const int row = static_cast<int>(threadIdx.x % 128 / 32) * 16 + lane / 4;
  const std::int64_t product = std::int64_t{blockIdx.x} * Op::kProducts + warpgroup;
  float* const to = g.c + product * (Op::kM * Op::kN);
#pragma unroll
  for (int t = 0; t < Op::kN / 8; ++t) {
    const int column = 8 * t + lane % 4 * 2;
    *reinterpret_cast<float2*>(&to[row * Op::kN + column]) = {c[4 * t], c[4 * t + 1]};
    *reinterpret_cast<float2*>(&to[(row + 8) * Op::kN + column]) = {c[4 * t + 2], c[4 * t + 3]};
  }
}

template <class Op>
struct Wgmma {
  static constexpr ladder::Version version{"wgmma 64 x 256 x 32 bytes, two warpgroups per SM"};

  template <class T>
  static void launch(const roofs::TensorArgs<T>& g, cudaStream_t stream) {
    ladder::launch(products<Op, T>, g.blocks, kThreads, 0, stream, g);
  }
};

const ladder::Register<Wgmma<roofs::wgmma>, roofs::wgmma, ladder::half, ladder::bfloat16> halves;
const ladder::Register<Wgmma<roofs::wgmma_tf32>, roofs::wgmma_tf32, ladder::tfloat32> tf32;
const ladder::Register<Wgmma<roofs::wgmma_e4m3>, roofs::wgmma_e4m3, ladder::float8_e4m3> fp8;

}  // namespace
