// Idea      the last wave: SMs that it would leave without a tile take the ends of the others' tiles
// Vs v14    the tiles of the last wave are cut in two along K; whoever of a tile's two blocks is done
//           last adds the other's partial sums to its own and stores C
// Bound by  instruction issue, as v14; the adding takes a microsecond or two
// Limits    two launches must not overlap, as they share the counters of the blocks that are done
// Tile      128 x 256 x 8, 256 threads of 16 x 8, 4 stages in 48 KiB of shared memory; one block per
//           SM. Smaller problems: 64 x 128 x 16, 128 threads of 8 x 8, three blocks per SM
//
//   SM 0   | tile 0 | tile 4 |              | tile 0 | tile 4 |
//   SM 1   | tile 1 | tile 5 |              | tile 1 | tile 5 |     the ends of tiles 4, 5 and 6:
//   SM 2   | tile 2 | tile 6 |              | tile 2 | tile 6 |     3/4 of a tile's time each SM
//   SM 3   | tile 3 |                       | tile 3 |4 |5 |6 |
//
// Either block may be the last; a sum of two numbers does not depend on their order, so C does not.
// Stream-K is the same idea with any number of blocks per tile.
//
// The kernel is in tiles.hpp and the rule in last_wave.hpp, because v20 has them too.
#include "last_wave.hpp"

namespace {

struct LastWave {
  // Three big tiles for the two SMs of the host executor: the last one is cut.
  static constexpr gemm::Problem test_problems[] = {{300, 250, 164}};
  static constexpr ladder::Version version{
      "SMs that the last wave would leave idle take the ends of the others' tiles"};
  using Big = Shape<128, 256, 8, 64, 64, 4, 1>;
  using Small = Shape<64, 128, 16, 32, 64, 3, 3>;

  static bool is_big(const gemm::Args<float>& g) {
    return 10 * tiles_of<Big>(g) >= 9 * ladder::multiprocessors();
  }
  static std::size_t workspace(const gemm::Args<float>& g) {
    return is_big(g) ? cut_bytes<Big>(cut_last_wave<Big>(g))
                     : cut_bytes<Small>(cut_last_wave<Small>(g));
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (is_big(g)) {
      launch_tiles<Big>(g, cut_last_wave<Big>(g), 1, stream);
    } else {
      launch_tiles<Small>(g, cut_last_wave<Small>(g), 1, stream);
    }
  }
};

const ladder::Register<LastWave, gemm, float> registration;

}  // namespace
