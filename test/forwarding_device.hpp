// A device that does everything by the host executor, for tests whose device does some of it in its
// own way.
#pragma once

#include "harness/device.hpp"

#include <memory>
#include <vector>

namespace ladder {

struct ForwardingDevice : Device {
  std::unique_ptr<Device> host = open_host_device();

  Backend backend() const override { return host->backend(); }
  const DeviceInfo& info() const override { return host->info(); }
  Rank rank() override { return host->rank(); }
  const std::vector<Kernel>& kernels() const override { return host->kernels(); }
  std::size_t free_memory() const override { return host->free_memory(); }
  std::size_t canary_bytes() const override { return host->canary_bytes(); }
  void* allocate(std::size_t bytes) override { return host->allocate(bytes); }
  void release(void* pointer) noexcept override { host->release(pointer); }
  void upload(void* to, const void* from, std::size_t n) override { host->upload(to, from, n); }
  void download(void* to, const void* from, std::size_t n) override { host->download(to, from, n); }
  void fill(void* to, unsigned char byte, std::size_t n) override { host->fill(to, byte, n); }
  void copy(void* to, const void* from, std::size_t n) override { host->copy(to, from, n); }
  void enqueue_copy(void* to, const void* from, std::size_t n) override {
    host->enqueue_copy(to, from, n);
  }
  void enqueue_vary(const Place* places, std::size_t n, std::uint64_t number) override {
    host->enqueue_vary(places, n, number);
  }
  void wait() override { host->wait(); }
  std::uint64_t checksum(const void* data, std::size_t n) override {
    return host->checksum(data, n);
  }
  Comparison compare(DType dtype, const void* actual, const double* expected,
                     const double* magnitude, std::size_t n, Tolerance tolerance) override {
    return host->compare(dtype, actual, expected, magnitude, n, tolerance);
  }
  std::vector<KernelResources> launches() override { return host->launches(); }
  void profile(const Kernel&, const Call&, const std::string&) override {}
  void run(const Kernel& kernel, const Call& call) override { host->run(kernel, call); }
  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                               const Sampling& sampling) override {
    return host->measure(contestants, cache, sampling);
  }
  std::unique_ptr<Device> open_peer() override { return open_host_device(); }
};

/// The host device, but with canaries, for kernels whose accesses nothing watches.
struct Unwatched final : ForwardingDevice {
  std::size_t canary_bytes() const override { return Device::canary_bytes(); }
};

}  // namespace ladder
