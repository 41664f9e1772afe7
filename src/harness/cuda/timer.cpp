#include "harness/cuda/timer.hpp"

#include "device/current_device.hpp"
#include "harness/cuda/error.hpp"
#include "harness/cuda/event.hpp"
#include "harness/launch.hpp"
#include "harness/registry.hpp"
#include "harness/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

namespace ladder {
namespace {

constexpr int kUntimedLaunches = 2;
constexpr int kMostLaunches = 4;     // of a cold sample, which is their mean,
constexpr double kSampleUs = 1000;   // and of as many as fit into a millisecond, or of one
constexpr double kFlushUs = 80;      // about
constexpr double kBatchUs = 20'000;  // of rounds that are enqueued at once

/// Many launches of one kernel, replayed by the GPU without the CPU in between.
class Graph {
 public:
  Graph(const Contestant& contestant, int launches, cudaStream_t stream) : launches_(launches) {
    cudaGraph_t graph = nullptr;
    LADDER_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      for (int i = 0; i < launches; ++i)
        launch_version(*contestant.kernel, contestant.call, stream);
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      throw;
    }
    LADDER_CUDA(cudaStreamEndCapture(stream, &graph));
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    LADDER_CUDA(made);
  }
  ~Graph() { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int launches() const { return launches_; }
  void launch(cudaStream_t stream) const { LADDER_CUDA(cudaGraphLaunch(graph_, stream)); }

 private:
  int launches_;
  cudaGraphExec_t graph_ = nullptr;
};

/// Whether a part of the L2 can be reserved for lines that stay: from compute capability 8.0 on.
/// Below, the limit that says how much cannot be asked for either.
bool l2_can_be_reserved() {
  int most = 0;
  LADDER_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, current_device()));
  return most > 0;
}

/// Keeps a stream from going on until it is released, but no longer than kMost.
class Hold {
 public:
  explicit Hold(cudaStream_t stream) : stream_(stream) {
    LADDER_CUDA(cudaLaunchHostFunc(stream, &wait, this));
  }
  ~Hold() {
    release();
    cudaStreamSynchronize(stream_);  // wait() is through
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_one();
  }
  bool has_ended_by_itself() const { return ended_; }

 private:
  static constexpr std::chrono::seconds kMost{2};

  static void wait(void* data) {
    auto& self = *static_cast<Hold*>(data);
    std::unique_lock lock(self.mutex_);
    self.ended_ = !self.changed_.wait_for(lock, kMost, [&] { return self.released_; });
  }

  cudaStream_t stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  std::atomic<bool> ended_ = false;
};

/// What stands before and behind each launch of a sample, or each graph of launches.
struct Events {
  Event start, stop;
  double us() const { return stop.us_since(start); }
};

/// A contestant in the rounds of a measurement.
struct Runner {
  Contestant contestant;
  Samples samples{};
  std::unique_ptr<Graph> graph{};  ///< of many launches; none with a cold cache
  double launch_us = 0;            ///< about
  int launches = 1;                ///< of a sample with a cold cache
  bool is_again = false;           ///< one before is the same

  bool runs() const { return samples.error.empty(); }
  bool is(const Runner& other) const {
    return contestant.kernel == other.contestant.kernel &&
           contestant.call.args == other.contestant.call.args;
  }
  /// Makes the data of its next launch, or graph of launches, that of a round; `later` ones of its sample
  /// are still to come. All in the round have the same, but for one that has had it.
  std::uint64_t vary(std::uint64_t round, int later) const {
    const std::uint64_t number =
        2 * (kMostLaunches * round + static_cast<unsigned>(later)) + is_again;
    if (contestant.variation) contestant.variation->vary(number);
    return number;
  }
  double sample_us() const { return (graph ? graph->launches() : launches) * launch_us; }
  void launch(cudaStream_t stream) const {
    if (graph) return graph->launch(stream);
    launch_version(*contestant.kernel, contestant.call, stream);
    if (!l2_can_be_reserved()) return;
    std::size_t reserved = 0;
    LADDER_CUDA(cudaDeviceGetLimit(&reserved, cudaLimitPersistingL2CacheSize));
    if (reserved == 0) return;
    LADDER_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0));
    throw std::runtime_error("its launch reserves a part of the L2, which is then never cold");
  }
};

