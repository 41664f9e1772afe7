// Idea      one vector of each input per thread, in blocks of 1024 threads, whatever the size
// Vs v07    a large problem has a quarter of the bytes in flight. With two inputs that still keeps
//           DRAM busy: on an H200 it is up to 1 % faster. With one it is too little there, and 1 to
//           8 % slower; an H100's slower DRAM moves up to 3 % more. A small problem has as many
//           threads as before
// Bound by  DRAM bandwidth; small problems by a launch, one latency and their bytes
// Limits    none; arrays start at multiples of 16 bytes
#include "approx.hpp"
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

constexpr int kBlock = 1024;

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) big_blocks(elementwise::Args<Op, T> a) {
  using Vec = ladder::Vec128<T>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t vectors = a.n / Vec::size;
  float x[Op::inputs];
  if (thread < vectors) {
    Vec in[Op::inputs], out;
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) in[k] = Vec::load(a.x[k] + thread * Vec::size);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
#pragma unroll
      for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(in[k][e]);
      out[e] = T(elementwise::fast<Op>(x));
    }
    out.store(a.y + thread * Vec::size);
    return;
  }
  const std::int64_t i = vectors * Vec::size + (thread - vectors);
  if (i < a.n) {
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(a.x[k][i]);
    a.y[i] = T(elementwise::fast<Op>(x));
  }
}

struct BigBlocks {
  static constexpr ladder::Version version{"1 vector per thread, blocks of 1024 threads"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    constexpr int kSize = ladder::Vec128<T>::size;
    const std::int64_t threads = a.n / kSize + a.n % kSize;
    ladder::launch(big_blocks<Op, T>, ladder::ceil_div(threads, kBlock), kBlock, 0, stream, a);
  }
};

template <class Op>
using Registration = ladder::Register<BigBlocks, Op, float, ladder::half, ladder::bfloat16>;
const Registration<elementwise::relu> relu;
const Registration<elementwise::add> add;
const Registration<elementwise::gelu> gelu;
const Registration<elementwise::gelu_tanh> gelu_tanh;
const Registration<elementwise::gelu_tanh_approx> gelu_tanh_approx;
const Registration<elementwise::silu_mul> silu_mul;

}  // namespace
