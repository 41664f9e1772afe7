// Idea      one thread per row makes dx, and leaves its mean and scale; in a second launch one thread
//           per column makes dweight and dbias
// Vs        the loops on a CPU: dweight and dbias are sums over the rows, dx needs sums over the
//           columns, so that x and dy are walked over in both directions
// Bound by  latency: there are only as many threads as rows, whose lanes read `cols` elements apart,
//           and then as columns
// Limits    none
#include "backward_naive.hpp"
#include "layernorm.hpp"

namespace {

struct NaiveBackward {
  static constexpr ladder::Version version{"one thread per row, then one per column"};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return static_cast<std::size_t>(a.rows) * sizeof(layernorm_rows::RowFacts);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = 32;  // small, so that few rows still reach every multiprocessor
    auto* const facts = static_cast<layernorm_rows::RowFacts*>(a.workspace);
    ladder::launch(layernorm_rows::row_per_thread<layernorm_backward, T>,
                   ladder::ceil_div(a.rows, kBlock), kBlock, 0, stream, a, facts);
    ladder::launch(layernorm_rows::column_per_thread<layernorm_backward, T>,
                   ladder::ceil_div(a.cols, kBlock), kBlock, 0, stream, a, facts);
  }
};

const ladder::Register<NaiveBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
