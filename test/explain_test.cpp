// What --explain prints of counters that are made up here.
#include "explain/explain.hpp"

#include "explain/moves.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>

namespace ladder {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Requests of whole warps, 4 bytes per lane.
Requests warps(std::uint64_t requests, std::uint64_t units, std::uint64_t ideal) {
  return {requests, requests * units, requests * ideal, requests * 32, requests * 128};
}

/// The transpose of 128 x 128 floats, by four kernels that everybody knows.
Counters naive() {
  Counters c;
  c.global_load = warps(512, 4, 4);
  c.global_store = warps(512, 32, 4);
  return c;
}
Counters tiled(std::uint64_t ways) {
  Counters c = naive();
  c.global_store = warps(512, 4, 4);
  c.shared_load = warps(512, ways, 1);
  c.shared_store = warps(512, 1, 1);
  c.barriers = 16;
  return c;
}

Kernel kernel(const char* file, const char* idea) {
  return {"transpose", "", DType::f32, {idea}, file, Backend::host, nullptr, nullptr};
}

class Explain : public testing::Test {
 protected:
  /// A version of the ladder that the table is of.
  Row& add(const char* file, const char* idea, std::optional<Counters> counters) {
    kernels_.push_back(std::make_unique<Kernel>(kernel(file, idea)));
    Row row;
    row.kernel = kernels_.back().get();
    row.problem = "128x128";
    row.cost = {0, 65536, 65536};
    row.counters = std::move(counters);
    rows.push_back(row);
    return rows.back();
  }
  std::vector<Row> rows;

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

TEST_F(Explain, ATableHasARowPerVersion) {
  add("v01_naive.cu", "a thread per element", naive());
  add("v02_tile.cu", "through a tile in shared memory", tiled(32));
  add("v03_padded.cu", "rows of 33 words", tiled(1));
  add("v04_same.cu", "another way to write it", tiled(1));
  EXPECT_EQ(explain_table(rows, false),
            R"(transpose f32 128x128 · at least 131 kB to move
                 global ld      global st       shared ld      shared st    sync    moved
  v01 naive     512 4 of 4    512 32 of 4 !             –              –       –     4.5x !
      a thread per element · global stores touch 8x the sectors
  v02 tile      512 4 of 4    512  4 of 4      512 32-way !    512 1-way      16     1.0x
      through a tile in shared memory
      global stores 32 of 4 → 4 of 4; now through shared memory, loads 32-way
  v03 padded    512 4 of 4    512  4 of 4      512  1-way      512 1-way      16     1.0x
      rows of 33 words · shared loads 32-way → 1-way
  v04 same      512 4 of 4    512  4 of 4      512  1-way      512 1-way      16     1.0x
      another way to write it · same counts
)");
}

TEST_F(Explain, ColoursChangeNoText) {
  add("v01_naive.cu", "a thread per element", naive());
  add("v02_tile.cu", "through a tile in shared memory", tiled(32));
  std::string text = explain_table(rows, true);
  EXPECT_THAT(text, HasSubstr("\033[1;31m32-way !\033[0m"));
  text = std::regex_replace(text, std::regex("\033\\[[0-9;]*m"), "");
  EXPECT_EQ(text, explain_table(rows, false));
}

TEST_F(Explain, ColumnsThatNobodyNeedsAreLeftOut) {
  add("v01_naive.cu", "", naive());
  EXPECT_THAT(explain_table(rows, false),
              AllOf(Not(HasSubstr("shared")), Not(HasSubstr("sync")), Not(HasSubstr("lanes")),
                    Not(HasSubstr("  atoms  "))));

  Counters divergent = naive();
  divergent.global_load.lanes = divergent.global_load.requests * 12;
  divergent.global_store.lanes = divergent.global_store.requests * 12;
  divergent.global_atomic = {100, 100, 100, 1200, 4800};
  divergent.barriers = 1'234'567;
  add("v02_divergent.cu", "", divergent);
  EXPECT_THAT(explain_table(rows, false),
              AllOf(HasSubstr("    atoms    sync    lanes"),
                    ContainsRegex("!  +100 +1.2M +12 ! +4.5x"), Not(HasSubstr("shared atomics"))));
}

TEST_F(Explain, BulkCopiesHaveColumnsWhereThereAreSome) {
  Counters bulk = tiled(32);
  bulk.bulk_load = {4, 4 * 8192, 4 * 256};
  add("v03_bulk.cu", "", bulk);
  EXPECT_THAT(explain_table(rows, false),
              AllOf(ContainsRegex("  bulk ld +"), ContainsRegex(" 4 +8192 B"),
                    Not(HasSubstr("  bulk st  "))));
}

TEST_F(Explain, WhatWgmmaAndClustersDoIsALine) {
  Counters hopper = tiled(1);
  hopper.shared_stmatrix = {100, 400, 400, 3200, 51200};
  hopper.cluster_load = {20, 80, 80, 640, 10240};
  hopper.cluster_store = {3, 48, 12, 96, 1536};
  hopper.wgmma = {64, 64 * 10240};
  add("v01_naive.cu", "", naive());
  EXPECT_THAT(explain_table(rows, false), Not(HasSubstr("wgmma")));
  add("v02_hopper.cu", "", hopper);
  EXPECT_THAT(
      explain_table(rows, false),
      AllOf(HasSubstr("\n      wgmma reads 655 kB of shared memory; 20 loads from the cluster, "
                      "1-way; 3 st.async to the cluster, 4-way\n"),
            ContainsRegex("612 +1-way")));
}

TEST_F(Explain, AFailedVersionSaysWhyAndIsNobodysPredecessor) {
  add("v01_naive.cu", "", tiled(2));
  add("v02_race.cu", "", tiled(1)).check = {
      .verdict = Verdict::failed,
      .reason =
          "v02_race.cu:31: block (1, 2, 3), thread (4, 5, 6) stores shared memory "
          "that thread (7, 8, 9) has loaded since the last barrier of the block"};
  add("v03_good.cu", "mended", tiled(1));
  EXPECT_THAT(explain_table(rows, false),
              AllOf(HasSubstr(R"(
  v02 race   failed: v02_race.cu:31: block (1, 2, 3), thread (4, 5, 6) stores shared memory that
             thread (7, 8, 9) has loaded since the last barrier of the block
)"),
                    HasSubstr("mended · against v01: shared loads 2-way → 1-way")));

  rows = {rows[1]};
  EXPECT_THAT(explain_table(rows, false), HasSubstr("  v02 race  failed: v02_race.cu:31"));
  EXPECT_THAT(explain_lines(rows, false), HasSubstr("  failed: v02_race.cu:31"));
}

TEST_F(Explain, TheHeadOfAFileSaysWhatItIsComparedWith) {
  const std::string file = testing::TempDir() + "v10_warning.cu";
  std::ofstream(file) << "// Idea      something else\n// Vs v01    all of it\n";
  add("v01_naive.cu", "", naive());
  add("v02_tile.cu", "", tiled(1));
  add(file.c_str(), "staged", tiled(32));
  EXPECT_THAT(explain_table(rows, false), HasSubstr("staged · against v01: global stores 32 of 4"));
  std::filesystem::remove(file);
}

TEST(WhatMoved, TheNumberThatMovedMostComesFirst) {
  EXPECT_EQ(what_moved(tiled(1), tiled(1)), "same counts");
  EXPECT_EQ(what_moved(tiled(32), tiled(1)), "shared loads 32-way → 1-way");
  EXPECT_EQ(what_moved(tiled(1), tiled(2)), "shared loads 1-way → 2-way");
  EXPECT_EQ(what_moved(naive(), tiled(1)),
            "global stores 32 of 4 → 4 of 4; now through shared memory");
  EXPECT_EQ(what_moved(tiled(1), naive()),
            "global stores 4 of 4 → 32 of 4; no shared memory any more");
  EXPECT_EQ(what_moved(Counters{}, Counters{}), "same counts");
}

TEST(WhatMoved, WiderAccessesAreFewerRequests) {
  Counters wide = tiled(1);
  wide.global_load = {128, 2048, 2048, 4096, 65536};  // 16 bytes per lane
  EXPECT_EQ(what_moved(tiled(1), wide), "global load requests 4x fewer");
  EXPECT_EQ(what_moved(wide, tiled(1)), "global load requests 4x more");
  wide.global_store = wide.global_load;
  EXPECT_EQ(what_moved(tiled(1), wide), "global requests 4x fewer");
  wide.shared_store = {128, 512, 512, 4096, 65536};
  EXPECT_EQ(what_moved(tiled(1), wide), "global and shared store requests 4x fewer");
}

TEST(WhatMoved, OneSentenceForLoadsAndStores) {
  Counters both = naive();
  both.global_load = both.global_store;
  EXPECT_EQ(what_moved(both, naive()), "global loads 32 of 4 → 4 of 4");
  Counters neither = naive();
  neither.global_store = neither.global_load;
  EXPECT_EQ(what_moved(both, neither), "global loads and stores 32 of 4 → 4 of 4");
}

TEST(WhatMoved, FewerAccessesOfGlobalMemoryAreFewerBytes) {
  Counters half = tiled(1);
  half.global_load = warps(64, 4, 4);
  half.global_store = warps(448, 4, 4);
  EXPECT_EQ(what_moved(tiled(1), half), "moves 2x fewer bytes");
}

TEST(WhatMoved, WhatGotWorseIsTold) {
  Counters after = tiled(8);
  after.global_load = warps(512, 4, 4);
  Counters before = tiled(1);
  before.global_load = {512 * 32, 512 * 32 * 8, 512 * 32, 512 * 32 * 32, 512 * 128};
  EXPECT_EQ(what_moved(before, after),
            "global load requests 32x fewer; global loads 8 of 1 → 4 of 4; "
            "shared loads 1-way → 8-way");
}

TEST(WhatMoved, WhatIsRareDoesNotCount) {
  Counters before = tiled(1), after = tiled(1);
  before.global_store = warps(8, 32, 4);
  after.global_store = warps(8, 4, 4);
  before.global_load = after.global_load = warps(100'000, 4, 4);
  EXPECT_EQ(what_moved(before, after), "same counts");
}

class ExplainLines : public Explain {
 protected:
  void SetUp() override {
    std::ofstream(file_) << R"(// Idea      a tile
#include "transpose.hpp"

namespace {

template <class T>
__global__ void tile(transpose::Args<T> a) {
  __shared__ T tile[32][32];
  const int x = threadIdx.x;
  const int y = blockIdx.x;
  const int far = away;
  const int from = here;
  const int the = first;
  const int line = that;
  tile[y][x] = a.x[y * a.cols + x];
  __syncthreads();
  a.y[x * a.rows + y] = tile[x][y];  // a comment that is much too long for the line on which it stands
}

}  // namespace
)";
    Counters c = tiled(32);
    c.lines = {{file_, 15, Space::global, Access::load, 4, c.global_load},
               {file_, 15, Space::shared, Access::store, 4, c.shared_store},
               {file_, 17, Space::global, Access::store, 4, naive().global_store},
               {file_, 17, Space::shared, Access::load, 4, c.shared_load}};
    c.lines[0].requests.lanes = 512 * 8;
    add(file_.c_str(), "a tile in shared memory", c);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Of this test alone: tests run side by side.
  const std::filesystem::path folder_ = [] {
    std::string pattern = testing::TempDir() + "ladder-XXXXXX";
    return std::filesystem::path(mkdtemp(pattern.data()));
  }();
  const std::string file_ = folder_ / "v02_tile.cu";
};

TEST_F(ExplainLines, CountsStandBelowTheirLines) {
  const std::string folder = folder_.filename();
  EXPECT_EQ(explain_lines(rows, false),
            "transpose f32 128x128 · v02 tile\n  a tile in shared memory\n  " + folder +
                R"(/v02_tile.cu
   7 │ __global__ void tile(transpose::Args<T> a) {
     …
  14 │   const int line = that;
  15 │   tile[y][x] = a.x[y * a.cols + x];
   ! ┊ global ld        4 B     512 x  4 of 4 sectors, 8 of 32 lanes
     ┊ shared st        4 B     512 x  1-way
  16 │   __syncthreads();
  17 │   a.y[x * a.rows + y] = tile[x][y];  // a comment that is much too long for the line on whic…
   ! ┊ global st        4 B     512 x  32 of 4 sectors  ← 14k too many, the most
   ! ┊ shared ld        4 B     512 x  32-way  ← 16k too many, the most
  18 │ }
)");
}

TEST_F(ExplainLines, OneThreadThatStoresNowAndThenIsNotMarked) {
  const Requests one{16, 16, 16, 16, 64};
  rows[0].counters->global_atomic = one;
  rows[0].counters->lines = {{file_, 16, Space::global, Access::atomic, 4, one}};
  EXPECT_THAT(
      explain_lines(rows, false),
      HasSubstr("\n     ┊ global atomic    4 B      16 x  1 of 1 sectors, 1 of 32 lanes\n"));
}

TEST_F(ExplainLines, AFileThatCannotBeReadHasItsLinesByNumber) {
  std::filesystem::remove(file_);
  EXPECT_THAT(
      explain_lines(rows, false),
      AllOf(HasSubstr(file_ + " cannot be read; its lines by number:\n  15 │\n   ! ┊ global ld"),
            HasSubstr("  17 │\n   ! ┊ global st")));
}

TEST_F(ExplainLines, HeadersAreShownUnderTheirNames) {
  const std::string header = folder_ / "passes.hpp";
  std::ofstream(header) << "__device__ float load(const float* x) {\n  return *x;\n}\n";
  rows[0].counters->lines.insert(rows[0].counters->lines.begin(),
                                 {header, 2, Space::global, Access::load, 4, warps(5, 4, 4)});
  const std::string text = explain_lines(rows, false);
  EXPECT_LT(text.find("/v02_tile.cu\n"), text.find("/passes.hpp\n"));
  EXPECT_THAT(text, HasSubstr("   2 │   return *x;\n     ┊ global ld        4 B       5 x"));
  std::filesystem::remove(header);
}

TEST_F(Explain, JsonHasEveryNumber) {
  Counters c = tiled(32);
  c.bulk_load = {2, 4096, 128};
  c.shared_stmatrix = {1, 2, 3, 32, 5};
  c.cluster_load = {2, 3, 4, 64, 6};
  c.cluster_store = {3, 4, 5, 96, 7};
  c.wgmma = {7, 8};
  c.mbarrier_phases = 5;
  c.lines = {{"v02_tile.cu", 17, Space::shared, Access::load, 4, c.shared_load}};
  add("v02_tile.cu", "a \"tile\"\\\n, padded → 33", c);
  EXPECT_EQ(explain_json(rows), R"(  {"family": "transpose",
   "op": "",
   "kernel": "v02_tile",
   "idea": "a \"tile\"\\\u000a, padded → 33",
   "dtype": "f32",
   "problem": "128x128",
   "verdict": "passed",
   "reason": "",
   "file": "v02_tile.cu",
   "compulsory_bytes": 131072,
   "moved_bytes": 135168,
   "mean_active_lanes": 32,
   "barriers": 16,
   "mbarrier_phases": 5,
   "counters": {
    "global_load": {"requests": 512, "units": 2048, "ideal": 2048, "lanes": 16384, "bytes": 65536},
    "global_store": {"requests": 512, "units": 2048, "ideal": 2048, "lanes": 16384, "bytes": 65536},
    "global_atomic": {"requests": 0, "units": 0, "ideal": 0, "lanes": 0, "bytes": 0},
    "shared_load": {"requests": 512, "units": 16384, "ideal": 512, "lanes": 16384, "bytes": 65536},
    "shared_store": {"requests": 512, "units": 512, "ideal": 512, "lanes": 16384, "bytes": 65536},
    "shared_atomic": {"requests": 0, "units": 0, "ideal": 0, "lanes": 0, "bytes": 0},
    "shared_async": {"requests": 0, "units": 0, "ideal": 0, "lanes": 0, "bytes": 0},
    "shared_stmatrix": {"requests": 1, "units": 2, "ideal": 3, "lanes": 32, "bytes": 5},
    "cluster_load": {"requests": 2, "units": 3, "ideal": 4, "lanes": 64, "bytes": 6},
    "cluster_store": {"requests": 3, "units": 4, "ideal": 5, "lanes": 96, "bytes": 7},
    "bulk_load": {"copies": 2, "bytes": 4096, "sectors": 128},
    "bulk_store": {"copies": 0, "bytes": 0, "sectors": 0},
    "wgmma": {"products": 7, "bytes": 8}},
   "lines": [
    {"file": "v02_tile.cu", "line": 17, "space": "shared", "access": "load", "width": 4, "requests": 512, "units": 16384, "ideal": 512, "lanes": 16384, "bytes": 65536}]})");

  rows[0].counters.reset();
  EXPECT_THAT(explain_json(rows),
              AllOf(HasSubstr("\"counters\": null"), HasSubstr("\"lines\": []}")));
}

}  // namespace
}  // namespace ladder
