// A GPU as a Device.
#include "device/current_device.hpp"
#include "harness/cuda/error.hpp"
#include "harness/cuda/hardware_counters.hpp"
#include "harness/cuda/memory.hpp"
#include "harness/cuda/nvml.hpp"
#include "harness/cuda/timer.hpp"
#include "harness/device.hpp"
#include "harness/dtype.hpp"
#include "harness/launch.hpp"
#include "harness/place.hpp"
#include "harness/registry.hpp"
#include "support/parallel.hpp"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace ladder {
namespace {

constexpr int kBlocks = 256, kThreads = 256;
constexpr std::size_t kPage = 2 << 20;  // of an array in own pages

template <class T>
__global__ void compare_kernel(const T* actual, const double* expected, const double* magnitude,
                               std::size_t n, Tolerance tolerance, Comparison* parts) {
  Comparison mine;
  const std::size_t first = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
  for (std::size_t i = first; i < n; i += std::size_t{kBlocks} * kThreads) {
    compare_element(mine, i, value_at(actual, i), expected[i], magnitude ? magnitude[i] : 0,
                    tolerance);
  }
  parts[first] = mine;
}

/// Into the first kThreads of the parts, so that few go to the CPU.
__global__ void merge_kernel(Comparison* parts) {
  Comparison mine = parts[threadIdx.x];
  for (int i = kThreads + static_cast<int>(threadIdx.x); i < kBlocks * kThreads; i += kThreads) {
    merge(mine, parts[i]);
  }
  parts[threadIdx.x] = mine;
}

__global__ void checksum_kernel(const unsigned char* data, std::size_t bytes,
                                unsigned long long* sum) {
  unsigned long long mine = 0;
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  const std::size_t n = bytes / 8;
  const std::size_t first = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
  for (std::size_t i = first; i < n; i += std::size_t{kBlocks} * kThreads) {
    mine += mixed(words[i] ^ mixed(i + 1));
  }
  if (first < bytes % 8) mine += mixed(data[8 * n + first] ^ mixed(n + 1 + first));
  atomicAdd(sum, mine);
}

__global__ void vary_kernel(const Place* places, std::uint64_t number) {
  vary_part(places[blockIdx.x], blockIdx.x, threadIdx.x, number);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int attribute(cudaDeviceAttr name, int ordinal) {
  int value = 0;
  LADDER_CUDA(cudaDeviceGetAttribute(&value, name, ordinal));
  return value;
}

/// fp32 FMA units of a multiprocessor (CUDA C++ Programming Guide, table of arithmetic throughput).
int fma_lanes(int compute_capability) {
  return compute_capability == 75 || compute_capability == 80 ? 64 : 128;
}

int device_count() {
  int count = 0;
  LADDER_CUDA(cudaGetDeviceCount(&count));
  return count;
}

/// Lets each of two GPUs reach the other's memory.
void connect(int a, int b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    int can = 0;
    LADDER_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
    if (!can) {
      throw std::runtime_error("GPU number " + std::to_string(from) +
                               " cannot reach the memory of number " + std::to_string(to));
    }
    const CurrentDevice current(from);
    const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled) LADDER_CUDA(error);
    cudaGetLastError();
  }
}

int choose(int ordinal) {
  int count = 0;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    throw std::runtime_error("no NVIDIA driver is installed");
  }
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  if (count == 0) throw std::runtime_error("no CUDA-capable device is detected");
  if (ordinal < 0 || ordinal >= count) {
    throw std::runtime_error("there is no GPU number " + std::to_string(ordinal) +
                             "; this machine's are numbered 0 to " + std::to_string(count - 1));
  }
  LADDER_CUDA(cudaSetDevice(ordinal));
  return ordinal;
}

std::string pci_bus_id(int ordinal) {
  std::array<char, 32> text{};
  LADDER_CUDA(cudaDeviceGetPCIBusId(text.data(), text.size(), ordinal));
  return text.data();
}

/// Pinned memory that goes to the GPU while its other half is filled.
struct Staging {
  static constexpr std::size_t kBytes = 64 << 20;
  struct Half {
    Half() {
      LADDER_CUDA(cudaMallocHost(&data, kBytes));
      LADDER_CUDA(cudaEventCreateWithFlags(&is_free, cudaEventDisableTiming));
    }
    ~Half() {
      cudaEventDestroy(is_free);
      cudaFreeHost(data);
    }
    Half(const Half&) = delete;
    Half& operator=(const Half&) = delete;

