// Launches that overlap on the host executor: those of streams that run together. Each is right if it
// has memory of its own, and what two share is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "device/ptx/cluster.hpp"
#include "device/ptx/mbarrier.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "host_executor/counting.hpp"
#include "host_kernels.hpp"

#if !defined(__SANITIZE_ADDRESS__)  // under which streams run one after another

namespace {

using namespace ladder::test;
using namespace ladder::ptx;
using ladder::half;
using ladder::launch;
using ladder::host::run_together;

class Overlap : public AnyOrder {};
INSTANTIATE_TEST_SUITE_P(LaneOrder, Overlap, testing::Values(0u, 1u, 42u, 20240607u));

using Streams = std::vector<std::function<void()>>;

std::string at(int line) { return " at host_overlap_test.cpp:" + std::to_string(line) + " "; }

std::string error_of_streams(const Streams& streams) {
  return error_of([&] { run_together(streams); });
}

// --- The order of blocks -------------------------------------------------------------------------

/// What no kernel could know of: where blocks of all launches begin and end.
struct Note {
  int launch;
  unsigned block;
  bool ends;
  auto operator<=>(const Note&) const = default;
};
Note notes[1 << 12];
unsigned note_count = 0;

[[gnu::noinline, gnu::no_sanitize("thread"), gnu::no_sanitize_coverage]] void note(int launch,
                                                                                   bool ends) {
  if (threadIdx.x == 0) notes[note_count++] = {launch, blockIdx.x, ends};
}

std::vector<Note> notes_of(const Streams& streams) {
  note_count = 0;
  run_together(streams);
  return {notes, notes + note_count};
}

/// The most blocks that were in progress at once: of one launch, or of all (-1).
int most_at_once(const std::vector<Note>& all, int launch = -1) {
  int now = 0, most = 0;
  for (const Note& each : all) {
    if (launch < 0 || each.launch == launch) most = std::max(most, now += each.ends ? -1 : 1);
  }
  return most;
}

/// Threads exchange numbers through static and dynamic shared memory, again and again.
__global__ void exchange(int number, const unsigned* in, unsigned* out, int rounds) {
  __shared__ unsigned fixed[1024];
  unsigned* const dynamic = ladder::dynamic_shared<unsigned>();
  note(number, false);
  const unsigned t = threadIdx.x, n = blockDim.x, own = blockIdx.x * n + t;
  unsigned sum = in[own];
  for (int round = 0; round < rounds; ++round) {
    fixed[t] = sum;
    dynamic[n - 1 - t] = round + 1;
    __syncthreads();
    sum += fixed[(t + 1) % n] + dynamic[t];
    __syncthreads();
  }
  out[own] = sum;
  note(number, true);
}

unsigned exchanged(std::vector<unsigned> values, unsigned t, int rounds) {
  const auto n = static_cast<unsigned>(values.size());
  for (int round = 0; round < rounds; ++round) {
    std::vector<unsigned> next(values);
    for (unsigned i = 0; i < n; ++i) next[i] += values[(i + 1) % n] + round + 1;
    values = next;
  }
  return values[t];
}

/// A launch of it with arrays of its own.
class Exchange {
 public:
  Exchange(int number, unsigned blocks, unsigned threads, int rounds)
      : number_(number),
        blocks_(blocks),
        threads_(threads),
        rounds_(rounds),
        in_(blocks * threads),
        out_(blocks * threads) {
    std::iota(in_.begin(), in_.end(), 100u * static_cast<unsigned>(number));
  }
  void run(std::size_t more_shared = 0) {
    launch(exchange, blocks_, threads_, threads_ * sizeof(unsigned) + more_shared, nullptr, number_,
           in_, out_, rounds_);
  }
  void expect_right() {
    for (unsigned i = 0; i < blocks_ * threads_; i += threads_ / 2 + 1) {
      const auto begin = in_.begin() + i / threads_ * threads_;
      ASSERT_EQ(out_[i], exchanged({begin, begin + threads_}, i % threads_, rounds_)) << i;
    }
    std::fill(out_.begin(), out_.end(), 0u);
  }

 private:
  int number_;
  unsigned blocks_, threads_;
  int rounds_;
  Array<unsigned> in_, out_;
};

TEST_P(Overlap, TwoLaunchesAreRightSideBySide) {
  Exchange first(0, 9, 64, 3), second(1, 5, 96, 4);
  const auto seen = notes_of({[&] { first.run(); }, [&] { second.run(); }});
  ASSERT_EQ(seen.size(), 2u * (9 + 5));
  first.expect_right();
  second.expect_right();
  Exchange large(2, 3, 512, 2), small(3, 20, 32, 2);
  run_together(Streams{[&] {
                         first.run();
                         large.run();
                         small.run();
                       },
                       [&] { second.run(); }});
  for (Exchange* each : {&first, &second, &large, &small}) each->expect_right();
  // Each begins before the other has ended, and blocks of both come in between.
  std::string order;
  for (const Note& each : seen) {
    if (!each.ends) order += static_cast<char>('a' + each.launch);
  }
  EXPECT_EQ(std::ranges::count(order, 'a'), 9);
  EXPECT_TRUE(contains(order, "ab") && contains(order, "ba")) << order;
}

TEST(OverlapOfSeeds, LaunchesTakeTurnsInTheAscendingOrder) {
  Exchange first(0, 4, 64, 1), second(1, 4, 64, 1);
  std::string order;
  for (const Note& each : notes_of({[&] { first.run(); }, [&] { second.run(); }})) {
    if (!each.ends) order += std::to_string(each.launch) + std::to_string(each.block) + ' ';
  }
  EXPECT_EQ(order.substr(3) + order.substr(0, 3), "00 11 01 12 02 13 03 10 ");
}

TEST(OverlapOfSeeds, TheOrderIsTheSeeds) {
  Exchange first(0, 6, 64, 3), second(1, 6, 64, 3);
  std::set<std::vector<Note>> orders;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ladder::host::set_lane_order(seed);
    const Streams streams{[&] { first.run(); }, [&] { second.run(); }};
    const auto seen = notes_of(streams);
    EXPECT_EQ(seen, notes_of(streams)) << seed;
    orders.insert(seen);
  }
  ladder::host::set_lane_order(0);
  EXPECT_EQ(orders.size(), 8u);
}

