// The host executor seen from the programs, through its library's one function.
#include "harness/device.hpp"
#include "harness/dtype.hpp"
#include "harness/family.hpp"
#include "harness/launch.hpp"
#include "harness/place.hpp"

#include "harness/host/api.hpp"
#include "support/out_of_memory.hpp"
#include "support/parallel.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ladder {
namespace {

std::string cpu_name() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/cpuinfo", "re"),
                                                             &std::fclose);
  if (!file && errno == ENOENT) return "CPU";
  char bytes[256];
  while (file && std::fgets(bytes, sizeof bytes, file.get())) {
    const std::string_view line = bytes;
    if (!line.starts_with("model name")) continue;
    const std::string_view name = line.substr(std::min(line.find(':') + 2, line.size()));
    return std::string(name.substr(0, name.find('\n')));
  }
  if (!file || std::ferror(file.get())) {
    throw std::runtime_error(std::string("/proc/cpuinfo cannot be read: ") + std::strerror(errno));
  }
  return "CPU";
}

template <class T>
Comparison compare_range(const T* actual, const double* expected, const double* magnitude,
                         std::size_t begin, std::size_t end, Tolerance tolerance) {
  Comparison total;
  for (std::size_t i = begin; i < end; ++i) {
    compare_element(total, i, value_at(actual, i), expected[i], magnitude ? magnitude[i] : 0,
                    tolerance);
  }
  return total;
}

class HostDevice final : public Device {
 public:
  HostDevice() {
    info_.name = cpu_name();
    info_.sm_count = api_.sm_count();
    info_.count = std::numeric_limits<int>::max();
  }

  Backend backend() const override { return Backend::host; }
  const DeviceInfo& info() const override { return info_; }
  Rank rank() override { return {.stream = stream_}; }
  const std::vector<Kernel>& kernels() const override { return api_.kernels(); }

  std::size_t free_memory() const override { return free_host_memory(); }
  std::size_t canary_bytes() const override { return 0; }  // every access is checked
  void* allocate(std::size_t bytes) override { return api_.allocate(bytes); }
  void release(void* pointer) noexcept override { api_.release(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void fill(void* to, unsigned char byte, std::size_t bytes) override {
    std::memset(to, byte, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  void enqueue_copy(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
  }
  void enqueue_vary(const Place* places, std::size_t n, std::uint64_t number) override {
    for (std::size_t i = 0; i < n; ++i) {
      for (unsigned part = 0; part < Place::kParts; ++part) vary_part(places[i], i, part, number);
    }
  }
  void wait() override {}

  std::uint64_t checksum(const void* data, std::size_t bytes) override {
    const auto* const begin = static_cast<const unsigned char*>(data);
    std::uint64_t sum = 0, word;
    std::size_t at = 0;
    for (; bytes - at >= sizeof word; at += sizeof word) {
      std::memcpy(&word, begin + at, sizeof word);
      sum += random_bits(at, 0, word);
    }
    for (; at < bytes; ++at) sum += random_bits(at, 0, begin[at]);
    return sum;
  }

  Comparison compare(DType dtype, const void* actual, const double* expected,
                     const double* magnitude, std::size_t n, Tolerance tolerance) override {
    Comparison total;
    std::mutex mutex;
    parallel_for(n, 1 << 18, [&](std::size_t begin, std::size_t end) {
      const Comparison found = with_type(dtype, [&]<class T>(std::type_identity<T>) {
        return compare_range(static_cast<const T*>(actual), expected, magnitude, begin, end,
                             tolerance);
      });
      const std::lock_guard lock(mutex);
      merge(total, found);
    });
    return total;
  }

  void set_lane_order(unsigned seed) override { api_.set_lane_order(seed); }

  void run(const Kernel& kernel, const Call& call) override {
    api_.launches().clear();
    launch_version(kernel, call, stream_);
  }

  std::optional<Counters> count(const Kernel& kernel, const Call& call) override {
    if (!api_.count || call.ranks.count > 1) return {};
    return api_.count([&] { run(kernel, call); });
  }

  std::optional<Recording> record(const Kernel& kernel, const Call& call,
                                  const RecordingChoice& choice) override {
    if (!api_.record) return {};
    if (call.ranks.count > 1) {
      throw std::runtime_error("launches on several devices are not recorded");
    }
    return api_.record(choice, [&] { run(kernel, call); });
  }

  std::vector<KernelResources> launches() override {
    std::vector<KernelResources> all;
    for (const Launch& launch : api_.launches()) all.push_back({.launch = launch});
    return all;
  }

  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache,
                               const Sampling&) override {
    std::vector<Samples> all;
    for (const Contestant& contestant : contestants) {
      Samples& samples = all.emplace_back();
      const auto& [kernel, call, variation, kept_as] = contestant;
      constexpr std::uint64_t kNumber = 1;
      if (variation) variation->vary(kNumber);
      const auto start = std::chrono::steady_clock::now();
      try {
        run(*kernel, call);
        const std::chrono::duration<double, std::micro> us =
            std::chrono::steady_clock::now() - start;
        samples.us.push_back(us.count());
        if (kept_as) variation->keep(*kept_as, kNumber);
      } catch (const std::exception& error) {
        samples.error = error.what();
      }
    }
    return all;
  }

  void profile(const Kernel& kernel, const Call& call, const std::string&) override {
    run(kernel, call);
  }

 private:
  std::unique_ptr<Device> open_peer() override { return open_host_device(); }

  const host::Api& api_ = *ladder_host_api();
  const cudaStream_t stream_ = reinterpret_cast<cudaStream_t>(this);  // not the null stream
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> open_host_device() { return std::make_unique<HostDevice>(); }

void set_host_sm_count(int count) { ladder_host_api()->set_sm_count(count); }

}  // namespace ladder