    char* data = nullptr;
    cudaEvent_t is_free = nullptr;
  };
  Half halves[2];
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, Placement placement)
      : ordinal_(choose(ordinal)), placement_(placement), nvml_(pci_bus_id(ordinal_)) {
    LADDER_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    LADDER_CUDA(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking));
    LADDER_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    cudaDeviceProp properties{};
    LADDER_CUDA(cudaGetDeviceProperties(&properties, ordinal_));
    info_.name = properties.name;
    info_.compute_capability = 10 * properties.major + properties.minor;
    info_.sm_count = properties.multiProcessorCount;
    info_.l2_bytes = static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, ordinal_));
    // Twice, because DRAM moves data on both edges of its clock; clocks are in kHz.
    info_.pin_gbps = 2e3 * attribute(cudaDevAttrMemoryClockRate, ordinal_) *
                     attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal_) / 8 / 1e9;
    info_.pin_gflops = 2e3 * attribute(cudaDevAttrClockRate, ordinal_) * info_.sm_count *
                       fma_lanes(info_.compute_capability) / 1e9;
    info_.count = device_count();
    int version = 0;
    LADDER_CUDA(cudaRuntimeGetVersion(&version));
    info_.toolkit = version_text(version);
    info_.driver = nvml_.driver_version();
    if (info_.driver.empty()) {
      LADDER_CUDA(cudaDriverGetVersion(&version));
      info_.driver = version_text(version);
    }
    parts_ = static_cast<Comparison*>(
        allocate_on_gpu(kBlocks * kThreads * sizeof(Comparison), "the comparison of results"));
  }

  ~CudaDevice() override {
    timer_.reset();
    staging_.reset();
    cudaFree(parts_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(beside_);
    cudaStreamDestroy(stream_);
  }

  Backend backend() const override { return Backend::cuda; }
  const DeviceInfo& info() const override { return info_; }
  Rank rank() override { return {.device = ordinal_, .stream = stream_, .event = event_}; }
  const std::vector<Kernel>& kernels() const override { return registered_kernels(); }

  std::size_t free_memory() const override {
    const CurrentDevice current(ordinal_);
    std::size_t free = 0, total = 0;
    LADDER_CUDA(cudaMemGetInfo(&free, &total));
    return free;
  }
  bool lost() override {
    if (std::any_of(peers().begin(), peers().end(), [](const auto& p) { return p->lost(); })) {
      return true;
    }
    // Errors of a call are its own; those of a fault come back from every call that follows.
    return cudaStreamSynchronize(stream_) != cudaSuccess;
  }
  void* allocate(std::size_t bytes) override {
    const CurrentDevice current(ordinal_);
    if (placement_ == Placement::own_pages) bytes = ceil_div(bytes, kPage) * kPage;
    return allocate_on_gpu(bytes, "an array on the GPU");
  }
  void release(void* pointer) noexcept override { cudaFree(pointer); }
  // By way of pinned memory, which all cores fill: the driver's own way there has one.
  void upload(void* to, const void* from, std::size_t bytes) override {
    const CurrentDevice current(ordinal_);
    if (!staging_) staging_.emplace();
    for (std::size_t done = 0, part = 0; done < bytes; part = 1 - part) {
      Staging::Half& half = staging_->halves[part];
      const std::size_t n = std::min(bytes - done, Staging::kBytes);
      LADDER_CUDA(cudaEventSynchronize(half.is_free));
      parallel_for(n, 1 << 20, [&](std::size_t begin, std::size_t end) {
        std::memcpy(half.data + begin, static_cast<const char*>(from) + done + begin, end - begin);
      });
      LADDER_CUDA(cudaMemcpyAsync(static_cast<char*>(to) + done, half.data, n,
                                  cudaMemcpyHostToDevice, stream_));
      LADDER_CUDA(cudaEventRecord(half.is_free, stream_));
      done += n;
    }
    wait();
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    LADDER_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    wait();
  }
  void fill(void* to, unsigned char byte, std::size_t bytes) override {
    const CurrentDevice current(ordinal_);
    LADDER_CUDA(cudaMemsetAsync(to, byte, bytes, stream_));
    wait();
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    enqueue_copy(to, from, bytes);
    wait();
  }
  void enqueue_copy(void* to, const void* from, std::size_t bytes) override {
    LADDER_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  }
  void wait() override { LADDER_CUDA(cudaStreamSynchronize(stream_)); }
  void enqueue_vary(const Place* places, std::size_t n, std::uint64_t number) override {
    const CurrentDevice current(ordinal_);
    vary_kernel<<<static_cast<unsigned>(n), Place::kParts, 0, stream_>>>(places, number);
    LADDER_CUDA(cudaGetLastError());
  }

  std::uint64_t checksum(const void* data, std::size_t bytes) override {
    const CurrentDevice current(ordinal_);
    auto* sum = reinterpret_cast<unsigned long long*>(parts_);
    LADDER_CUDA(cudaMemsetAsync(sum, 0, sizeof *sum, beside_));
    checksum_kernel<<<kBlocks, kThreads, 0, beside_>>>(static_cast<const unsigned char*>(data),
                                                       bytes, sum);
    LADDER_CUDA(cudaGetLastError());
    unsigned long long result = 0;
    LADDER_CUDA(cudaMemcpyAsync(&result, sum, sizeof result, cudaMemcpyDeviceToHost, beside_));
    LADDER_CUDA(cudaStreamSynchronize(beside_));
    return result;
  }

  Comparison compare(DType dtype, const void* actual, const double* expected,
                     const double* magnitude, std::size_t n, Tolerance tolerance) override {
    const CurrentDevice current(ordinal_);
    with_type(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      compare_kernel<<<kBlocks, kThreads, 0, stream_>>>(static_cast<const T*>(actual), expected,
                                                        magnitude, n, tolerance, parts_);
    });
    merge_kernel<<<1, kThreads, 0, stream_>>>(parts_);
    LADDER_CUDA(cudaGetLastError());
    std::vector<Comparison> parts(kThreads);
    download(parts.data(), parts_, kThreads * sizeof(Comparison));
    Comparison total;
    for (const Comparison& part : parts) merge(total, part);
    return total;
  }

  void run(const Kernel& kernel, const Call& call) override {
    recorded_launches().clear();
    try {
      launch_version(kernel, call, stream_);
    } catch (...) {
      cudaGetLastError();  // or the next launch would be blamed for it
      throw;
    }
    LADDER_CUDA(cudaGetLastError());
    wait();
    for (const Rank& rank : call.ranks) LADDER_CUDA(cudaStreamSynchronize(rank.stream));
  }

  std::vector<KernelResources> launches() override {
    std::vector<KernelResources> all;
    for (const Launch& launch : recorded_launches()) all.push_back(resources_of(launch));
    return all;
  }

  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                               const Sampling& sampling) override {
    if (!timer_) timer_.emplace(stream_, l2(), nvml_);
    return timer_->measure(contestants, cache, sampling);
  }

  std::optional<HardwareCounts> count_by_hardware(const Kernel& kernel, const Call& call,
                                                  Cache cache) override {
    if (call.ranks.count > 1) return {};
    if (!hardware_counters_) hardware_counters_.emplace(ordinal_);
    const auto prepare = [&] {
      if (cache == Cache::hot) return run(kernel, call);
      l2().read(stream_);
      wait();
    };
    HardwareCounts counts;
    std::ranges::copy(hardware_counters_->count(prepare, [&] { run(kernel, call); }),
                      counts.begin());
    return counts;
  }

  void profile(const Kernel& kernel, const Call& call, const std::string& name) override {
    static const nvtxDomainHandle_t domain = nvtxDomainCreateA("ladder");
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name.c_str();
    LADDER_CUDA(cudaProfilerStart());
    nvtxDomainRangePushEx(domain, &range);
    run(kernel, call);
    nvtxDomainRangePop(domain);
    LADDER_CUDA(cudaProfilerStop());
  }

 private:
  KernelResources resources_of(const Launch& launch) const {
    KernelResources out{.launch = launch};
    cudaFuncAttributes attributes{};
    LADDER_CUDA(cudaFuncGetAttributes(&attributes, out.launch.function));
    out.registers = attributes.numRegs;
    out.static_shared = attributes.sharedSizeBytes;
    out.local_bytes = attributes.localSizeBytes;
    const dim3 block = out.launch.block;
    const int threads = static_cast<int>(block.x * block.y * block.z);
    int blocks = 0;
    LADDER_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, out.launch.function, threads,
                                                              out.launch.dynamic_shared));
    const int limit = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, ordinal_) / 32;
    out.occupancy = static_cast<double>(blocks * ceil_div(threads, 32)) / limit;
    return out;
  }

  std::unique_ptr<Device> open_peer() override {
    const int next = (ordinal_ + 1 + static_cast<int>(peers().size())) % info_.count;
    const CurrentDevice current(next);
    auto opened = std::make_unique<CudaDevice>(next, placement_);
    connect(ordinal_, next);
    for (const auto& peer : peers()) connect(peer->rank().device, next);
    return opened;
  }
  L2Flush& l2() {
    if (!l2_) l2_.emplace(info_.l2_bytes);
    return *l2_;
  }

  int ordinal_;
  Placement placement_;
  Nvml nvml_;
  DeviceInfo info_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t beside_ = nullptr;  ///< for what waits for nothing that is enqueued
  cudaEvent_t event_ = nullptr;
  Comparison* parts_ = nullptr;
  std::optional<Staging> staging_;
  std::optional<L2Flush> l2_;
  std::optional<Timer> timer_;
  std::optional<HardwareCounters> hardware_counters_;
};

}  // namespace

std::unique_ptr<Device> open_cuda_device(int ordinal, Placement placement) {
  return std::make_unique<CudaDevice>(ordinal, placement);
}

}  // namespace ladder
