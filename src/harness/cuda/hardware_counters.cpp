#include "harness/cuda/hardware_counters.hpp"

#include "harness/cuda/error.hpp"

#include <fmt/format.h>

#if !defined(LADDER_CUPTI_LIBRARIES)

namespace ladder {

HardwareCounters::HardwareCounters(int, std::span<const HardwareCounter>) {
  throw NoHardwareCounters(
      "this build has no CUPTI, which reads a GPU's counters: install CUDA 12.6 or newer with "
      "CUPTI (Debian and Ubuntu: cuda-cupti-dev-12-6 or a later one's) and configure again");
}
HardwareCounters::~HardwareCounters() = default;
std::vector<std::optional<double>> HardwareCounters::count(const std::function<void()>&,
                                                           const std::function<void()>&) {
  return {};
}

}  // namespace ladder

#else

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <dlfcn.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace ladder {
namespace {

void* cupti_library() {
  for (const char* const name : {LADDER_CUPTI_LIBRARIES}) {
    if (void* const loaded = dlopen(name, RTLD_NOW)) return loaded;
  }
  throw NoHardwareCounters(
      fmt::format("CUPTI, which reads a GPU's counters, cannot be loaded ({}): install the CUPTI "
                  "of CUDA {}, or name its folder in LD_LIBRARY_PATH",
                  dlerror(), CUDART_VERSION / 1000));
}

void* cupti_function(const char* name) {
  static void* const library = cupti_library();
  void* const found = dlsym(library, name);
  if (!found) {
    throw NoHardwareCounters(
        fmt::format("this CUPTI has no {}: install one of CUDA 12.6 or newer, or of the toolkit "
                    "that this was built with",
                    name));
  }
  return found;
}

void expect_success(CUptiResult result, const char* function) {
  if (result == CUPTI_SUCCESS) return;
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) {
    throw NoHardwareCounters(
        "the driver lets only root read the GPU's counters: run this as root, or have root load "
        "the driver with the option NVreg_RestrictProfilingToAdminUsers=0");
  }
  const char* name = "an unknown error";
  reinterpret_cast<decltype(&cuptiGetResultString)>(cupti_function("cuptiGetResultString"))(result,
                                                                                            &name);
  throw NoHardwareCounters(fmt::format("the GPU's counters cannot be read: {} answers {} ({})",
                                       function, name, static_cast<int>(result)));
}

/// Parameters of a function of CUPTI's: all zero but their size.
#define LADDER_CUPTI_PARAMS(Type, variable) \
  Type##_Params variable{};                 \
  variable.structSize = Type##_Params_STRUCT_SIZE

#define LADDER_CUPTI(function, params)                                                        \
  expect_success(reinterpret_cast<decltype(&function)>(cupti_function(#function))(&(params)), \
                 #function)

CUcontext current_context() {
  LADDER_CUDA(cudaFree(nullptr));  // which makes it
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  LADDER_CUDA(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &function, 12000,
                                               cudaEnableDefault, &result));
#else
  LADDER_CUDA(cudaGetDriverEntryPoint("cuCtxGetCurrent", &function, cudaEnableDefault, &result));
#endif
  CUcontext context = nullptr;
  if (function) reinterpret_cast<decltype(&cuCtxGetCurrent)>(function)(&context);
  return context;
}

/// Which counters the GPU has here, in CUPTI's form.
std::vector<std::uint8_t> available_counters() {
  LADDER_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability, params);
  params.ctx = current_context();
  LADDER_CUPTI(cuptiProfilerGetCounterAvailability, params);
  std::vector<std::uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  LADDER_CUPTI(cuptiProfilerGetCounterAvailability, params);
  return image;
}

std::set<std::string> metrics_of(CUpti_Profiler_Host_Object* host) {
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_GetBaseMetrics, params);
  params.pHostObject = host;
  params.metricType = CUPTI_METRIC_TYPE_COUNTER;
  LADDER_CUPTI(cuptiProfilerHostGetBaseMetrics, params);
  return {params.ppMetricNames, params.ppMetricNames + params.numMetrics};
}

/// The range profiler of the current context, while it is enabled.
class RangeProfiler {
 public:
  RangeProfiler() {
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_Enable, params);
    params.ctx = current_context();
    LADDER_CUPTI(cuptiRangeProfilerEnable, params);
    object_ = params.pRangeProfilerObject;
  }
  ~RangeProfiler() {
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_Disable, params);
    params.pRangeProfilerObject = object_;
    reinterpret_cast<decltype(&cuptiRangeProfilerDisable)>(
        cupti_function("cuptiRangeProfilerDisable"))(&params);
  }
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  /// Makes room for the counters of one range.
  void configure(std::vector<const char*>& metrics, const std::vector<std::uint8_t>& config) {
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize, size);
    size.pRangeProfilerObject = object_;
    size.pMetricNames = metrics.data();
    size.numMetrics = metrics.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    LADDER_CUPTI(cuptiRangeProfilerGetCounterDataSize, size);
    data_.resize(size.counterDataSize);

    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize, image);
    image.pRangeProfilerObject = object_;
    image.counterDataSize = data_.size();
    image.pCounterData = data_.data();
    LADDER_CUPTI(cuptiRangeProfilerCounterDataImageInitialize, image);

    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig, set);
    set.pRangeProfilerObject = object_;
    set.configSize = config.size();
    set.pConfig = config.data();
    set.counterDataImageSize = data_.size();
    set.pCounterDataImage = data_.data();
    set.range = CUPTI_UserRange;  // all of a version's kernels, which may wait for each other
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = 1;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    set.targetNestingLevel = 1;
    LADDER_CUPTI(cuptiRangeProfilerSetConfig, set);
  }

  /// Returns whether it was the last pass.
  bool pass(const std::function<void()>& launch) {
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_Start, start);
    start.pRangeProfilerObject = object_;
    LADDER_CUPTI(cuptiRangeProfilerStart, start);
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange, push);
    push.pRangeProfilerObject = object_;
    push.pRangeName = "version";
    LADDER_CUPTI(cuptiRangeProfilerPushRange, push);
    launch();
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange, pop);
    pop.pRangeProfilerObject = object_;
    LADDER_CUPTI(cuptiRangeProfilerPopRange, pop);
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_Stop, stop);
    stop.pRangeProfilerObject = object_;
    LADDER_CUPTI(cuptiRangeProfilerStop, stop);
    return stop.isAllPassSubmitted != 0;
  }

  std::vector<std::uint8_t> data() && {
    LADDER_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData, params);
    params.pRangeProfilerObject = object_;
    LADDER_CUPTI(cuptiRangeProfilerDecodeData, params);
    if (params.numOfRangeDropped > 0) {
      throw NoHardwareCounters("CUPTI dropped the range of a launch; try it again");
    }
    return std::move(data_);
  }

 private:
  CUpti_RangeProfiler_Object* object_ = nullptr;
  std::vector<std::uint8_t> data_;
};

}  // namespace

