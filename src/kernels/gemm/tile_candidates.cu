// Built with LADDER_ALL_TILES: every shape of tile_shapes.hpp as a version, on the GPU only,
// for scripts/autotune.py to time. The names tell the shapes: v20a_128x256x8_64x64_4_1_0.
#if defined(LADDER_ALL_TILES)
#include "tile_shapes.hpp"

#include <list>
#include <string>

namespace {

template <class S>
struct Candidate {
  static constexpr ladder::Version version{"one shape of tile for all problems"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    launch_tiles<S>(g, plan_of<S>(g), 1, stream);
  }
};

/// A file that such a version could be in.
template <class S>
std::string file_name(int number) {
  auto text = [](int size) { return std::to_string(size); };
  return std::string("v20") + static_cast<char>('a' + number) + "_" + text(S::BM) + "x" +
         text(S::BN) + "x" + text(S::BK) + "_" + text(S::WM) + "x" + text(S::WN) + "_" +
         text(S::kStages) + "_" + text(S::kBlocksPerSm) + "_" + text(S::kRun) + ".gpu.cu";
}

template <class... S>
bool register_all(Shapes<S...>) {
  static_assert(sizeof...(S) <= 26, "a letter each");
  static std::list<std::string> names;  // the registry has pointers to them
  int number = 0;
  (void(ladder::Register<Candidate<S>, gemm, float>(
       ladder::kBackend, names.emplace_back(file_name<S>(number++)).c_str())),
   ...);
  return true;
}

const bool registered = register_all(Candidates{});

}  // namespace
#endif