TEST(OverlapOfSeeds, LaunchesShareTheSms) {  // of which two hold four blocks of 1024 threads
  int most_of_all = 0, most_of_first = 0, most_alone = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ladder::host::set_lane_order(seed);
    Exchange first(0, 8, 1024, 4), second(1, 8, 1024, 4);
    const auto seen = notes_of({[&] { first.run(); }, [&] { second.run(); }});
    first.expect_right();
    second.expect_right();
    most_of_all = std::max(most_of_all, most_at_once(seen));
    // A launch whose other has ended has all of them.
    const auto last = std::find_if(seen.rbegin(), seen.rend(), [&](const Note& each) {
      return each.launch != seen.back().launch;
    });
    const std::vector<Note> both(seen.begin(), last.base());
    most_of_first = std::max({most_of_first, most_at_once(both, 0), most_at_once(both, 1)});
    most_alone = std::max(most_alone, most_at_once(seen, seen.back().launch));
  }
  ladder::host::set_lane_order(0);
  EXPECT_EQ(most_of_all, 4);
  EXPECT_EQ(most_of_first, 2);
  EXPECT_GT(most_alone, 2);
}

TEST(OverlapOfSeeds, ALaunchThatFindsTheSmsFullHasOneBlock) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ladder::host::set_lane_order(seed);
    Exchange first(0, 4, 64, 6), second(1, 4, 64, 6), third(2, 4, 64, 2);
    const auto fill = [](Exchange& launched) {  // with one block each
      return [&launched] { launched.run(200 << 10); };
    };
    const auto seen = notes_of({fill(first), fill(second), [&] { third.run(); }});
    for (Exchange* each : {&first, &second, &third}) each->expect_right();
    int ended[3] = {};
    const auto end =  // of one that fills the SMs
        std::ranges::find_if(seen, [&](const Note& each) {
          return (ended[each.launch] += each.ends) == 4 && each.launch < 2;
        });
    EXPECT_EQ(most_at_once({seen.begin(), end}, 2), 1) << seed;
  }
  ladder::host::set_lane_order(0);
}

TEST_P(Overlap, EachLaunchHasABlockAtLeast) {  // of six, where four fit
  std::vector<std::unique_ptr<Exchange>> launches;
  Streams streams;
  for (int i = 0; i < 6; ++i) {
    launches.push_back(std::make_unique<Exchange>(i, 3, 1024, 2));
    streams.push_back([&, i] { launches[i]->run(); });
  }
  const auto seen = notes_of(streams);
  for (const auto& each : launches) each->expect_right();
  EXPECT_LE(most_at_once(seen), 6);
  EXPECT_GT(most_at_once(seen), GetParam() == 0 ? 0 : 2);
}

// --- Streams -------------------------------------------------------------------------------------

/// Of the same stream, one after another.
__global__ void add_to_each(int number, const unsigned* in, unsigned* out, unsigned value) {
  note(number, false);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[(i + 7) % (gridDim.x * blockDim.x)] + value;
  note(number, true);
}

TEST_P(Overlap, LaunchesOfAStreamAreInOrder) {
  constexpr unsigned kSize = 5 * 32;
  Array<unsigned> a(kSize), b(kSize), c(kSize), d(kSize);
  const auto add = [](int number, unsigned* in, unsigned* out, unsigned value) {
    launch(add_to_each, 5, 32, 0, nullptr, number, in, out, value);
  };
  const auto seen = notes_of({[&] {
                                add(0, a, b, 1);
                                add(1, b, a, 10);
                                add(2, a, b, 100);
                              },
                              [&] {
                                add(10, c, d, 2);
                                EXPECT_EQ(d[0], 2u) << "it has ended";
                                add(11, d, c, 20);
                              }});
  EXPECT_EQ(b[3], 111u);
  EXPECT_EQ(c[3], 22u);
  int of_first = 0, of_second = 10, switches = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    int& last = seen[i].launch < 10 ? of_first : of_second;
    EXPECT_LE(last, seen[i].launch);
    last = seen[i].launch;
    switches += i > 0 && (seen[i].launch < 10) != (seen[i - 1].launch < 10);
  }
  EXPECT_GT(switches, 4);
}

