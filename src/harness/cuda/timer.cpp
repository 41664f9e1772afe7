#include "harness/cuda/timer.hpp"

#include "harness/cuda/error.hpp"
#include "harness/registry.hpp"
#include "harness/statistics.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

namespace ladder {
namespace {

constexpr int kColdLaunches = 2;  // of a sample, which is their mean

class Event {
 public:
  Event() { LADDER_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { LADDER_CUDA(cudaEventRecord(event_, stream)); }
  double us_since(const Event& start) const {
    float ms = 0;
    LADDER_CUDA(cudaEventElapsedTime(&ms, start.event_, event_));
    return 1e3 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Many launches of one kernel, replayed by the GPU without the CPU in between.
class Graph {
 public:
  Graph(const Contestant& contestant, int launches, cudaStream_t stream) : launches_(launches) {
    cudaGraph_t graph = nullptr;
    LADDER_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      for (int i = 0; i < launches; ++i) contestant.kernel->launch(contestant.args, stream);
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

/// What stands before and behind each launch of a sample, or each graph of launches.
struct Events {
  Event start, stop;
};

/// A contestant in the rounds of a measurement.
struct Runner {
  Contestant contestant;
  Samples samples{};
  double spent_s = 0;
  bool done = false;

  void launch(cudaStream_t stream) const { contestant.kernel->launch(contestant.args, stream); }
  void add(double us, double launches, const Sampling& sampling) {
    samples.us.push_back(us / launches);
    spent_s += us * 1e-6;
    const auto n = static_cast<int>(samples.us.size());
    constexpr int kFewest = 3;
    done = (n >= kFewest && spent_s >= sampling.max_seconds) || n >= sampling.max_samples ||
           (n >= sampling.min_samples && relative_standard_error(samples.us) <= sampling.target);
  }
};

}  // namespace

Timer::Timer(cudaStream_t stream, std::size_t l2_bytes, const Nvml& nvml)
    : stream_(stream), nvml_(nvml), flush_bytes_(2 * std::max<std::size_t>(l2_bytes, 1 << 20)) {
  LADDER_CUDA(cudaMalloc(&flush_buffer_, flush_bytes_));
}

Timer::~Timer() { cudaFree(flush_buffer_); }

void Timer::flush() { LADDER_CUDA(cudaMemsetAsync(flush_buffer_, 0, flush_bytes_, stream_)); }

void Timer::warm_up() {
  using namespace std::chrono;
  if (std::exchange(warm_, true)) return;
  const auto start = steady_clock::now();
  double before = 0;
  while (true) {
    const auto slice = steady_clock::now();
    while (steady_clock::now() - slice < milliseconds(100)) {
      for (int i = 0; i < 50; ++i) flush();
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
  std::vector<Runner> runners;
  for (const Contestant& contestant : contestants) runners.push_back({.contestant = contestant});

  // One untimed launch of each loads its code, tells how long it takes, and for the hot protocol
  // how many launches make a graph of about a millisecond.
  std::vector<std::unique_ptr<Graph>> graphs(runners.size());
  double round_us = 0;
  for (std::size_t i = 0; i < runners.size(); ++i) {
    Runner& c = runners[i];
    try {
      Event start, stop;
      start.record(stream_);
      c.launch(stream_);
      stop.record(stream_);
      LADDER_CUDA(cudaStreamSynchronize(stream_));
      double us = stop.us_since(start);
      if (cache == Cache::hot) {
        const int launches = std::clamp(static_cast<int>(1000 / us), 1, 200);
        graphs[i] = std::make_unique<Graph>(c.contestant, launches, stream_);
        us *= launches;
      }
      round_us += (us + 50) * (cache == Cache::cold ? kColdLaunches : 1);
    } catch (const std::exception& error) {
      cudaGetLastError();  // or the next launch would be blamed for it
      c.samples.error = error.what();
      c.done = true;
    }
  }

  // Rounds: each runner once per round, so that every ratio is of neighbours in time. The first
  // kernel stays to the end: it is what the others are compared with. Several rounds are enqueued
  // at once, so that the GPU never waits for the CPU inside a sample.
  const int batch = std::clamp(static_cast<int>(20'000 / std::max(round_us, 1.0)), 1, 64);
  const int of_sample = cache == Cache::cold ? kColdLaunches : 1;
  std::vector<Events> events(static_cast<std::size_t>(batch * of_sample) * runners.size());
  std::vector<double> clocks, watts, slowed;
  while (std::any_of(runners.begin(), runners.end(), [](auto& c) { return !c.done; })) {
    std::vector<Runner*> active;
    for (Runner& c : runners) {
      const bool reference = &c == &runners.front();
      if (c.samples.error.empty() && (!c.done || reference)) active.push_back(&c);
    }
    for (int i = 0; i < 4; ++i) flush();  // keeps the GPU busy until the first sample is enqueued
    auto event = events.begin();
    for (int round = 0; round < batch; ++round) {
      for (Runner* c : active) {
        const Graph* graph = graphs[static_cast<std::size_t>(c - runners.data())].get();
        for (int i = 0; i < of_sample; ++i, ++event) {
          if (!graph) flush();
          event->start.record(stream_);
          graph ? graph->launch(stream_) : c->launch(stream_);
          event->stop.record(stream_);
        }
      }
    }
    recorded_launches().clear();
    const GpuState state = nvml_.read();
    LADDER_CUDA(cudaStreamSynchronize(stream_));
    if (nvml_.available()) {
      clocks.push_back(state.sm_mhz);
      watts.push_back(state.power_w);
      slowed.push_back(state.slowed);
    }
    event = events.begin();
    for (int round = 0; round < batch; ++round) {
      for (Runner* c : active) {
        const Graph* graph = graphs[static_cast<std::size_t>(c - runners.data())].get();
        double us = 0;
        for (int i = 0; i < of_sample; ++i, ++event) us += event->stop.us_since(event->start);
        c->add(us, graph ? graph->launches() : of_sample, sampling);
      }
    }
  }

  std::vector<Samples> all;
  for (Runner& c : runners) {
    if (!clocks.empty()) {
      c.samples.sm_mhz = median(clocks);
      c.samples.power_w = median(watts);
      double sum = 0;
      for (double s : slowed) sum += s;
      c.samples.throttled = sum / static_cast<double>(slowed.size());
    }
    all.push_back(std::move(c.samples));
  }
  return all;
}

}  // namespace ladder
