// Idea      TF32 and fp8: a product takes 32 bytes of K of every type, so slices are 128 bytes
//           deep, and all that differs is how many numbers that is
// Vs v13    wgmma reads these types along K only, so A is [M][K] and B is [N][K]: nt. Sums of TF32
//           are stored as they are, from registers
// Bound by  tf32 the tensor cores, and power; e4m3, whose products take half the time, also the L2
// Limits    compute capability 9.0; rows of A and B start at multiples of 16 bytes, of e4m3 also
//           those of C
// Tile      128 x 256 x 128 bytes, two warpgroups of 64 x 256, 4 stages of 48 KiB and, of e4m3, 4
//           KiB per warp for sums; one block per SM
//
// Sums of e4m3 keep 14 bits only, cut off after every product of 32: what cuBLASLt calls fast
// accumulation, which v00b does not ask it for. v19 does better.
#include "k_major.hpp"

namespace {

struct Tf32Fp8 {
  static constexpr ladder::Version version{"slices of 128 bytes, of TF32 and fp8"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // there are no maps of nothing
      ladder::fill_async(g.c, 0, sizeof(*g.c) * g.m * g.n, stream);
      return;
    }
    gemm_k_major::launch<T>({g.a, g.k}, {g.b, g.k}, g, stream);
  }
  template <class T>
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (gemm_k_major::kPatches<T> && p.n % 8 != 0) {
      return ladder::unsupported("rows of C do not start at multiples of 16 bytes");
    }
    return needs_aligned_rows<gemm_tensor_nt, T>(p);
  }
};

const ladder::Register<Tf32Fp8, gemm_tensor_nt, ladder::tfloat32, ladder::float8_e4m3> registration;

}  // namespace