TEST_P(Overlap, EachStreamHasItsOwnLaunchStream) {
  Array<unsigned> a(64), b(64), c(64), d(64);
  const int streams[2] = {};
  const auto into = [&](int own, int to, unsigned* from, unsigned* out) {
    return [=, &streams] {
      const ladder::host::LaunchStream given(&streams[own]);
      for (int i = 0; i < 3; ++i) {
        const auto stream = reinterpret_cast<cudaStream_t>(const_cast<int*>(&streams[to]));
        launch(add_to_each, 2, 32, 0, stream, 0, from, out, 1u);
      }
    };
  };
  EXPECT_EQ(error_of_streams({into(0, 0, a, c), into(1, 1, b, d)}), "");
  EXPECT_TRUE(contains(error_of_streams({into(0, 0, a, c), into(1, 0, b, d)}),
                       "stream 1: a launch into another stream"));
  EXPECT_EQ(error_of([&] { launch(add_to_each, 2, 32, 0, nullptr, 0, a, c, 1u); }), "");
}

TEST_P(Overlap, StreamsMayBeEmpty) {
  Exchange launched(0, 3, 32, 1);
  run_together({});
  run_together(Streams{[] {}, [&] { launched.run(); }, [] {}});
  launched.expect_right();
  EXPECT_TRUE(contains(error_of_streams(Streams(65, [] {})), "at most 64 streams"));
  EXPECT_EQ(error_of_streams(Streams(64, [] {})), "");
}

TEST_P(Overlap, LaunchesThatRunTogetherAreNotCounted) {
  Exchange launched(0, 3, 32, 1);
  EXPECT_TRUE(contains(error_of([&] {
                         ladder::host::count(
                             [&] { run_together(Streams{[&] { launched.run(); }}); });
                       }),
                       "stream 0: launches that run together are not counted"));
}

// --- What launches share -------------------------------------------------------------------------

__global__ void count_blocks(unsigned* counter) {
  if (threadIdx.x == 0) atomicAdd(counter, 1u);
}
constexpr int kCounts = __LINE__ - 2;

TEST_P(Overlap, ACounterOfTwoLaunchesIsNamed) {
  Array<unsigned> a(1), b(1);
  const auto error = [&](unsigned* first, unsigned* second) {
    return error_of_streams({[=] { launch(count_blocks, 4, 32, 0, nullptr, first); },
                             [=] { launch(count_blocks, 4, 32, 0, nullptr, second); }});
  };
  EXPECT_EQ(error(a, b), "");
  EXPECT_EQ(a[0], 4u);
  const std::string text = error(a, a);
  EXPECT_TRUE(contains(text, ",0,0) thread (0,0,0): race in global memory: the atomic operation" +
                                 at(kCounts) + "and the atomic operation of block ("));
  EXPECT_TRUE(contains(text, at(kCounts) + "are of two launches that may overlap"));
  EXPECT_TRUE(text.starts_with("stream 0: block (") ? contains(text, ",0,0) of stream 1 at")
                                                    : contains(text, ",0,0) of stream 0 at"));
  EXPECT_EQ(error(a, b), "") << "it works after an error";
}

/// Two blocks write the same element.
__global__ void write_twice(unsigned* out) { out[blockIdx.x / 2 * 32 + threadIdx.x] = 1; }

TEST_P(Overlap, RacesWithinALaunchAreFoundBesideOthers) {
  Array<unsigned> out(8 * 32), counter(1);
  const std::string error = error_of_streams({[&] { launch(write_twice, 16, 32, 0, nullptr, out); },
                                              [&] {
                                                for (int i = 0; i < 40; ++i) {
                                                  launch(count_blocks, 1, 32, 0, nullptr, counter);
                                                }
                                              }});
  EXPECT_TRUE(error.starts_with("stream 0: block (")) << error;
  EXPECT_TRUE(contains(error, "are in no order: between blocks that takes a __threadfence"));
}

template <class T>
__global__ void copy(const T* in, T* out, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    out[i] = in[i];
  }
}

/// Arrays that no launch has written yet, and copies of them.
struct Arrays {
  Array<float4> a{64}, b{64}, c{64}, d{64};

  static std::function<void()> run(const float4* in, float4* out, unsigned n = 64) {
    return [=] { launch(copy<float4>, 2, 32, 0, nullptr, in, out, n); };
  }
  static std::function<void()> one_by_one(std::vector<std::function<void()>> all) {
    return [=] {
      for (const auto& each : all) each();
    };
  }
  /// So that one that ends before has ended when the last of these begins.
  std::function<void()> later(std::vector<std::function<void()>> all) {
    all.insert(all.begin(), 9, run(d, d));
    return one_by_one(all);
  }
};

