// What v20 chooses from: the kernels of v25 (stream_k.hpp) and of v24 (pushed_sums.hpp), each with one
// shape of tile; the ways in which each can share out a product; and what v20 estimates that takes.
#pragma once

#include "device/sm_count.hpp"
#include "pushed_sums.hpp"
#include "stream_k.hpp"

#include <cmath>
#include <string>

namespace {

/// Of a GPU: what every shape's estimate takes.
struct Rates {
  double dram;     ///< bytes per ns
  double line;     ///< ns of 128 bytes of a K-tile from the L2, while all SMs load
  double split;    ///< by how much more do 128 bytes take that lie in two lines
  double odd;      ///< and by how much yet if they begin within sectors of 32 bytes
  double sum;      ///< ns in which an owner, or a block of v24's, adds 128 sums
  double divide;   ///< ns that tiles take longer because they are divided
  double push;     ///< ns more in which blocks exchange sums, for each doubling of a cluster
  double start;    ///< ns that v25's kernels take longer to begin and to end than v24's
  double apart;    ///< by how much more is read of A and B where blocks are at different K-tiles
  double scatter;  ///< and by how much longer do their lines take from the L2
  double eight;    ///< by how much longer do K-tiles take of eight blocks with several tiles
  double in_step;  ///< times as long take whole lines of blocks with one tile each, in no cluster
};

/// Of a GPU and a shape of tile.
struct Pace {
  double k_tile, tile;  ///< ns of a K-tile, and of a tile's beginning and end
};

/// A product, as an estimate sees it.
struct Sizes {
  double m, n, k_tiles;
  bool a_along_k, b_along_k;
  int row_a, row_b;      ///< elements from a row in memory to the next
  double loads, stores;  ///< bytes of A and B, and of C
  double sms;

  template <class Op, class T, class C>
  static Sizes of(const gemm_tensor::Args<T, C>& g) {
    const double m = g.m, n = g.n, k = g.k;
    return {m,
            n,
            std::ceil(k / gemm_k_tiles::kDepth),
            !Op::kTransposedA,
            Op::kTransposedB,
            gemm_k_tiles::pitch_of_a<Op>(g),
            gemm_k_tiles::pitch_of_b<Op>(g),
            (m * k + k * n) * sizeof(T),
            m * n * sizeof(C),
            static_cast<double>(ladder::sm_count())};
  }
  /// Lines that a K-tile takes of A to load `width` of M, and of B to load so much of N; more where
  /// rows in memory do not begin with lines.
  double lines_of_a(double width, const Rates& gpu) const {
    return lines(width, a_along_k, row_a, gpu);
  }
  double lines_of_b(double width, const Rates& gpu) const {
    return lines(width, b_along_k, row_b, gpu);
  }
  /// Whether the lines of such a tile are of no other one.
  bool has_whole_lines(int rows, int cols) const {
    const bool of_a = row_a % 64 == 0 && (a_along_k || rows % 64 == 0);
    return of_a && row_b % 64 == 0 && (b_along_k || cols % 64 == 0);
  }

 private:
  static double lines(double width, bool along_k, int row, const Rates& gpu) {
    return (along_k ? width : std::ceil(width / 64) * 64) *
           (1 + (row % 64 > 0 ? gpu.split : 0) + (row % 16 > 0 ? gpu.odd : 0));
  }
};

/// How the clusters of a shape's kernel share out a product. A way that it does not have has none of them.
struct Way {
  int number = 0;                 ///< of the shape's kWays
  int clusters = 0, divided = 0;  ///< those at work, and the tiles of StreamK that they divide
};

/// v25's kernel. A way's number tells which blocks form a cluster, and how they divide tiles.
template <int Lines, int Width, bool Across, bool InTurns = false>
struct StreamK {
  using Shape = gemm_stream_k::Shape<Lines, Width, Across, InTurns>;
  using Cluster = gemm_stream_k::Cluster;
  /// By how many ns longer an SM takes for an element of 16-bit C where C's rows begin anywhere: of an H100,
  /// at 7 sizes; the times are not in results/.
  static constexpr double kUnaligned = Lines == 64 ? 0.12 : Across ? 0.085 : 0.05;
  static constexpr Cluster kClusters[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1},
                                          {2, 0}, {0, 2}, {1, 2}, {2, 1}};
  static constexpr const char* kDivisions[] = {"whole", "overlap", "rest",  "spread",
                                               "even2", "even3",   "even4", "even6",
                                               "even8", "even12",  "even16"};
  static constexpr int kOfCluster = std::size(kDivisions);
  static constexpr int kWays = kOfCluster * std::size(kClusters);

