// Idea      nothing but wgmma: two warpgroups per SM, each adding A * B to 64 x 256 of C, with A
//           and B in shared memory
// Vs        mma.sync: the tensor cores read the operands from shared memory by themselves, an
//           instruction is 64 x 256 x 16, and it runs while the warps that started it go on
// Bound by  tensor cores, and board power: small integers flip fewer wires than the operands of a
//           real product, so the clock falls less under them. An instruction reads 10 KiB in the
//           128 cycles it takes, under the 16 KiB that shared memory could give it
// Limits    compute capability 9.0
// Tile      A 64 x 64, B 64 x 256; 40 KiB of shared memory
#include "roofs.hpp"

namespace {

using roofs::wgmma;

constexpr int kThreads = 128 * wgmma::kProducts;
constexpr int kRow = wgmma::kK * 2;  // bytes
static_assert(kRow == 128, "the width of the swizzle");

/// Copies a row-major [rows, kK] to shared memory as the tensor cores read it with the 128-byte
/// swizzle: the 16-byte chunks of row r change places by an exclusive or with r % 8.
__device__ void stage(unsigned char* to, const void* from, int rows) {
  constexpr int kChunks = kRow / 16;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    reinterpret_cast<uint4*>(to + row * kRow)[chunk ^ (row % 8)] =
        static_cast<const uint4*>(from)[i];
  }
}

/// Describes rows of 128 bytes with the 128-byte swizzle and K along the row (PTX ISA, "Matrix
/// Descriptor Format"), in units of 16 bytes: the address; the leading offset, unused here; the
/// offset from eight rows to the next eight, 1024 bytes. Bits 62 and 63 tell the swizzle.
__device__ std::uint64_t descriptor(const unsigned char* matrix) {
  const std::uint64_t address = __cvta_generic_to_shared(matrix);
  return (address & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 62;
}

/// c += A * B for K of 16, started. A lane has the elements of an m16n8 tile in each of c's rows.
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[32][4], std::uint64_t a, std::uint64_t b) {
#define C4(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define C16(i) C4(i), C4(i + 1), C4(i + 2), C4(i + 3)
#define C64(i) C16(i), C16(i + 4), C16(i + 8), C16(i + 12)
#define WGMMA(types)                                       \
  asm volatile(                                            \
      "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"       \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." types \
      " {"                                                 \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                   \
      "%8, %9, %10, %11, %12, %13, %14, %15, "             \
      "%16, %17, %18, %19, %20, %21, %22, %23, "           \
      "%24, %25, %26, %27, %28, %29, %30, %31, "           \
      "%32, %33, %34, %35, %36, %37, %38, %39, "           \
      "%40, %41, %42, %43, %44, %45, %46, %47, "           \
      "%48, %49, %50, %51, %52, %53, %54, %55, "           \
      "%56, %57, %58, %59, %60, %61, %62, %63, "           \
      "%64, %65, %66, %67, %68, %69, %70, %71, "           \
      "%72, %73, %74, %75, %76, %77, %78, %79, "           \
      "%80, %81, %82, %83, %84, %85, %86, %87, "           \
      "%88, %89, %90, %91, %92, %93, %94, %95, "           \
      "%96, %97, %98, %99, %100, %101, %102, %103, "       \
      "%104, %105, %106, %107, %108, %109, %110, %111, "   \
      "%112, %113, %114, %115, %116, %117, %118, %119, "   \
      "%120, %121, %122, %123, %124, %125, %126, %127}, "  \
      "%128, %129, add, 1, 1, 0, 0;\n}"                    \
      : C64(0), C64(16)                                    \
      : "l"(a), "l"(b))
  if constexpr (std::is_same_v<T, ladder::half>) {
    WGMMA("f16.f16");
  } else {
    WGMMA("bf16.bf16");
  }
#undef WGMMA
#undef C64
#undef C16
#undef C4
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1) products(wgmma::Args<T> g) {
  __shared__ __align__(1024) unsigned char tile_a[wgmma::kM * kRow];
  __shared__ __align__(1024) unsigned char tile_b[wgmma::kN * kRow];
  stage(tile_a, g.a, wgmma::kM);
  stage(tile_b, g.b, wgmma::kN);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before wgmma reads what is stored
  __syncthreads();

  const std::uint64_t a = descriptor(tile_a), b = descriptor(tile_b);
  float c[32][4] = {};
  int step = 0;
  do {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kRow / 32; ++k) multiply_add<T>(c, a + k * (32 >> 4), b + k * (32 >> 4));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");  // the step before has ended
  } while (++step < g.steps);
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (auto& tile : c) {
#pragma unroll
    for (float& element : tile) asm volatile("" : "+f"(element)::"memory");  // not read earlier
  }

  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  const int row = static_cast<int>(threadIdx.x % 128 / 32) * 16 + lane / 4;
  const std::int64_t product = std::int64_t{blockIdx.x} * wgmma::kProducts + warpgroup;
  float* const to = g.c + product * (wgmma::kM * wgmma::kN);
#pragma unroll
  for (int t = 0; t < 32; ++t) {
    const int column = 8 * t + lane % 4 * 2;
    *reinterpret_cast<float2*>(&to[row * wgmma::kN + column]) = {c[t][0], c[t][1]};
    *reinterpret_cast<float2*>(&to[(row + 8) * wgmma::kN + column]) = {c[t][2], c[t][3]};
  }
}

struct Wgmma {
  static constexpr ladder::Version version{"wgmma m64n256k16, two warpgroups per SM"};

  template <class T>
  static void launch(const wgmma::Args<T>& g, cudaStream_t stream) {
    ladder::launch(products<T>, g.blocks, kThreads, 0, stream, g);
  }
};

const ladder::Register<Wgmma, wgmma, ladder::half, ladder::bfloat16> registration;

}  // namespace