/// What one reads and the other writes, whichever comes first.
TEST_P(Overlap, WhatOneLaunchReadsNoOtherWrites) {
  const auto expect_race = [](bool is, auto streams) {
    Arrays arrays;
    const std::string error = error_of_streams(streams(arrays));
    EXPECT_EQ(!error.empty(), is) << error;
    if (is) {
      EXPECT_TRUE(contains(error, "are of two launches that may overlap"));
    }
  };
  constexpr auto run = &Arrays::run;
  expect_race(false, [&](auto& x) { return Streams{run(x.a, x.b, 64), run(x.a, x.c, 64)}; });
  expect_race(true, [&](auto& x) { return Streams{run(x.a, x.b, 64), run(x.c, x.a, 64)}; });
  expect_race(true, [&](auto& x) { return Streams{run(x.b, x.a, 64), run(x.a, x.c, 64)}; });
  expect_race(true, [&](auto& x) { return Streams{run(x.a, x.c, 64), run(x.b, x.c, 64)}; });
  expect_race(false, [&](auto& x) { return Streams{run(x.a, x.b, 32), run(x.c, x.b + 32, 32)}; });
  // Of whole streams
  expect_race(true, [&](auto& x) {
    return Streams{run(x.a, x.b, 64), x.later({run(x.c, x.a, 64)})};
  });
  expect_race(true, [&](auto& x) {
    return Streams{x.later({run(x.c, x.a, 64)}), run(x.a, x.b, 64)};
  });
  expect_race(true, [&](auto& x) {
    return Streams{run(x.a, x.b, 64), x.later({run(x.a, x.c, 64), run(x.c, x.a, 64)})};
  });
  expect_race(false, [&](auto& x) {
    return Streams{x.one_by_one({run(x.a, x.b, 64), run(x.b, x.a, 64), run(x.a, x.b, 64)}),
                   run(x.c, x.c, 64)};
  });
}

TEST_P(Overlap, LaunchesShareNoByte) {
  Array<float4> words(4);
  Array<char> bytes(64), more(64);
  const auto write = [](const auto* in, auto* out, unsigned n) {
    using T = std::remove_pointer_t<decltype(out)>;
    return [=] { launch(copy<T>, 1, 32, 0, nullptr, in, out, n); };
  };
  auto* const of_words = reinterpret_cast<char*>(words.begin());
  const auto* const first = reinterpret_cast<const float4*>(more.begin());
  EXPECT_EQ(
      error_of_streams({write(bytes.begin(), of_words + 16, 15u), write(first, words.begin(), 1u)}),
      "");
  EXPECT_TRUE(contains(
      error_of_streams({write(bytes.begin(), of_words + 15, 15u), write(first, words.begin(), 1u)}),
      "are of two launches that may overlap"));
  for (const unsigned from : {15u, 16u}) {
    Array<float4> fresh(4), copies(4);
    auto* const of_fresh = reinterpret_cast<char*>(fresh.begin());
    const std::string error = error_of_streams(
        {write(fresh.begin(), copies.begin(), 1u), write(bytes.begin(), of_fresh + from, 1u)});
    EXPECT_EQ(contains(error, "are of two launches that may overlap"), from == 15) << error;
    EXPECT_TRUE(from == 15 || error.empty()) << error;
  }
}

/// The block that is the last adds up what all have, and leaves the state as it found it.
__global__ void add_up(const float* in, float* parts, unsigned* state, float* out) {
  __shared__ bool is_last;
  __shared__ float sum;
  const unsigned t = threadIdx.x;
  if (t == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[blockIdx.x * blockDim.x + t]);
  __syncthreads();
  if (t == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(state, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last || t > 0) return;
  float total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) total += parts[i];
  *out = total;
  *state = 0;
}

struct Sum {
  unsigned blocks;
  Array<float> in, parts, out;
  Array<unsigned> state;

  explicit Sum(unsigned n) : blocks(n), in(n * 64), parts(n), out(1), state(1) {
    std::fill(in.begin(), in.end(), 1.0f);
  }
  std::function<void()> work(unsigned* with_state, int times = 1) {
    return [=, this] {
      for (int i = 0; i < times; ++i) {
        launch(add_up, blocks, 64, 0, nullptr, in, parts, with_state, out);
      }
    };
  }
};

TEST(OverlapOfSeeds, TheLastBlockIsTheLastOfItsLaunch) {
  Sum a(7), b(12);
  for (unsigned seed = 0; seed < 20; ++seed) {
    ladder::host::set_lane_order(seed);
    a.out[0] = b.out[0] = 0;
    EXPECT_EQ(error_of_streams({a.work(a.state, 3), b.work(b.state, 2)}), "") << seed;
    EXPECT_EQ(a.out[0], 7 * 64.0f) << seed;
    EXPECT_EQ(b.out[0], 12 * 64.0f) << seed;
    const std::string error = error_of_streams({a.work(a.state), b.work(a.state)});
    EXPECT_TRUE(contains(error, "are of two launches that may overlap")) << seed;
    EXPECT_TRUE(contains(error, "host_overlap_test.cpp:")) << seed;
    a.state[0] = 0;
  }
  ladder::host::set_lane_order(0);
}

TEST_P(Overlap, LaunchesBeforeAndBehindShareWithAll) {
  Array<unsigned> counter(1);
  const auto count = [&] { launch(count_blocks, 4, 32, 0, nullptr, counter); };
  Exchange other(0, 4, 32, 1);
  count();
  run_together(Streams{[&] { other.run(); }, count});
  count();
  run_together(Streams{count, [&] { other.run(); }});
  EXPECT_EQ(counter[0], 16u);
}

// --- Blocks that wait ----------------------------------------------------------------------------

