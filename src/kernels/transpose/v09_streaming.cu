// Idea      nobody reads the output soon, so its lines are the first that the L2 cache evicts
// Vs v08    streaming stores (st.global.cs); the kernels are the same
// Bound by  DRAM bandwidth
// Limits    as v08
// Tile      as v08
#include "launchers.hpp"

namespace transpose_tiles {
namespace {

struct Streaming {
  static constexpr ladder::Version version{"narrow matrices, with streaming stores"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    launch_narrow<Stores::streaming>(a, stream);
  }
  static ladder::Support supports(const transpose::Problem& p) { return supports_narrow(p); }
};

const ladder::Register<Streaming, transpose, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace transpose_tiles
