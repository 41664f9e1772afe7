// A place where kernels run, with its memory: one GPU, or the host executor.
#pragma once

#include "device/kernel.hpp"
#include "harness/check.hpp"
#include "harness/hardware_counts.hpp"
#include "harness/timer.hpp"
#include "host_executor/counts.hpp"
#include "host_executor/recorded.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ladder {

struct Place;

struct DeviceInfo {
  std::string name;             ///< "NVIDIA H100 80GB HBM3", or the CPU's name
  int compute_capability = 0;   ///< 90 for sm_90; 0 on the host executor
  int sm_count = 0;             ///< on the host executor, those that kernels find
  std::size_t l2_bytes = 0;     ///< 0 on the host executor
  std::string toolkit, driver;  ///< CUDA versions; empty on the host executor
  double pin_gbps = 0;          ///< DRAM: memory clock times bus width, GB/s
  double pin_gflops = 0;        ///< fp32 FMA: lanes times the highest SM clock, GFLOP/s
  int count = 1;                ///< how many there are for one problem
};

/// What the compiler and the launch made of a kernel.
struct KernelResources {
  Launch launch{};
  int registers = 0;              ///< per thread
  std::size_t static_shared = 0;  ///< bytes per block
  std::size_t local_bytes = 0;    ///< bytes per thread: spills and arrays indexed at run time
  double occupancy = 0;           ///< resident warps over the multiprocessor's limit
};

/// The name of a version's file without its suffixes: "v05_tile2d".
std::string_view file_label(const Kernel& kernel);

/// That and the variant, if there is one: "v05_tile2d", "v30_block_size_32".
std::string label(const Kernel& kernel);

/// The number and the variant: "v05", "v30_32".
std::string short_label(const Kernel& kernel);

/// How benchmarks and tests name a kernel: family[/op]/dtype/label.
std::string full_name(const Kernel& kernel);

/// Those of the launch with the most blocks; nothing of no launches.
KernelResources largest_of(std::span<const KernelResources> launches);

/// Memory functions throw std::runtime_error when the device refuses; run throws it with the reason
/// when the kernel faults.
class Device {
 public:
  virtual ~Device() = default;
  virtual Backend backend() const = 0;
  virtual const DeviceInfo& info() const = 0;

  /// Number i of the devices of a problem, of which this is number 0: of GPUs the next one, after the last the
  /// first. All of them reach the memory of all. Opened when it is first asked for.
  Device& peer(int i);

  /// As number 0, without state and workspace.
  virtual Rank rank() = 0;

  /// Kernels registered for this device's backend.
  virtual const std::vector<Kernel>& kernels() const = 0;

  virtual std::size_t free_memory() const = 0;  ///< bytes

  /// Whether a kernel's fault has left this process unable to use the device.
  virtual bool lost() { return false; }

  /// Bytes on either side of a Buffer that show whether a kernel wrote outside it.
  virtual std::size_t canary_bytes() const { return 4096; }

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill(void* to, unsigned char byte, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  ///< within the device

  // Behind what is enqueued, as kernels run, without waiting for it; and the waiting.
  virtual void enqueue_copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void enqueue_vary(const Place* places, std::size_t n, std::uint64_t number) = 0;
  virtual void wait() = 0;

  /// A number that changes when any byte of the range does (but for one chance in 2^64); as it is at this
  /// moment, whatever is enqueued.
  virtual std::uint64_t checksum(const void* data, std::size_t bytes) = 0;

  /// Compares n values of a type with what was expected; all pointers are the device's,
  /// magnitude may be null.
  virtual Comparison compare(DType dtype, const void* actual, const double* expected,
                             const double* magnitude, std::size_t n, Tolerance tolerance) = 0;

  /// The order in which the host executor lets a block's threads run: 0 is ascending, another
  /// number seeds a random order. Nothing on a GPU.
  virtual void set_lane_order(unsigned) {}

  /// Runs a kernel once and waits for it.
  virtual void run(const Kernel& kernel, const Call& call) = 0;

  /// Like run; returns what the kernel did to memory. Where the device can't tell, nothing runs.
  virtual std::optional<Counters> count(const Kernel&, const Call&) { return {}; }

  /// Like run, as often as the GPU's counters take passes, each after a launch on the same data or with an
  /// L2 full of other data, all of it clean: no earlier launch's write-back is counted. Returns the counters.
  /// Where the device has none, nothing runs. Throws NoHardwareCounters when they cannot be read.
  virtual std::optional<HardwareCounts> count_by_hardware(const Kernel&, const Call&, Cache) {
    return {};
  }

  /// Like count; returns the steps of chosen warps, too.
  virtual std::optional<Recording> record(const Kernel&, const Call&, const RecordingChoice&) {
    return {};
  }

  /// The kernels that the version which ran last has launched, in their order; none of a library's. On the
  /// host executor only the launches are known of them.
  virtual std::vector<KernelResources> launches() = 0;

  /// Times kernels, taking turns. The first stays to the end; it is what the others are compared
  /// with.
  virtual std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                                       const Sampling& sampling) = 0;

  /// Like run, as what a profiler waiting for cudaProfilerStart sees, in an NVTX range called `name`
  /// of the domain "ladder".
  virtual void profile(const Kernel& kernel, const Call& call, const std::string& name) = 0;

 protected:
  /// The next one; peers() are open already.
  virtual std::unique_ptr<Device> open_peer() = 0;
  const std::vector<std::unique_ptr<Device>>& peers() const { return peers_; }

 private:
  std::vector<std::unique_ptr<Device>> peers_;
};

/// The host executor.
std::unique_ptr<Device> open_host_device();

/// How many multiprocessors kernels find there from now on.
void set_host_sm_count(int count);

/// Where arrays lie on a GPU: packed by cudaMalloc, so that compute-sanitizer knows their ends; or each
/// in pages of its own, so that a time does not depend on which of them happen to share one.
enum class Placement { packed, own_pages };

/// GPU number `ordinal`. Throws std::runtime_error with the reason when there is no such GPU, no
/// driver, or the build has no CUDA.
std::unique_ptr<Device> open_cuda_device(int ordinal, Placement = Placement::packed);

/// Whether a kernel file's suffix (vNN_name[.gpu][.sm90a].cu) allows it to run on a device.
Support architecture_supports(std::string_view file, const DeviceInfo& device);

/// Device memory, between two canaries where the device itself does not watch its bounds.
class Buffer {
 public:
  Buffer(Device& device, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  Device& device() const { return *device_; }
  void* data() const { return base_ + canary_; }
  std::size_t bytes() const { return bytes_; }

  /// Sets every byte: 0xFF makes NaNs of every type that has_nan.
  void poison(unsigned char byte = 0xFF);

  /// Whether the bytes before and after the buffer are as they were made.
  bool canaries_intact() const;

 private:
  Device* device_;
  std::size_t canary_;  // bytes
  unsigned char* base_;
  std::size_t bytes_;
};

}  // namespace ladder
