// Idea      the sixteen choices that v20's estimate puts first, and each tile that a block has to itself, are
//           timed when a problem is first prepared, and the fastest is kept, as v00b does with what
//           cuBLASLt proposes. Where A or B has to be copied or realigned, sixteen with copies, and sixteen
//           of v27's to v27c's
// Vs v20    an estimate is right within a few percent, and choices are closer together than that
// Bound by  power; with few rows DRAM bandwidth; small problems latency
// Limits    compute capability 9.0. Preparing a problem takes 210 to 590 launches, twice as many where
//           operands lie anywhere, and memory for another C
// Tile      as in v20
#include "choice.hpp"
#include "fastest.hpp"
#include "k_tiles.hpp"
#include "padded_rows.hpp"

#include <cstdint>
#include <map>
#include <tuple>

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

/// What is multiplied goes elsewhere than to C, which only a launch may write.
template <class Op, class T>
Choice fastest_choice(gemm_tensor::Args<T> g) {
  const std::vector<Choice> choices = candidates<Op>(g);
  std::size_t most = 1;
  for (const Choice& choice : choices) most = max(most, gemm_choice::workspace<Op>(g, choice));
  const gemm_fastest::Scratch c(sizeof(T) * std::size_t(g.m) * std::size_t(g.n),
                                "another C, while choices are timed");
  const gemm_fastest::Scratch workspace(most, "the workspace of choices that are timed");
  g.c = static_cast<T*>(c.data());
  g.workspace = workspace.data();
  return choices[gemm_fastest::fastest(static_cast<int>(choices.size()), [&](int i) {
    gemm_choice::launch<Op>(g, choices[i], nullptr);
    return true;
  })];
}

template <class Op>
struct Timed {
  static constexpr ladder::Version version{"v20's first choices, timed when a problem is prepared"};

  template <class T>
  static std::size_t workspace(const gemm_tensor::Args<T>& g) {
    if (g.m == 0 || g.n == 0 || g.k == 0) return 0;
    return gemm_choice::workspace<Op>(g, choice_of(g));
  }
  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    gemm_choice::launch<Op>(g, choice_of(g), stream);
  }

 private:
  /// Kept as long as the process lives.
  template <class T>
  static Choice choice_of(const gemm_tensor::Args<T>& g) {
    static std::map<std::tuple<int, int, int, bool>, Choice> choices;
    const bool aligned = gemm_padded_rows::Plan<Op>(g.m, g.n, g.k).starts_aligned(g);
    const auto [at, fresh] = choices.try_emplace({g.m, g.n, g.k, aligned});
    if (fresh) at->second = fastest_choice<Op>(g);
    return at->second;
  }
};

const ladder::Register<Timed<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<Timed<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Timed<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;

}  // namespace
