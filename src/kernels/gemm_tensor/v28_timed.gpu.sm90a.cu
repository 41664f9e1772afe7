// Idea      the sixteen choices that v20's estimate puts first, two of a tile at most, are timed when
//           a problem is first prepared, and the fastest is kept, as v00b does with what cuBLASLt
//           proposes. Where A or B has to be copied or realigned, so many with copies, and v27's to
//           v27c's
// Vs v20    an estimate is right within a few percent, and choices are closer together than that
// Bound by  power; with few rows DRAM bandwidth; small problems latency
// Limits    compute capability 9.0. Preparing a problem takes 160 launches and more, and memory for
//           another C
// Tile      as in v20
#include "choice.hpp"
#include "fastest.hpp"
#include "k_tiles.hpp"
#include "padded_rows.hpp"

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace {

using gemm_choice::Choice, gemm_choice::Operands;

constexpr int kTimed = 16;  // for each way that operands can come
constexpr int kOfATile = 2;

/// Most ways to share out a product in the same tiles take about as long as each other, so that of the first
/// sixteen many have the same tile; and where the estimate is wrong about a tile, it is about all of them.
template <class Op, class T>
std::vector<Choice> first_choices(const gemm_tensor::Args<T>& g) {
  std::vector<Choice> all = gemm_choice::choices<Op>(g, SIZE_MAX);
  std::map<std::pair<Operands, int>, int> of_tile;
  std::map<Operands, int> timed;
  std::erase_if(all, [&](const Choice& one) {
    return ++of_tile[{one.operands, one.shape}] > kOfATile || ++timed[one.operands] > kTimed;
  });
  return all;
}

/// What is multiplied goes elsewhere than to C, which only a launch may write.
template <class Op, class T>
Choice fastest_choice(gemm_tensor::Args<T> g) {
  const std::vector<Choice> choices = first_choices<Op>(g);
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
  static constexpr ladder::Version version{"v20's sixteen best, timed when a problem is prepared"};

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