/// Blocks that wait for each other, all of the grid, as a cooperative launch's do.
__global__ void meet_all(int number, unsigned* arrived, unsigned* in, unsigned* out) {
  __shared__ unsigned fixed[1024];
  note(number, false);
  const unsigned t = threadIdx.x, n = gridDim.x * blockDim.x, own = blockIdx.x * blockDim.x + t;
  fixed[t] = in[own] = own;
  for (unsigned round = 1; round <= 2; ++round) {
    __threadfence();
    __syncthreads();
    if (t == 0) {
      atomicAdd(arrived, 1u);
      while (*static_cast<volatile unsigned*>(arrived) < round * gridDim.x) continue;
    }
    __syncthreads();
    __threadfence();
    out[own] += fixed[t] + in[(own + round * blockDim.x) % n];
  }
  note(number, true);
}

struct Meeting {
  int number;
  unsigned blocks, threads;
  Array<unsigned> arrived, in, out;

  Meeting(int which, unsigned n, unsigned of_block)
      : number(which),
        blocks(n),
        threads(of_block),
        arrived(1),
        in(n * of_block),
        out(n * of_block) {}
  std::function<void()> work() {
    return [this] { launch(meet_all, blocks, threads, 0, nullptr, number, arrived, in, out); };
  }
  void expect_right() {
    const unsigned n = blocks * threads;
    for (unsigned i = 0; i < n; i += 37) {
      ASSERT_EQ(out[i], 2 * i + (i + threads) % n + (i + 2 * threads) % n) << i;
    }
  }
};

TEST_P(Overlap, BlocksOfSeveralLaunchesWaitAtOnce) {
  Meeting a(0, 2, 1024), b(1, 7, 128);
  const auto seen = notes_of({a.work(), b.work()});
  a.expect_right();
  b.expect_right();
  EXPECT_EQ(most_at_once(seen, 0), 2);
  EXPECT_EQ(most_at_once(seen, 1), 7);
  EXPECT_LT(std::ranges::find(seen, Note{1, 0, false}), std::ranges::find(seen, Note{0, 0, true}));
}

TEST_P(Overlap, ALaunchThatNeedsAllSmsWaitsInVain) {
  Meeting alone(0, 4, 1024);
  run_together(Streams{alone.work()});
  alone.expect_right();
  Meeting a(0, 4, 1024), b(1, 4, 1024);
  const std::string error = error_of_streams({a.work(), b.work()});
  const std::string
      waits = "deadlock: 1 thread waits at a loop around host_overlap_test.cpp:",
      fills = "others begin when one of these has ended: 2 blocks fill the launch's part of 2 SMs";
  EXPECT_TRUE(error.starts_with("stream 0: block (")) << error;
  EXPECT_TRUE(contains(error, waits) && contains(error, fills));
  const std::size_t second = error.find("; stream 1: block (");
  ASSERT_NE(second, std::string::npos) << error;
  EXPECT_TRUE(contains(error.substr(second), waits) && contains(error.substr(second), fills));
}

/// It waits for what never comes.
__global__ void wait_in_vain(const unsigned* flag) {
  while (threadIdx.x == 0 && *static_cast<const volatile unsigned*>(flag) == 0) continue;
  __syncthreads();
}

TEST_P(Overlap, ADeadlockEndsWhenTheOthersHaveEnded) {
  Array<unsigned> flag(1);
  Exchange other(0, 20, 64, 20);
  const std::string error = error_of_streams(
      {[&] { other.run(); }, [&] { launch(wait_in_vain, 2, 64, 0, nullptr, flag); }});
  EXPECT_TRUE(error.starts_with("stream 1: block (")) << error;
  EXPECT_TRUE(contains(error, "deadlock: 1 thread waits at a loop around"));
  EXPECT_TRUE(contains(error, "and 1 other blocks wait"));
  EXPECT_FALSE(contains(error, "stream 0"));
  other.expect_right();
}

/// Thread 32 waits for one that waits for it.
__global__ void meet_in_vain(bool never) {
  if (never && threadIdx.x == 32) __syncwarp(3u);
  __syncthreads();
}

TEST_P(Overlap, ADeadlockOfABlockNamesItsStream) {
  Exchange other(0, 4, 64, 20);
  const std::string error = error_of_streams(
      {[&] { other.run(); }, [&] { launch(meet_in_vain, 3, 64, 0, nullptr, true); }});
  EXPECT_TRUE(error.starts_with("stream 1: block (")) << error;
  EXPECT_TRUE(contains(error, "deadlock: "));
  EXPECT_TRUE(contains(error, "1 thread waits at __syncwarp with mask 0x00000003"));
}

// --- Several devices -----------------------------------------------------------------------------

enum class Flag { is_waited_for, is_not, is_raised_early };

/// Leaves a number for the launch on another device, and takes what that leaves.
template <Flag flag>
__global__ void swap_numbers(const unsigned* x, unsigned* to, unsigned* raised,
                             const unsigned* from, unsigned* awaited, unsigned* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (flag == Flag::is_raised_early && threadIdx.x == 0) {
    store_release<Scope::system>(&raised[blockIdx.x], 1u);
  }
  to[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0 && flag != Flag::is_raised_early) {
    store_release<Scope::system>(&raised[blockIdx.x], 1u);
  }
  if (threadIdx.x == 0 && flag != Flag::is_not) {
    while (load_acquire<Scope::system>(&awaited[blockIdx.x]) == 0) continue;
  }
  __syncthreads();
  y[i] = from[i];
}

