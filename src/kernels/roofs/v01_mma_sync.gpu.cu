// Idea      nothing but mma.sync in registers: a warp has eight tiles of C, 16 x 8 each, and adds
//           the same A * B to each of them in every step
// Bound by  tensor cores, as far as mma.sync drives them: Hopper's need wgmma for their full rate
// Limits    compute capability 8.0
#include "roofs.hpp"

#include "device/needs.hpp"

namespace {

constexpr int kWarps = 8;
constexpr int kTiles = 8;
static_assert(roofs::mma::kN == 8 * kTiles && roofs::mma::kProducts == kWarps);

/// The fragments of one lane: of A (16 x K), B (K x 8) and C (16 x 8), where K elements are 32
/// bytes.
struct FragmentA {
  unsigned r[4];
};
struct FragmentB {
  unsigned r[2];
};

/// c += A * B.
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const FragmentA& a,
                                             const FragmentB& b) {
#if __CUDA_ARCH__ >= 800
#define MMA(shape_and_types)                                                      \
  asm volatile("mma.sync.aligned." shape_and_types                                \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                   \
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]))
  if constexpr (std::is_same_v<T, ladder::half>) {
    MMA("m16n8k16.row.col.f32.f16.f16.f32");
  } else if constexpr (std::is_same_v<T, ladder::bfloat16>) {
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else {
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef MMA
#else
  __trap();
#endif
}

/// The 4 bytes that start at element (row, 4 * word / sizeof(T)) of a row-major [rows, K].
template <class T>
__device__ unsigned word_of(const T* matrix, int row, int word) {
  constexpr int kRow = 32 / sizeof(unsigned);  // words
  return reinterpret_cast<const unsigned*>(matrix)[row * kRow + word];
}

template <class Op, class T>
__global__ void __launch_bounds__(kWarps * 32) mma_sync(typename Op::template Args<T> g) {
  static_assert(Op::kK * sizeof(T) == 32);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int group = lane / 4, in_group = lane % 4;  // as PTX calls them

  const FragmentA a{{word_of(g.a, group, in_group), word_of(g.a, group + 8, in_group),
                     word_of(g.a, group, in_group + 4), word_of(g.a, group + 8, in_group + 4)}};
  FragmentB b[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    b[t] = {{word_of(g.b, 8 * t + group, in_group), word_of(g.b, 8 * t + group, in_group + 4)}};
  }

  float c[kTiles][4] = {};
#pragma unroll 8
  for (int step = 0; step < g.steps; ++step) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) multiply_add<T>(c[t], a, b[t]);
  }

  const std::int64_t product = std::int64_t{blockIdx.x} * kWarps + warp;
  float* const to = g.c + product * (Op::kM * Op::kN);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int column = 8 * t + 2 * in_group;
    *reinterpret_cast<float2*>(&to[group * Op::kN + column]) = {c[t][0], c[t][1]};
    *reinterpret_cast<float2*>(&to[(group + 8) * Op::kN + column]) = {c[t][2], c[t][3]};
  }
}

template <class Op>
struct MmaSync {
  static constexpr ladder::Version version{"mma.sync on registers, 8 tiles of C per warp"};

  template <class T>
  static void launch(const roofs::TensorArgs<T>& g, cudaStream_t stream) {
    ladder::launch(mma_sync<Op, T>, g.blocks, kWarps * 32, 0, stream, g);
  }
  static ladder::Support supports(const typename Op::Problem&) {
    return ladder::needs_compute_capability(80);
  }
};

const ladder::Register<MmaSync<roofs::mma>, roofs::mma, ladder::half, ladder::bfloat16> half_types;
const ladder::Register<MmaSync<roofs::mma_tf32>, roofs::mma_tf32, ladder::tfloat32> tf32;

}  // namespace
