#include "harness/family.hpp"
#include "attention.hpp"
#include "contract.hpp"
#include "reference.hpp"

namespace {

using attention_layout::Layout;

template <class Op>
struct Contract : attention_contract::Common<Op> {
  using Base = attention_contract::Common<Op>;
  using Problem = attention::Problem;

  // Tiles that are full, and by one row more or less not; heads in groups; more queries than keys,
  // where a causal mask hides all keys of some.
  static std::vector<Problem> test_problems() {
    return Base::problems({"0x1x5x64", "1x1x0:5x64", "1x2x3:0x64", "1x1x1x64", "1x2:1x31:33x128",
                           "2x3x64x64", "1x1x65:129x128", "1x4:2x100:70x64@bshd", "1x1x1:257x128",
                           "1x2x129:127x64@top_left", "2x2x70:200x128@bshd@top_left",
                           "1x1x300:40x64", "3x2:1x0..70x64", "5x2x1..130x128@bshd"});
  }

  static const char* best(const Problem& p) {
    constexpr int kFew = 16;  // rows that share a head of keys: a decoder's next tokens
    if (p.heads / std::max(p.kv_heads, 1) * p.queries <= kFew) return "v56_";
    return p.d == 64 ? "v17_" : "v16_";
  }

  // A product with each key that is seen, and one with its value.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const Layout at(p);
    const double d = p.d;
    const double rows = p.heads * static_cast<double>(at.all_queries());
    return {.flops = 4 * d * p.heads * Base::pairs_seen(p),
            .bytes_read = ladder::bytes_of(
                dtype, (rows + 2.0 * p.kv_heads * static_cast<double>(at.keys_used())) * d),
            .bytes_written = ladder::bytes_of(dtype, rows * d) + rows * sizeof(float)};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    const Layout at(p);
    std::vector<ladder::Array> all{ladder::input<T>("q", at.q_size()),
                                   ladder::input<T>("k", at.k_size()),
                                   ladder::input<T>("v", at.k_size())};
    Base::append_lengths(p, all);
    all.push_back(ladder::output<T>("o", at.q_size(), attention_reference::tolerance<T>()));
    all.push_back(ladder::output<float>("lse", at.lse_size(), {.scaled = 1}));
    return all;
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    return attention_reference::forward<T>(p, Op::kCausal, of["q"], of["k"], of["v"]);
  }
#if defined(LADDER_CUDA_BACKEND)
  static bool wants_gpu_reference(const Problem& p) { return cost(p, {}).flops > 1e9; }
  template <class T>
  static void reference_on_gpu(const attention::Args<T>& a,
                               std::span<const ladder::AnswerOnGpu> answers) {
    attention_reference::forward_on_gpu(a, Op::kCausal, answers[0], answers[1]);
  }
#endif
};

using ladder::bfloat16;
using ladder::half;
const ladder::RegisterFamily<Contract<attention>, half, bfloat16> plain;
const ladder::RegisterFamily<Contract<attention_causal>, half, bfloat16> causal;

}  // namespace
