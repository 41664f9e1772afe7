// The fp64 references of attention on the GPU, by the host executor: they are what the CPU's are. This
// file is compiled as kernels are.
#include "kernels/attention/contract.hpp"
#include "kernels/attention/reference_kernels.hpp"

#include "host_kernels.hpp"

namespace {

using attention_layout::Layout;
using namespace attention_reference;
using ladder::launch;
using ladder::test::Array;

/// A problem's arrays, as backward.cpp has them.
template <class Op, class T>
struct Inputs : attention_contract::Common<Op> {
  using Base = attention_contract::Common<Op>;
  attention::Problem problem;
  Layout at{problem};
  Array<T> q{at.q_size()}, k{at.k_size()}, v{at.k_size()}, o{at.q_size()}, d_o{at.q_size()};
  Array<float> lse{at.lse_size()};
  std::size_t batch = static_cast<std::size_t>(problem.batch);
  Array<std::int32_t> query_starts{batch + 1}, key_starts{batch + 1}, keys_used{batch};
  attention_backward::Args<T> args{};

  explicit Inputs(const attention::Problem& p) : problem(p) {
    Array<T>* const filled[] = {&q, &k, &v, &d_o};
    for (std::uint64_t i = 0; i < 4; ++i) {
      std::size_t size = 0;
      for (T& x : *filled[i]) {
        const double value = ladder::uniform(ladder::random_bits(7, i, size++));
        x = T(static_cast<float>(i == 0 ? 4 * value : value));
      }
    }
    std::vector<ladder::Array> arrays{ladder::input<T>("q", 0), ladder::input<T>("k", 0),
                                      ladder::input<T>("v", 0), ladder::input<T>("o", 0),
                                      ladder::input<float>("lse", 0)};
    Base::append_lengths(p, arrays);
    void* const addresses[] = {q.begin(),          k.begin(),        v.begin(),
                               o.begin(),          lse.begin(),      query_starts.begin(),
                               key_starts.begin(), keys_used.begin()};
    const ladder::Operands operands(arrays, addresses);
    Base::template arrange_inputs<T>(p, 0, operands);
    static_cast<attention::Args<T>&>(args) = Base::template bind<T>(p, operands);
    args.d_o = d_o.begin();
  }
};

/// Values and magnitudes, which no kernel has written yet.
struct Answers {
  Array<double> values, magnitude;
  explicit Answers(std::size_t size) : values(size), magnitude(size) {
    std::fill(values.begin(), values.end(), std::nan(""));
    std::fill(magnitude.begin(), magnitude.end(), std::nan(""));
  }
  operator ladder::AnswerOnGpu() { return {values.begin(), magnitude.begin()}; }

  void expect(const ladder::Expected& expected, const char* what) {
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      const auto expect_near = [&](double found, double value) {
        if (found == value) return true;
        EXPECT_NEAR(found, value, 1e-11 * (1 + std::abs(value))) << what << ", element " << i;
        return std::abs(found - value) <= 1e-11 * (1 + std::abs(value));
      };
      if (!expect_near(values.begin()[i], expected.values[i])) return;
      if (!expect_near(magnitude.begin()[i], expected.magnitude[i])) return;
    }
  }
};

template <class Op, class T, int D>
void expect_the_cpus(const attention::Problem& p) {
  constexpr bool kCausal = Op::kCausal;
  using Forward = std::conditional_t<kCausal, attention_causal, attention>;
  Inputs<Op, T> of(p);
  const Layout& at = of.at;
  const auto& a = of.args;

  Answers o(at.q_size()), lse(at.lse_size());
  launch(answer<Forward, T, D>, query_tiles(a, kRows), kThreads, 0, nullptr, a, o, lse);
  const auto forward =
      attention_reference::forward<T>(p, kCausal, of.q.begin(), of.k.begin(), of.v.begin());
  o.expect(forward[0], "o");
  lse.expect(forward[1], "lse");

  Array<T> rounded_o(at.q_size());
  Array<float> rounded_lse(at.lse_size());
  fill_forward<T>(p, kCausal, of.q.begin(), of.k.begin(), of.v.begin(), rounded_o.begin(),
                  rounded_lse.begin());
  launch(rounded<T>, 2, kThreads, 0, nullptr, a, o.values.begin(), lse.values.begin());
  for (std::size_t i = 0; i < at.q_size(); ++i) {
    ASSERT_EQ(ladder::widen(of.o.begin()[i]), ladder::widen(rounded_o.begin()[i])) << "o, " << i;
  }
  for (std::size_t i = 0; i < at.lse_size(); ++i) {
    ASSERT_EQ(of.lse.begin()[i], rounded_lse.begin()[i]) << "lse, " << i;
  }

  Array<Query> queries(at.lse_size());
  Answers dq(at.q_size()), dk(at.k_size()), dv(at.k_size());
  launch(of_queries<Op, T, D>, query_tiles(a, kRows), kThreads, 0, nullptr, a, queries.begin(), dq);
  launch(of_keys<Op, T, D>, key_tiles(a, kRows), kThreads, 0, nullptr, a, queries.begin(), dk, dv);
  const auto backward = attention_reference::backward<T>(
      p, kCausal, of.q.begin(), of.k.begin(), of.v.begin(), of.o.begin(), of.d_o.begin());
  dq.expect(backward[0], "dq");
  dk.expect(backward[1], "dk");
  dv.expect(backward[2], "dv");
}

template <class T>
void expect_the_cpus(const char* text) {
  SCOPED_TRACE(text);
  const attention::Problem p = attention_contract::Common<attention>::problem(text);
  with_head_size(p.d, [&](auto d) {
    expect_the_cpus<attention_backward, T, decltype(d)::value>(p);
    expect_the_cpus<attention_causal_backward, T, decltype(d)::value>(p);
  });
}

// Tiles that are full, and by one row more or less not; more queries than keys, heads in groups, both
// layouts and alignments of the mask, different lengths.
TEST(AttentionReferenceKernels, GiveWhatTheCpuGives) {
  for (const char* text : {"1x1x1x64", "1x4:2x31:33x64", "1x2:1x33:17x128@bshd", "1x1x8:40x128",
                           "2x1x9:20x64@bshd@top_left", "3x2:1x0..35x64", "2x2x1..17x128@bshd"}) {
    expect_the_cpus<ladder::bfloat16>(text);
  }
  expect_the_cpus<ladder::half>("1x2:1x20:35x64");
}

/// What rounding to T takes from x.
template <class T>
double lost(float x) {
  return std::abs(static_cast<double>(static_cast<float>(T(x))) - static_cast<double>(x));
}

TEST(AttentionTolerance, IsHalfAStepBelowNormalNumbers) {
  EXPECT_LE(lost<ladder::bfloat16>(-2.062e-42f), tolerance<ladder::bfloat16>().absolute);
  EXPECT_LE(lost<ladder::half>(2.9e-8f), tolerance<ladder::half>().absolute);
}

}  // namespace