/// One measurement.
class Rounds {
 public:
  Rounds(cudaStream_t stream, const Nvml& nvml, std::function<void(Ranks)> flush,
         std::mt19937& random)
      : stream_(stream), nvml_(nvml), flush_(std::move(flush)), random_(random) {}

  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                               const Sampling& sampling) {
    for (const Contestant& contestant : contestants) {
      Runner runner{.contestant = contestant};
      runner.is_again = std::ranges::any_of(runners_, [&](auto& one) { return one.is(runner); });
      prepare(runners_.emplace_back(std::move(runner)), cache);
      if (contestant.kept_as) least_kept_ = std::min(least_kept_, runners_.back().launches);
    }
    reference_ = std::find_if(runners_.begin(), runners_.end(), [](auto& r) { return r.runs(); });
    if (reference_ != runners_.end()) take_samples(sampling);
    std::vector<Samples> all;
    for (Runner& runner : runners_) {
      if (runner.runs() && runner.samples.settled && !runner.graph) time_burst(runner);
      all.push_back(std::move(runner.samples));
    }
    return all;
  }

 private:
  /// The first untimed launch loads the code, the second tells how long one takes.
  void prepare(Runner& runner, Cache cache) {
    try {
      for (int i = 0; i < kUntimedLaunches; ++i) {
        Events events;
        events.start.record(stream_);
        runner.launch(stream_);
        events.stop.record(stream_);
        LADDER_CUDA(cudaStreamSynchronize(stream_));
        runner.launch_us = events.us();
      }
      expect_all_on_its_stream(runner);
      if (cache == Cache::hot) {
        constexpr double kGraphUs = 1000;
        const int launches = std::clamp(static_cast<int>(kGraphUs / runner.launch_us), 1, 200);
        runner.graph = std::make_unique<Graph>(runner.contestant, launches, stream_);
        round_us_ += runner.sample_us();
      } else {
        runner.launches =
            std::clamp(static_cast<int>(kSampleUs / runner.launch_us), 1, kMostLaunches);
        round_us_ += runner.sample_us() + runner.launches * kFlushUs;
      }
    } catch (const std::exception& error) {
      cudaGetLastError();  // or the next launch would be blamed for it
      runner.samples.error = error.what();
    }
  }

  /// Throws if a launch does more than its stream is told of: something before its turn has come, or after
  /// it has ended. Not of one on several devices, each with a stream.
  void expect_all_on_its_stream(const Runner& runner) {
    using namespace std::chrono;
    const auto& [kernel, call, variation, kept_as] = runner.contestant;
    if (!variation || call.ranks.count > 1 || !kernel->version.capturable) return;
    variation->vary(0);
    LADDER_CUDA(cudaDeviceSynchronize());
    const std::uint64_t before = variation->checksum();
    {
      constexpr double kLeastUs = 500, kMostUs = 100'000;
      Hold hold(stream_);
      runner.launch(stream_);
      const double us = std::clamp(3 * runner.launch_us, kLeastUs, kMostUs);
      std::this_thread::sleep_for(duration<double, std::micro>(us));
      const bool same = variation->checksum() == before;
      if (hold.has_ended_by_itself()) {
        throw std::runtime_error("its launch waits for the stream that it is given");
      }
      if (!same) throw std::runtime_error("it works on another stream than it is given");
    }
    constexpr int kTries = 3;
    constexpr double kMostUs = 20, kMostShare = 0.05;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTries; ++i) {
      Event stop;
      runner.launch(stream_);
      stop.record(stream_);
      while (!stop.is_past()) {
      }
      const auto begin = steady_clock::now();
      LADDER_CUDA(cudaDeviceSynchronize());
      least = std::min(least, duration<double, std::micro>(steady_clock::now() - begin).count());
    }
    if (least > std::max(kMostUs, kMostShare * runner.launch_us)) {
      throw std::runtime_error(
          fmt::format("it goes on for {:.3g} us after its stream is through", least));
    }
  }

  void take_samples(const Sampling& sampling) {
    const std::vector<double>& reference = reference_->samples.us;
    double us = 0;
    for (std::size_t look = 0;;) {
      us += run();
      if (!settling_ && power_limits()) {
        settling_ = true;
        us = 0;
        settle();
        continue;
      }
      const std::size_t n = reference.size();
      if (n >= static_cast<std::size_t>(sampling.max_samples)) return;
      if (n < static_cast<std::size_t>(sampling.min_samples) || n < look) continue;
      if (known(sampling, us / 1e6)) return;
      look = n + n / 8;  // the GPU waits meanwhile
    }
  }

  /// Whether the ratios are, that are still waited for after so many seconds of rounds.
  bool known(const Sampling& sampling, double seconds) const {
    constexpr double kOthers = 1. / 15;
    if (seconds >= sampling.max_seconds) return true;
    const bool late = seconds >= kOthers * sampling.max_seconds;
    return std::all_of(runners_.begin(), runners_.end(), [&](const Runner& runner) {
      const bool again = runner.is(*reference_);
      if (!runner.runs() || &runner == &*reference_ || (late && !again)) return true;
      const Estimate ratio = paired_ratio(reference_->samples.us, runner.samples.us);
      return std::log(ratio.high / ratio.low) / 2 <= sampling.target;
    });
  }

  /// Some rounds, enqueued at once, so that the GPU never waits for the CPU inside a sample. Returns
  /// the microseconds that they took.
  double run() {
    const int rounds = std::clamp(static_cast<int>(kBatchUs / std::max(round_us_, 1.0)), 1, 64);
    struct Sample {
      Runner* runner;
      std::size_t first, last;  // of its events
    };
    std::vector<Sample> samples;
    std::vector<Runner*> order;
    std::size_t events = 0;
    for (Runner& runner : runners_) {
      if (!runner.runs()) continue;
      order.push_back(&runner);
      events += static_cast<std::size_t>(rounds * runner.launches);
    }
    while (events_.size() < events) events_.emplace_back();

    if (l2_can_be_reserved()) LADDER_CUDA(cudaCtxResetPersistingL2Cache());
    lead();
    events = 0;
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (Runner* runner : order) {
        const std::size_t first = events;
        for (int later = runner->launches - 1; later >= 0; --later, ++events) {
          const std::uint64_t number = runner->vary(round_, later);
          if (!runner->graph) flush_(runner->contestant.call.ranks);
          events_[events].start.record(stream_);
          runner->launch(stream_);
          events_[events].stop.record(stream_);
          keep_some(*runner, later, number);
        }
        samples.push_back({runner, first, events - 1});
        if (settling_) keep_clock_after(*runner);
      }
      draws_ = nullptr;
      kept_.reset();
      ++round_;
    }
    recorded_launches().clear();

    // What the driver says is said of the sample that runs, and of those behind it until it says
    // more.
    std::vector<GpuState> states(samples.size());
    for (std::size_t running = 0; running < samples.size();) {
      std::fill(states.begin() + static_cast<std::ptrdiff_t>(running), states.end(), nvml_.read());
      while (running < samples.size() && events_[samples[running].last].stop.is_past()) ++running;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    LADDER_CUDA(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto& [runner, first, last] = samples[i];
      double us = 0;
      for (std::size_t e = first; e <= last; ++e) us += events_[e].us();
      const int launches = runner->graph ? runner->graph->launches() : runner->launches;
      runner->samples.us.push_back(us / launches);
      runner->samples.states.push_back(states[i]);
    }
    return events_[events - 1].stop.us_since(events_[0].start);
  }

  /// Keeps what a launch of each contestant writes, on the same inputs of a round. Whether it is that
  /// round is drawn once a launch is enqueued, about as likely of each; later draws take its place.
  void keep_some(const Runner& runner, int later, std::uint64_t number) {
    const auto& [kernel, call, variation, kept_as] = runner.contestant;
    if (!kept_as || later >= least_kept_) return;
    if (!draws_) draws_ = &runner;
    if (draws_ == &runner && !kept_ && random_() % ++candidates_ == 0) kept_ = later;
    if (kept_ == later) variation->keep(*kept_as, number);
  }

  /// At the power limit a slow contestant, which draws little, would leave the next ones a higher
  /// clock than theirs: the reference runs behind it, for twice as long.
  void keep_clock_after(const Runner& runner) {
    constexpr double kSlow = 2, kTimesAsLong = 2;
    const Runner& reference = *reference_;
    if (runner.sample_us() < kSlow * reference.sample_us()) return;
    const double launch_us = reference.sample_us() / reference.launches;
    for (double us = kTimesAsLong * runner.sample_us(); us > 0; us -= launch_us) {
      if (!reference.graph) flush_(reference.contestant.call.ranks);
      reference.launch(stream_);
    }
  }

  /// Keeps the GPU busy until the first sample is enqueued.
  void lead() {
    for (int i = 0; i < 4; ++i) flush_({});
  }

  bool power_limits() const {
    const std::vector<GpuState>& states = reference_->samples.states;
    const auto limited = std::count_if(states.begin(), states.end(),
                                       [](const GpuState& state) { return state.power_limited; });
    return 2 * static_cast<std::size_t>(limited) > states.size();
  }

  /// Rounds until the clock is the same in two windows of time, or for two seconds.
  void settle() {
    constexpr double kWindowUs = 0.3e6, kMostUs = 2e6, kSame = 0.01;
    double total_us = 0, before = 0;
    for (bool same = false; !same && total_us < kMostUs;) {
      forget();
      double us = 0;
      while (us < kWindowUs) us += run();
      total_us += us;
      std::vector<double> clocks;
      for (const GpuState& state : reference_->samples.states) clocks.push_back(state.sm_mhz);
      const double now = mean(clocks);
      same = std::abs(now - before) <= kSame * now;
      before = now;
    }
    const bool settled = power_limits();
    forget();
    for (Runner& runner : runners_) runner.samples.settled = settled;
  }

  void forget() {
    for (Runner& runner : runners_) {
      runner.samples.us.clear();
      runner.samples.states.clear();
    }
  }

  void time_burst(Runner& runner) {
    constexpr int kLaunches = 3;
    constexpr double kLeastPauseUs = 10'000, kMostPauseUs = 100'000;
    const double pause_us = std::clamp(9 * runner.launch_us, kLeastPauseUs, kMostPauseUs);
    std::vector<double> us;
    for (int i = 0; i < kLaunches; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(pause_us));
      Events events;
      lead();
      events.start.record(stream_);
      runner.launch(stream_);
      events.stop.record(stream_);
      LADDER_CUDA(cudaStreamSynchronize(stream_));
      us.push_back(events.us());
    }
    runner.samples.burst_us = median(us);
  }

  cudaStream_t stream_;
  const Nvml& nvml_;
  std::function<void(Ranks)> flush_;
  std::mt19937& random_;
  std::vector<Runner> runners_;
  std::vector<Runner>::iterator reference_;
  std::deque<Events> events_;
  double round_us_ = 0;    ///< about
  bool settling_ = false;  ///< the power limit has been met
  std::uint64_t round_ = 1;
  int least_kept_ = kMostLaunches;  ///< launches of a sample that all have whose results are kept
  const Runner* draws_ = nullptr;   ///< the one of a round that did first
  std::optional<int> kept_{};  ///< how many launches of a sample come after the one that is kept
  unsigned candidates_ = 0;    ///< so far
};

}  // namespace