  /// As the name of a file has it: the blocks of a cluster are those along the lines and those beside.
  static std::string name(int number) {
    const Cluster cluster = cluster_of(number);
    return "v25_" + std::to_string(Lines) + "x" + std::to_string(Width) + (Across ? "a" : "") +
           (InTurns ? "t_" : "_") + std::to_string(1 << cluster.log_along) + "x" +
           std::to_string(1 << cluster.log_beside) + "_" + kDivisions[number % kOfCluster];
  }

  static Cluster cluster_of(int number) { return kClusters[number / kOfCluster]; }

  /// Of each number.
  template <class Op, class T, class C>
  static std::array<Way, kWays> ways(const gemm_tensor::Args<T, C>& g) {
    std::array<Way, kWays> all{};
    if constexpr (kStores<C>) {
      int at_once[kMostOfCluster + 1] = {};
      for (int blocks = 1; blocks <= kMostOfCluster; blocks *= 2) {
        at_once[blocks] = gemm_stream_k::clusters_at_once<Op, Shape, T, C>(blocks);
      }
      for (int number = 0; number < kWays; ++number) {
        all[number] = way_to_store(number, g, at_once[cluster_of(number).blocks()]);
      }
    }
    return all;
  }

  template <class Op, class T, class C>
  static double ns(const Sizes& p, const Way& way, const Pace& pace, const Rates& gpu) {
    const Cluster cluster = cluster_of(way.number);
    const double along = 1 << cluster.log_along, beside = 1 << cluster.log_beside;
    const double tiles =
        std::ceil(p.m / Shape::rows(cluster)) * std::ceil(p.n / Shape::cols(cluster));
    const double clusters = way.clusters, divided = way.divided;
    const double run = std::ceil(divided * p.k_tiles / clusters);
    const double whole = std::ceil((tiles - divided) / clusters), steps = run + whole * p.k_tiles;
    const double tails = divided > 0 ? std::ceil(run / p.k_tiles) : 0;
    const double adds = divided > 0 ? std::ceil(p.k_tiles / run) : 0;
    const double active = std::min(1., tiles * cluster.blocks() * p.k_tiles / steps / p.sms);
    // Of the lines, and of the width, each block loads a part for others.
    const double of_a = p.lines_of_a(Shape::BM, gpu) / (Across ? along : beside);
    const double of_b = p.lines_of_b(Shape::BN, gpu) / (Across ? beside : along);
    const bool apart = divided > 0 && way.clusters % static_cast<int>(tiles) > 0;
    const double loads = p.loads * (apart ? 1 + gpu.apart : 1);
    const bool in_step = cluster.blocks() == 1 && divided == 0 && whole == 1 &&
                         p.has_whole_lines(Shape::BM, Shape::BN);
    const double line = gpu.line * (apart ? 1 + gpu.scatter : 1) * (in_step ? gpu.in_step : 1);
    const bool eight = cluster.blocks() == 8 && tiles > clusters;
    const double step =
        (1 + eight * gpu.eight) *
        std::hypot(pace.k_tile, line * active * (of_a + of_b), loads / steps / gpu.dram);
    const double k_tiles = steps * step, ends = (whole + tails) * pace.tile;
    // The end of a warpgroup's tile beside K-tiles of the other one, which has half of them all.
    const double hidden = InTurns ? std::min(ends - pace.tile, k_tiles / 2) : 0;
    return k_tiles + ends - hidden + adds * gpu.sum * Lines / 128 * Width +
           (divided > 0 ? gpu.divide : 0) + gpu.start;
  }

