// Idea      rows that start anywhere: TMA wants them at multiples of 16 bytes, so A and B are copied
//           into rows that do, and the product is v20's of the copies
// Vs v20    any M, N and K, for a copy of what does not lie right: one launch for both operands, which
//           reads and writes aligned vectors of 16 bytes and shifts between them. Rows of C that start
//           anywhere are stored from shared memory, in pairs
// Bound by  as v20; with few rows or columns DRAM bandwidth, three times
// Limits    compute capability 9.0; relies on ascending dispatch, as v20
// Tile      of the copy a vector per lane, four in flight; of the product as in v20
#include "choice.hpp"
#include "device/ptx/griddepcontrol.hpp"
#include "device/row_span.hpp"
#include "padded_rows.hpp"

namespace gemm_padded_rows {
namespace {

constexpr int kThreads = 256, kVectors = 4;  // of a thread
constexpr int kOfBlock = kThreads * kVectors;

template <class T>
__device__ __forceinline__ ladder::Vec128<T> load_some(const T* from, int left) {
  ladder::Vec128<T> some;
#pragma unroll
  for (int e = 0; e < some.size; ++e) some[e] = e < left ? from[e] : T(0.0f);
  return some;
}

template <class T>
__global__ void __launch_bounds__(kThreads) pad_rows(Copy<T> a, Copy<T> b, int blocks_of_a) {
  using Vec = ladder::Vec128<T>;
  ladder::ptx::griddepcontrol_launch_dependents();  // the product, which waits for the copies
  const bool is_a = static_cast<int>(blockIdx.x) < blocks_of_a;
  const Copy<T> copy = is_a ? a : b;
  const int of_row = ladder::ceil_div(copy.columns, Vec::size);  // vectors
  const std::int64_t first = std::int64_t{blockIdx.x - (is_a ? 0 : blocks_of_a)} * kOfBlock;
  const int first_row = static_cast<int>(first / of_row);
  const int within = static_cast<int>(first - std::int64_t{first_row} * of_row);
  const T* const end = copy.from + std::int64_t{copy.rows} * copy.columns;

  Vec low[kVectors], high[kVectors];
  int row[kVectors], column[kVectors], shift[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned vector = unsigned(within) + i * kThreads + threadIdx.x;
    row[i] = first_row + static_cast<int>(vector / unsigned(of_row));
    column[i] = static_cast<int>(vector % unsigned(of_row)) * Vec::size;
    if (row[i] >= copy.rows) continue;
    const T* const from = copy.from + std::int64_t{row[i]} * copy.columns + column[i];
    shift[i] = reinterpret_cast<std::uintptr_t>(from) / sizeof(T) % Vec::size;
    const T* const aligned = from - shift[i];
    if (aligned >= copy.from && aligned + 2 * Vec::size <= end) {
      low[i] = Vec::load_streaming(aligned);
      high[i] = Vec::load_streaming(aligned + Vec::size);
    } else {  // they would begin before the matrix, or end behind it
      shift[i] = 0;
      low[i] = load_some(from, static_cast<int>(min(end - from, std::int64_t{Vec::size})));
    }
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (row[i] >= copy.rows) continue;
    const Vec vector = ladder::shifted(low[i], high[i], shift[i]);
    vector.store(copy.to + std::int64_t{row[i]} * copy.pitch + column[i]);
  }
}

template <class T>
int blocks_of(const Copy<T>& copy) {
  if (copy.pitch == 0) return 0;
  const std::int64_t vectors =
      std::int64_t{copy.rows} * ladder::ceil_div(copy.columns, ladder::Vec128<T>::size);
  return static_cast<int>(ladder::ceil_div(vectors, kOfBlock));
}

}  // namespace

template <class T>
void launch_copies(const Copy<T>& a, const Copy<T>& b, cudaStream_t stream) {
  const int of_a = blocks_of(a);
  ladder::launch(pad_rows<T>, of_a + blocks_of(b), kThreads, 0, stream, a, b, of_a);
}
template void launch_copies(const Copy<half>&, const Copy<half>&, cudaStream_t);
template void launch_copies(const Copy<ladder::bfloat16>&, const Copy<ladder::bfloat16>&,
                            cudaStream_t);

namespace {

template <class Op>
struct PaddedRows {
  static constexpr ladder::Version version{"v20, on copies of A and B with padded rows"};
  // Long rows, each operand alone, and both; short ones, many to a block
  static constexpr gemm_tensor::Problem test_problems[] = {
      {16, 40, 513}, {259, 264, 72}, {24, 301, 16}, {2001, 3, 3}};

  template <class T, class C>
  static Copies<Op> copies_of(const gemm_tensor::Args<T, C>& g) {
    return {g.m, g.n, g.k};
  }
  template <class T, class C>
  static gemm_choice::Choice plan(const gemm_tensor::Args<T, C>& g, bool) {
    if (gemm_k_tiles::is_empty(g)) return {};
    return gemm_choice::choices_by_tma<Op>(copies_of(g).pitched(g), 1).front();
  }
  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g,
                               const gemm_choice::Choice& of_copies) {
    if (gemm_k_tiles::is_empty(g)) return 0;
    return copies_of(g).template bytes<T>() + gemm_choice::workspace<Op>(g, of_copies);
  }
  template <class T, class C>
  static std::size_t state(const gemm_tensor::Args<T, C>& g) {
    return gemm_choice::state(g.m, g.n, g.k);
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const gemm_choice::Choice& of_copies,
                     void* state, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    gemm_choice::launch<Op>(make_copies(copies_of(g), g, stream), of_copies, state, stream);
  }
};

const ladder::Register<PaddedRows<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<PaddedRows<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<PaddedRows<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<PaddedRows<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace
}  // namespace gemm_padded_rows