Timer::Timer(cudaStream_t stream, L2Flush& l2, const Nvml& nvml)
    : stream_(stream), l2_(l2), nvml_(nvml) {
  if (l2_can_be_reserved()) LADDER_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0));
}

void Timer::warm_up() {
  using namespace std::chrono;
  if (std::exchange(warm_, true)) return;
  const auto start = steady_clock::now();
  double before = 0;
  while (true) {
    const auto slice = steady_clock::now();
    while (steady_clock::now() - slice < milliseconds(100)) {
      for (int i = 0; i < 50; ++i) l2_.write(stream_);
      LADDER_CUDA(cudaStreamSynchronize(stream_));
    }
    const double now = nvml_.read().sm_mhz;
    const bool settled = now == before && steady_clock::now() - start >= milliseconds(300);
    if (settled || steady_clock::now() - start >= seconds(2)) return;
    before = now;
  }
}

std::vector<Samples> Timer::measure(std::span<const Contestant> contestants, Cache cache,
                                    const Sampling& sampling) {
  warm_up();
  const auto flush = [&](Ranks ranks) {
    return cache == Cache::dirty ? l2_.write(stream_, ranks) : l2_.read(stream_, ranks);
  };
  return Rounds(stream_, nvml_, flush, random_).measure(contestants, cache, sampling);
}

}  // namespace ladder