template <Flag flag>
std::string error_of_swap() {
  constexpr unsigned kBlocks = 5, kThreads = 64, kSize = kBlocks * kThreads;
  Array<unsigned> x(2 * kSize), between(2 * kSize), flags(2 * kBlocks), y(2 * kSize);
  std::iota(x.begin(), x.end(), 0u);
  const auto on = [&](unsigned device) {
    return [&, device] {
      const unsigned other = 1 - device;
      launch(swap_numbers<flag>, kBlocks, kThreads, 0, nullptr, x + device * kSize,
             between + other * kSize, flags + other * kBlocks, between + device * kSize,
             flags + device * kBlocks, y + device * kSize);
    };
  };
  const std::string error = error_of([&] { ladder::host::run_on_devices(Streams{on(0), on(1)}); });
  if (error.empty()) {
    for (unsigned i = 0; i < kSize; ++i) EXPECT_EQ(y[i], kSize + i);
    for (unsigned i = 0; i < kSize; ++i) EXPECT_EQ(y[kSize + i], i);
  }
  return error;
}

TEST_P(Overlap, LaunchesOnSeveralDevicesMeetByFlags) {
  EXPECT_EQ(error_of_swap<Flag::is_waited_for>(), "");
  for (const std::string& error :
       {error_of_swap<Flag::is_not>(), error_of_swap<Flag::is_raised_early>()}) {
    EXPECT_TRUE(contains(error, "race in global memory: the ")) << error;
    EXPECT_TRUE(contains(error, " of stream ")) << error;
    EXPECT_TRUE(contains(error, "or a release and an acquire")) << error;
  }
  EXPECT_EQ(error_of_swap<Flag::is_waited_for>(), "") << "afterwards";
}

TEST_P(Overlap, LaunchesOnADeviceAreInOrder) {
  constexpr unsigned kSize = 5 * 32;
  Array<unsigned> a(kSize), b(kSize), c(kSize), d(kSize);
  const auto there_and_back = [](unsigned* in, unsigned* out) {
    return [=] {
      launch(add_to_each, 5, 32, 0, nullptr, 0, in, out, 1u);
      launch(add_to_each, 5, 32, 0, nullptr, 0, out, in, 10u);
    };
  };
  const Streams apart{there_and_back(a, b), there_and_back(c, d)};
  EXPECT_EQ(error_of([&] { ladder::host::run_on_devices(apart); }), "");
  EXPECT_EQ(a[3], 11u);
  const Streams same{there_and_back(a, b), there_and_back(a, d)};
  EXPECT_TRUE(contains(error_of([&] { ladder::host::run_on_devices(same); }), "race in global"));
  note_count = 0;
}

// --- Errors --------------------------------------------------------------------------------------

__global__ void store_at(unsigned* out, unsigned n) {
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x + n] = 1;
}
constexpr int kStores = __LINE__ - 2;

TEST_P(Overlap, AFaultEndsAllStreams) {
  Array<unsigned> out(3 * 64), other(1), more(64);
  int ends = 0;
  struct Counted {
    int& count;
    ~Counted() { ++count; }
  };
  const std::string error = error_of_streams({
      [&] {
        const Counted counted{ends};
        for (int i = 0; i < 1000; ++i) launch(count_blocks, 4, 64, 0, nullptr, other);
        FAIL() << "it went on";
      },
      [&] {
        const Counted counted{ends};
        launch(store_at, 3, 64, 0, nullptr, out, 0u);
        launch(store_at, 3, 64, 0, nullptr, out, 64u);
        FAIL() << "it went on";
      },
      [&] {
        const Counted counted{ends};
        launch(store_at, 1, 64, 0, nullptr, more, 0u);
      },
  });
  EXPECT_TRUE(error.starts_with("stream 1: block (2,0,0) thread (")) << error;
  EXPECT_TRUE(contains(error, "the store of 4 bytes" + at(kStores) + "is out of bounds: "));
  EXPECT_EQ(ends, 3);
  Exchange a(0, 5, 64, 2), b(1, 5, 64, 2);
  EXPECT_EQ(error_of_streams({[&] { a.run(); }, [&] { b.run(); }}), "") << "after an error";
  a.expect_right();
  b.expect_right();
  a.run();
  a.expect_right();
}

TEST_P(Overlap, HostCodeMayFail) {
  Exchange other(0, 5, 64, 2);
  const auto run = [&] { other.run(); };
  EXPECT_EQ(error_of_streams({run, [] { throw std::runtime_error("no plan"); }}),
            "stream 1: no plan");
  EXPECT_TRUE(
      contains(error_of_streams({[] { launch(meet_in_vain, 1, 2000, 0, nullptr, false); }, run}),
               "stream 0: a block has 1 to 1024 threads"));
  EXPECT_THROW(run_together(Streams{run, [] { throw std::bad_alloc(); }}), std::bad_alloc);
  EXPECT_EQ(error_of_streams({[&] {
              run();
              EXPECT_EQ(error_of([] { launch(meet_in_vain, 1, 0, 0, nullptr, false); }),
                        "a block has 1 to 1024 threads, not (0,1,1)");
              run();
            }}),
            "");
  EXPECT_TRUE(contains(error_of_streams({[&] { run_together(Streams{run}); }}),
                       "stream 0: streams are running together already"));
  run();
  other.expect_right();
}