  static std::size_t workspace(const Way& way) {
    const int blocks = way.clusters * cluster_of(way.number).blocks();
    return way.divided > 0 ? gemm_stream_k::exchange_bytes<Shape>(blocks) : 0;
  }
  /// Of any way, on any GPU: a tile of one K-tile has no parts, and others not more than K-tiles.
  static std::size_t state(int m, int n, int k) {
    const std::int64_t k_tiles = ladder::ceil_div(k, gemm_k_tiles::kDepth);
    std::int64_t most = 0;  // blocks
    for (const Cluster cluster : kClusters) {
      if (k_tiles < 2 || !Shape::takes(cluster)) continue;
      most = std::max(most, tiles_of(cluster, m, n) * k_tiles * cluster.blocks());
    }
    return gemm_stream_k::state_bytes<Shape>(most);
  }
  template <class Op, class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Way& way, void* state,
                     cudaStream_t stream) {
    if constexpr (kStores<C>) {
      gemm_stream_k::launch<Op, Shape>(g, {cluster_of(way.number), way.clusters, way.divided},
                                       state, stream);
    }
  }

 private:
  static constexpr int kMostOfCluster = 8;  // blocks

  /// Of clusters.
  static std::int64_t tiles_of(Cluster cluster, int m, int n) {
    return std::int64_t{ladder::ceil_div(m, Shape::rows(cluster))} *
           ladder::ceil_div(n, Shape::cols(cluster));
  }
  template <class C>
  static constexpr bool kStores = sizeof(C) == 2 || Shape::kStoresFloats;

  /// Where `most` of its clusters run at once.
  template <class T, class C>
  static Way way_to_store(int number, const gemm_tensor::Args<T, C>& g, int most) {
    constexpr int kParts[kOfCluster] = {0, 0, 0, 0, 2, 3, 4, 6, 8, 12, 16};
    const Cluster cluster = cluster_of(number);
    if (!Shape::takes(cluster)) return {};
    if (!Shape::kStoresAnyRows && sizeof(C) == 2 && g.n % 8 > 0) return {};
    const int tiles = static_cast<int>(tiles_of(cluster, g.m, g.n));
    const int rest = tiles % most, division = number % kOfCluster, parts = kParts[division];
    const std::int64_t k_tiles = ladder::ceil_div(g.k, gemm_k_tiles::kDepth);
    const bool few = tiles < most, last_wave = !few && rest > 0 && tiles / most < 12;
    auto divide = [&](int clusters, int divided) {
      const bool fits = gemm_stream_k::Division::fits(k_tiles, divided, clusters);
      return fits ? Way{number, clusters, divided} : Way{};
    };
    if (division == 0) return {number, ladder::ceil_div(tiles, ladder::ceil_div(tiles, most))};
    if (division == 1 && last_wave) return divide(most, rest + most);
    if (division == 2 && last_wave && rest * k_tiles >= 2 * most) return divide(most, rest);
    if (division == 3 && few && 2 * most <= tiles * k_tiles) return divide(most, tiles);
    if (parts > 0 && few && parts <= std::min<std::int64_t>(most / tiles, k_tiles)) {
      return divide(tiles * parts, tiles);
    }
    return {};
  }
};

/// v24's kernel. A way's number tells how many blocks a tile has, which are a cluster.
template <int Rows, int Cols, int BlocksPerSm>
struct PushedSums {
  using Shape = gemm_pushed_sums::Shape<Rows, Cols, BlocksPerSm>;
  static constexpr double kUnaligned = 0.04;
  static constexpr int kWays = gemm_pushed_sums::kSplits.size();