HardwareCounters::HardwareCounters(int ordinal, std::span<const HardwareCounter> counters)
    : counters_(counters) {
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Initialize, initialize);
  LADDER_CUPTI(cuptiProfilerInitialize, initialize);
  LADDER_CUPTI_PARAMS(CUpti_Device_GetChipName, chip);
  chip.deviceIndex = static_cast<std::size_t>(ordinal);
  LADDER_CUPTI(cuptiDeviceGetChipName, chip);
  const std::vector<std::uint8_t> available = available_counters();
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize, host);
  host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  host.pChipName = chip.pChipName;
  host.pCounterAvailabilityImage = available.data();
  LADDER_CUPTI(cuptiProfilerHostInitialize, host);
  host_ = host.pHostObject;
  choose_metrics();
}

HardwareCounters::~HardwareCounters() {
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize, params);
  params.pHostObject = host_;
  reinterpret_cast<decltype(&cuptiProfilerHostDeinitialize)>(
      cupti_function("cuptiProfilerHostDeinitialize"))(&params);
}

void HardwareCounters::choose_metrics() {
  const std::set<std::string> known = metrics_of(host_);
  const auto is_known = [&](std::string metric) {
    return known.contains(metric.substr(0, metric.find('.')));
  };
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    for (const auto& summands : counters_[i].metrics) {
      if (!std::ranges::all_of(summands, is_known)) continue;
      metrics_.insert(metrics_.end(), summands.begin(), summands.end());
      counter_of_.insert(counter_of_.end(), summands.size(), i);
      break;
    }
  }
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics, add);
  add.pHostObject = host_;
  add.ppMetricNames = metrics_.data();
  add.numMetrics = metrics_.size();
  LADDER_CUPTI(cuptiProfilerHostConfigAddMetrics, add);
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize, size);
  size.pHostObject = host_;
  LADDER_CUPTI(cuptiProfilerHostGetConfigImageSize, size);
  config_.resize(size.configImageSize);
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage, image);
  image.pHostObject = host_;
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  LADDER_CUPTI(cuptiProfilerHostGetConfigImage, image);
}

std::vector<std::optional<double>> HardwareCounters::count(const std::function<void()>& prepare,
                                                           const std::function<void()>& launch) {
  RangeProfiler profiler;
  profiler.configure(metrics_, config_);
  do prepare();
  while (!profiler.pass(launch));
  const std::vector<std::uint8_t> data = std::move(profiler).data();

  std::vector<double> values(metrics_.size());
  LADDER_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues, evaluate);
  evaluate.pHostObject = host_;
  evaluate.pCounterDataImage = data.data();
  evaluate.counterDataImageSize = data.size();
  evaluate.rangeIndex = 0;
  evaluate.ppMetricNames = metrics_.data();
  evaluate.numMetrics = metrics_.size();
  evaluate.pMetricValues = values.data();
  LADDER_CUPTI(cuptiProfilerHostEvaluateToGpuValues, evaluate);
  std::vector<std::optional<double>> counts(counters_.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::optional<double>& sum = counts[counter_of_[i]];
    sum = sum.value_or(0) + values[i];
  }
  return counts;
}

}  // namespace ladder

#endif