// --- Clusters ------------------------------------------------------------------------------------

#if defined(__x86_64__) && !defined(__clang__)

constexpr unsigned kThreads = 64;

/// Each block of a cluster copies numbers, of which the next one loads some and the one before gets
/// some stored.
template <unsigned kBlocks>
__global__ void __launch_bounds__(kThreads) __cluster_dims__(kBlocks)
    pass_on(int number, const float4* in, float4* out, int rounds) {
  __shared__ __align__(16) float4 values[kThreads];
  __shared__ __align__(16) float4 copied[kThreads];
  __shared__ Mbarrier landed;
  float4* const pushed = ladder::dynamic_shared<float4>();
  auto* const told = reinterpret_cast<Mbarrier*>(pushed + kThreads);
  note(number, false);
  const unsigned t = threadIdx.x, next = (cluster_rank() + 1) % kBlocks;
  const unsigned own = blockIdx.x * kThreads + t;
  if (t == 0) {
    mbarrier_init(&landed, 1);
    mbarrier_init(told, 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  for (int round = 0; round < rounds; ++round) {
    if (t == 0) {
      fence_proxy_async();
      mbarrier_arrive_expect_tx(&landed, sizeof copied);
      bulk_load(copied, in + blockIdx.x * kThreads, sizeof copied, &landed);
    }
    mbarrier_wait(&landed, round % 2);
    values[t] = make_float4(copied[t].x + static_cast<float>(round), 0, 0, 0);
    cluster_sync();
    out[own].x += cluster_load(cluster_address(&values[(t + 1) % kThreads], next)).x;
    if (t == 0) mbarrier_arrive_expect_tx(told, sizeof copied);
    cluster_store_async(cluster_address(&pushed[t], next), values[t], cluster_address(told, next));
    mbarrier_wait_cluster(told, round % 2);
    out[own].y += pushed[t].x;
    cluster_sync();
  }
  note(number, true);
}

template <unsigned kBlocks>
struct Cluster {
  static constexpr std::size_t kShared = kThreads * sizeof(float4) + sizeof(Mbarrier);
  int number;
  unsigned clusters;
  int rounds;
  Array<float4> in, out;

  Cluster(int which, unsigned n, int times)
      : number(which),
        clusters(n),
        rounds(times),
        in(n * kBlocks * kThreads),
        out(n * kBlocks * kThreads) {
    for (std::size_t i = 0; i < in.size(); ++i) in[i].x = static_cast<float>(i);
  }
  std::function<void()> work() {
    return [this] {
      launch(pass_on<kBlocks>, clusters * kBlocks, kThreads, kShared, nullptr, number, in, out,
             rounds);
    };
  }
  void expect_right() {
    for (unsigned i = 0; i < out.size(); ++i) {
      const unsigned block = i / kThreads, first = block / kBlocks * kBlocks;
      const auto expected = [&](unsigned distance, unsigned t) {
        const unsigned from = first + (block - first + distance) % kBlocks;
        const auto n = static_cast<float>(rounds);
        return n * in[from * kThreads + t % kThreads].x + n * (n - 1) / 2;
      };
      ASSERT_EQ(out[i].x, expected(1, i + 1)) << i;
      ASSERT_EQ(out[i].y, expected(kBlocks - 1, i)) << i;
      out[i] = {};
    }
  }
};

TEST_P(Overlap, AClusterBesideBlocks) {
  Cluster<4> cluster(0, 3, 5);
  Exchange blocks(1, 9, 96, 5);
  const auto seen = notes_of({cluster.work(), [&] { blocks.run(); }});
  cluster.expect_right();
  blocks.expect_right();
  EXPECT_EQ(most_at_once(seen, 0), 4) << "a cluster at a time";
  EXPECT_GT(most_at_once(seen), 4);
}

TEST_P(Overlap, ClustersOfSeveralLaunches) {
  Cluster<4> a(0, 3, 5);
  Cluster<8> b(1, 2, 6);
  Cluster<2> c(2, 4, 3);
  Meeting d(3, 3, 128);
  const auto seen = notes_of({a.work(),
                              [&] {
                                b.work()();
                                c.work()();
                              },
                              d.work()});
  a.expect_right();
  b.expect_right();
  c.expect_right();
  d.expect_right();
  // A cluster goes on after another has begun, and the other way round, if something is late.
  EXPECT_GE(most_at_once(seen), GetParam() % 2 == 0 ? 4 + 8 : 8);
  const Streams twice{a.work(), c.work()};
  run_together(twice);
  a.expect_right();
  c.expect_right();
  a.work()();
  a.expect_right();
}

TEST_P(Overlap, ClustersThatShareAreNamed) {
  Cluster<4> a(0, 3, 5), b(1, 3, 5);
  const auto into = [](Cluster<4>& cluster, float4* out) {
    return [&cluster, out] {
      launch(pass_on<4>, 12, kThreads, cluster.kShared, nullptr, cluster.number, cluster.in, out,
             2);
    };
  };
  EXPECT_TRUE(contains(error_of_streams({into(a, a.out), into(b, a.out)}),
                       "are of two launches that may overlap"));
  EXPECT_TRUE(contains(error_of_streams({into(a, a.out), into(b, a.in)}),
                       "are of two launches that may overlap"));
  EXPECT_EQ(error_of_streams({into(a, a.out), into(b, b.out)}), "");
}

/// The last cluster adds up what the blocks of all have.
__global__ void __launch_bounds__(kThreads) __cluster_dims__(2)
    add_up_clusters(float* parts, unsigned* state, float* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) parts[blockIdx.x] = static_cast<float>(blockIdx.x);
  __threadfence();
  cluster_sync();
  if (cluster_rank() == 0 && threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(state, 1u) == gridDim.x / 2 - 1;
    __threadfence();
    float total = 0;
    for (unsigned i = 0; is_last && i < gridDim.x; ++i) total += parts[i];
    if (is_last) {
      *out = total;
      *state = 0;
    }
  }
  cluster_sync();
}

TEST_P(Overlap, TheLastClusterIsTheLastOfItsLaunch) {
  Array<float> parts(20), more(20), out(2);
  Array<unsigned> state(2);
  const auto work = [&](float* to_add, int number) {
    return [=, &state, &out] {
      for (int i = 0; i < 2; ++i) {
        launch(add_up_clusters, 20, kThreads, 0, nullptr, to_add, state + number, out + number);
      }
    };
  };
  EXPECT_EQ(error_of(work(parts, 0)), "");
  Exchange other(0, 9, 64, 3);
  EXPECT_EQ(error_of_streams({work(parts, 0), [&] { other.run(); }, work(more, 1)}), "");
  EXPECT_EQ(out[0], 190.0f);
  EXPECT_EQ(out[1], 190.0f);
  EXPECT_TRUE(contains(error_of_streams({work(parts, 0), work(more, 0)}),
                       "are of two launches that may overlap"));
}

template <bool kLate>
__global__ void __cluster_dims__(2) wait_at_cluster() {
  if (cluster_rank() == 0 || !kLate) cluster_sync();
  if (cluster_rank() == 1 && kLate && threadIdx.x == 0) {
    __shared__ Mbarrier never;
    mbarrier_init(&never, 1);
    mbarrier_wait(&never, 0);
  }
}

TEST_P(Overlap, ADeadlockOfAClusterNamesItsStream) {
  Cluster<8> other(0, 2, 3);
  const auto wait = [](auto kernel) { return [=] { launch(kernel, 4, kThreads, 0, nullptr); }; };
  EXPECT_EQ(error_of_streams({other.work(), wait(wait_at_cluster<false>)}), "");
  const std::string error = error_of_streams({other.work(), wait(wait_at_cluster<true>)});
  EXPECT_TRUE(error.starts_with("stream 1: block (")) << error;
  EXPECT_TRUE(contains(error, "deadlock: rank 0: 64 threads wait at cluster_sync"));
}

#endif

// --- Products ------------------------------------------------------------------------------------

template <bool kTouches>
__global__ void __launch_bounds__(128) multiply(float* out) {
  half* const shared = ladder::dynamic_shared<half>();
  half* const a = shared + (-shared_address(shared) & 1023) / sizeof(half);
  for (unsigned i = threadIdx.x; i < 2 * 64 * 64; i += 128) a[i] = half(1.0f);
  fence_proxy_async();
  __syncthreads();
  float sum[32] = {};
  wgmma_fence();
  wgmma<64, Major::k, Major::k, half>(sum, wgmma_descriptor<Major::k>(a),
                                      wgmma_descriptor<Major::k>(a + 64 * 64), true);
  wgmma_commit_group();
  for (int i = 0; i < 8; ++i) __syncthreads();  // others have turns
  if (kTouches) out[threadIdx.x] = sum[31];
  wgmma_wait_group<0>(sum);
  out[threadIdx.x] = sum[31];
}

TEST(OverlapOfSeeds, ProductsBesideBlocks) {
  Array<float> out(128);
  Exchange other(0, 30, 32, 3);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ladder::host::set_lane_order(seed);
    const auto error = [&](auto kernel) {
      constexpr std::size_t kShared = 1024 + 2 * 64 * 64 * sizeof(half);
      return error_of_streams(
          {[&] { other.run(); }, [&] { launch(kernel, 1, 128, kShared, nullptr, out); }});
    };
    EXPECT_EQ(error(multiply<false>), "") << seed;
    EXPECT_EQ(out[127], 16.0f) << seed;
    EXPECT_TRUE(
        contains(error(multiply<true>), "a register of D is touched while a product has it"))
        << seed;
  }
  ladder::host::set_lane_order(0);
}

}  // namespace

#else

namespace {

using namespace ladder::test;

__global__ void count(unsigned* counter) { atomicAdd(counter, 1u); }

TEST(Overlap, StreamsRunOneAfterAnother) {
  Array<unsigned> counter(1);
  const auto launch = [&](unsigned threads) {
    return [&, threads] { ladder::launch(count, 3, threads, 0, nullptr, counter); };
  };
  ladder::host::run_together(std::vector<std::function<void()>>{launch(32), launch(64)});
  EXPECT_EQ(counter[0], 3u * (32 + 64));
  EXPECT_TRUE(contains(error_of([&] {
                         const std::vector<std::function<void()>> work{launch(32), launch(0)};
                         ladder::host::run_together(work);
                       }),
                       "stream 1: a block has 1 to 1024 threads"));
}

}  // namespace

#endif