  static std::string name(int number) {
    return "v24_" + std::to_string(Rows) + "x" + std::to_string(Cols) + "_" +
           std::to_string(BlocksPerSm) + "_" + std::to_string(parts_of(number));
  }
  static int parts_of(int number) { return gemm_pushed_sums::kSplits[number]; }

  template <class Op, class T, class C>
  static std::array<Way, kWays> ways(const gemm_tensor::Args<T, C>& g) {
    const int k_tiles = ladder::ceil_div(g.k, gemm_k_tiles::kDepth);
    std::array<Way, kWays> all{};
    for (int number = 0; number < kWays; ++number) {
      if (parts_of(number) > k_tiles) break;
      all[number] = {number, ladder::ceil_div(g.m, Rows) * ladder::ceil_div(g.n, Cols)};
    }
    return all;
  }

  template <class Op, class T, class C>
  static double ns(const Sizes& p, const Way& way, const Pace& pace, const Rates& gpu) {
    const int parts = parts_of(way.number);
    const double blocks = static_cast<double>(way.clusters) * parts;
    const double resident =
        gemm_pushed_sums::resident_blocks<gemm_pushed_sums::TmaLoads<Op, T, Shape>, C>(
            parts, static_cast<int>(p.k_tiles));
    const double rounds = std::max(1., std::ceil(blocks / resident));
    const double of_an_sm = std::max(1., std::min(blocks, resident) / p.sms);
    const double active = blocks / rounds / p.sms;
    const double lines = p.lines_of_a(Rows, gpu) + p.lines_of_b(Cols, gpu);
    const double steps = rounds * std::ceil(p.k_tiles / parts);
    const bool in_step = parts == 1 && rounds == 1 && p.has_whole_lines(Rows, Cols);
    const double line = gpu.line * (in_step ? gpu.in_step : 1);
    const double step =
        std::hypot(of_an_sm * pace.k_tile, line * active * lines, p.loads / steps / gpu.dram);
    const double sums = (1 - 1. / parts) * Rows / 128 * Cols;
    return steps * step +
           rounds * (pace.tile * of_an_sm + std::log2(parts) * gpu.push + sums * gpu.sum);
  }

  static std::size_t workspace(const Way&) { return 0; }
  static std::size_t state(int, int, int) { return 0; }
  template <class Op, class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Way& way, void*, cudaStream_t stream) {
    gemm_pushed_sums::launch<gemm_pushed_sums::TmaLoads<Op, T, Shape>>(g, parts_of(way.number),
                                                                       stream);
  }
};

template <class... S>
struct Shapes {
  static constexpr int kCount = sizeof...(S);
};

using Candidates =
    Shapes<StreamK<256, 160, true>, StreamK<192, 192, false>, StreamK<128, 256, false>,
           StreamK<128, 224, false>, StreamK<128, 224, true>, StreamK<128, 208, false>,
           StreamK<128, 192, false>, StreamK<128, 176, false>, StreamK<128, 160, true>,
           StreamK<128, 128, false>, StreamK<128, 96, true>, StreamK<64, 192, false>,
           StreamK<64, 144, false>, StreamK<64, 128, false>, StreamK<64, 96, false>,
           StreamK<64, 96, true>, StreamK<64, 80, false>, StreamK<128, 192, false, true>,
           StreamK<128, 192, true, true>, StreamK<128, 160, false, true>,
           StreamK<128, 128, false, true>, StreamK<128, 112, false, true>, PushedSums<16, 64, 2>,
           PushedSums<32, 64, 2>, PushedSums<64, 64, 2>, PushedSums<96, 64, 1>,
           PushedSums<128, 64, 1>, PushedSums<96, 128, 1>, PushedSums<128, 128, 1>>;

}  // namespace
