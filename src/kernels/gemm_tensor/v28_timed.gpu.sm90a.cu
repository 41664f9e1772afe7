// Idea      the sixteen choices that v20's estimate puts first, and each tile that a block has to itself, are
//           timed to plan a problem, and the fastest is taken, as v00b does with what cuBLASLt proposes.
//           Where A or B has to be copied or realigned, sixteen with copies, and sixteen of v27's to v27c's
// Vs v20    an estimate is right within a few percent, and choices are closer together than that
// Bound by  power; with few rows DRAM bandwidth; small problems latency
// Limits    compute capability 9.0; relies on ascending dispatch, as v20. Planning a problem takes 210 to 590
//           launches, twice as many where operands lie anywhere, and memory for another A, B and C; where
//           nothing may be timed the choice is v20's
// Tile      as in v20
#include "choice.hpp"
#include "fastest.hpp"
#include "k_tiles.hpp"

#include <cstdint>
#include <map>

namespace {

using gemm_choice::Choice, gemm_choice::Operands;

constexpr int kFirst = 16;   // for each way that operands can come
constexpr double kSlow = 2;  // times what the first of those takes by the estimate

/// The first choices, and each tile with a block to itself, in no cluster and undivided, unless that is slow: where
/// the estimate is wrong it is mostly about what blocks share.
template <class Op, class T>
std::vector<Choice> candidates(const gemm_tensor::Args<T>& g) {
  struct Seen {
    int count = 0;
    double least_ns = 0;
  };
  std::map<Operands, Seen> seen;
  std::vector<Choice> all = gemm_choice::choices<Op>(g, SIZE_MAX);
  std::erase_if(all, [&](const Choice& one) {
    auto& [count, least_ns] = seen[one.operands];
    if (count == 0) least_ns = one.ns;
    return ++count > kFirst && (one.way > 0 || one.ns > kSlow * least_ns);
  });
  return all;
}

/// On matrices in place of g's.
template <class Op, class T>
Choice fastest_choice(gemm_tensor::Args<T> g) {
  const std::vector<Choice> choices = candidates<Op>(g);
  std::size_t most = 0;
  for (const Choice& choice : choices) most = max(most, gemm_choice::workspace<Op>(g, choice));
  const std::size_t of_state = gemm_choice::state(g.m, g.n, g.k);
  const std::size_t m = g.m, n = g.n, k = g.k;
  const gemm_fastest::Operand<T> a(g.a, m * k), b(g.b, k * n);
  const gemm_fastest::Scratch c(sizeof(T) * m * n, "C, while choices are timed", g.c);
  const gemm_fastest::Scratch workspace(most, "the workspace of choices that are timed");
  const gemm_fastest::Scratch state(of_state, "the state of choices that are timed");
  if (of_state > 0) LADDER_CUDA(cudaMemset(state.data(), 0, of_state));
  g.a = a.data();
  g.b = b.data();
  g.c = static_cast<T*>(c.data());
  g.workspace = workspace.data();
  return choices[gemm_fastest::fastest(static_cast<int>(choices.size()), [&](int i) {
    gemm_choice::launch<Op>(g, choices[i], state.data(), nullptr);
    return true;
  })];
}

template <class Op>
struct Timed {
  static constexpr ladder::Version version{"v20's first choices, timed when a problem is planned"};

  template <class T>
  static Choice plan(const gemm_tensor::Args<T>& g, bool may_time) {
    if (gemm_k_tiles::is_empty(g)) return {};
    return may_time ? fastest_choice<Op>(g) : gemm_choice::choices<Op>(g, 1).front();
  }
  template <class T>
  static std::size_t workspace(const gemm_tensor::Args<T>& g, const Choice& choice) {
    return gemm_k_tiles::is_empty(g) ? 0 : gemm_choice::workspace<Op>(g, choice);
  }
  template <class T>
  static std::size_t state(const gemm_tensor::Args<T>& g) {
    return gemm_choice::state(g.m, g.n, g.k);
  }
  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, const Choice& choice, void* state,
                     cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    gemm_choice::launch<Op>(g, choice, state, stream);
  }
};

const ladder::Register<Timed<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<Timed<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Timed<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;

}  // namespace
