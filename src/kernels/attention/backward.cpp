#include "attention.hpp"
#include "backward_reference.hpp"
#include "contract.hpp"
#include "harness/family.hpp"

namespace {

using attention_layout::Layout;

template <class Op>
struct Contract : attention_contract::Common<Op> {
  using Base = attention_contract::Common<Op>;
  using Problem = attention::Problem;

  // As attention's, and of both dimensions tiles of 32 that are full, and by one row more or less not.
  static std::vector<Problem> test_problems() {
    return Base::problems({"0x1x5x64", "1x1x0:5x64", "1x2x3:0x64", "1x1x1x64", "1x4:2x31:17x128",
                           "1x2x64x64", "1x1x33:129x128", "1x2:1x70:50x64@bshd", "1x1x129:65x64",
                           "1x1x65:63x64@top_left", "2x1x40:100x128@bshd@top_left", "1x1x200:40x64",
                           "3x2:1x0..70x64", "3x2x1..66x128@bshd"});
  }

  static const char* best(const Problem&) { return "v39b_"; }

  // Scores once more, and for each of them four products: with v, for dv, dq and dk.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const Layout at(p);
    const double d = p.d;
    const double rows = p.heads * static_cast<double>(at.all_queries());
    const double key_rows = p.kv_heads * static_cast<double>(at.keys_used());
    return {
        .flops = 10 * d * p.heads * Base::pairs_seen(p),
        .bytes_read = ladder::bytes_of(dtype, (3 * rows + 2 * key_rows) * d) + rows * sizeof(float),
        .bytes_written = ladder::bytes_of(
            dtype, (rows + 2.0 * p.kv_heads * static_cast<double>(at.all_keys())) * d)};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    const Layout at(p);
    std::vector<ladder::Array> all{ladder::input<T>("q", at.q_size()).tied(),
                                   ladder::input<T>("k", at.k_size()).tied(),
                                   ladder::input<T>("v", at.k_size()).tied(),
                                   ladder::input<T>("o", at.q_size()).tied(),
                                   ladder::input<float>("lse", at.lse_size()).tied(),
                                   ladder::input<T>("d_o", at.q_size())};
    Base::append_lengths(p, all);
    const ladder::Tolerance tolerance = attention_reference::tolerance<T>();
    all.push_back(ladder::output<T>("dq", at.q_size(), tolerance));
    all.push_back(ladder::output<T>("dk", at.k_size(), tolerance));
    all.push_back(ladder::output<T>("dv", at.k_size(), tolerance));
    return all;
  }

  /// o and lse are those of q, k and v, which therefore are tied.
  template <class T>
  static void derive_inputs(const Problem& p, ladder::Operands of) {
    attention_reference::fill_forward<T>(p, Op::kCausal, of["q"], of["k"], of["v"], of["o"],
                                         of["lse"]);
  }
  template <class T>
  static attention_backward::Args<T> bind(const Problem& p, ladder::Operands of) {
    return {Base::template bind<T>(p, of), of["d_o"], of["dq"], of["dk"], of["dv"]};
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    return attention_reference::backward<T>(p, Op::kCausal, of["q"], of["k"], of["v"], of["o"],
                                            of["d_o"]);
  }
#if defined(LADDER_CUDA_BACKEND)
  static bool wants_gpu_reference(const Problem& p) { return cost(p, {}).flops > 1e9; }
  template <class T>
  static void derive_inputs_on_gpu(const attention_backward::Args<T>& a) {
    attention_reference::fill_forward_on_gpu<T>(a, Op::kCausal);
  }
  template <class T>
  static void reference_on_gpu(const attention_backward::Args<T>& a,
                               std::span<const ladder::AnswerOnGpu> answers) {
    attention_reference::backward_on_gpu(a, Op::kCausal, answers[0], answers[1], answers[2]);
  }
#endif
};

using ladder::bfloat16;
using ladder::half;
const ladder::RegisterFamily<Contract<attention_backward>, half, bfloat16> plain;
const ladder::RegisterFamily<Contract<attention_causal_backward>, half, bfloat16> causal;

}  // namespace
