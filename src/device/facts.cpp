// What devices are like: asked of the driver once for each device, and kept as long as the process lives.
#include "device/current_device.hpp"
#include "device/gpu_name.hpp"
#include "device/l2_bytes.hpp"
#include "device/needs.hpp"
#include "device/sm_count.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

namespace ladder {
namespace {

/// find() for a key, asked once of all threads. Results stay where they are.
template <class Key, class Find>
const auto& once(const Key& key, Find find) {
  static std::mutex mutex;
  static std::map<Key, decltype(find())> known;
  const std::lock_guard lock(mutex);
  const auto at = known.find(key);
  return at != known.end() ? at->second : known.emplace(key, find()).first->second;
}

struct Facts {
  std::string name;
  int sms, l2_bytes, compute_capability, shared_of_block;
};

const Facts& facts() {
  const int device = current_device();
  thread_local struct {
    int device = -1;
    const Facts* facts = nullptr;
  } last;
  if (last.device != device) {
    last = {device, &once(device, [&] {
              cudaDeviceProp properties{};
              expect_success(cudaGetDeviceProperties(&properties, device));
              return Facts{.name = properties.name,
                           .sms = properties.multiProcessorCount,
                           .l2_bytes = properties.l2CacheSize,
                           .compute_capability = 10 * properties.major + properties.minor,
                           .shared_of_block = static_cast<int>(properties.sharedMemPerBlockOptin)};
            })};
  }
  return *last.facts;
}

std::atomic<int> sm_limit = 0;

/// On all SMs of the current device.
int most_blocks_at_once(const void* kernel, int cluster, int threads, std::size_t shared) {
  expect_success(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)));
  if (cluster == 1) {
    int of_an_sm = 0;
    expect_success(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_an_sm, kernel, threads, shared));
    return of_an_sm * facts().sms;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  cudaLaunchAttribute attribute = cluster_attribute(cluster);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  expect_success(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  return clusters * cluster;
}

}  // namespace

int sm_count() {
  const int limit = sm_limit.load(std::memory_order_relaxed);
  return limit > 0 ? std::min(limit, facts().sms) : facts().sms;
}
void set_sm_limit(int sms) { sm_limit = sms; }

int blocks_at_once(const void* kernel, int cluster, int threads, std::size_t shared) {
  const int all = once(std::make_tuple(current_device(), kernel, cluster, threads, shared),
                       [&] { return most_blocks_at_once(kernel, cluster, threads, shared); });
  const std::int64_t of_limit = std::int64_t{all} * sm_count() / facts().sms;
  return std::max(1, static_cast<int>(of_limit) / cluster) * cluster;
}

std::int64_t l2_bytes() { return facts().l2_bytes; }
const std::string& gpu_name() { return facts().name; }
int compute_capability() { return facts().compute_capability; }
std::size_t shared_bytes_of_block() { return static_cast<std::size_t>(facts().shared_of_block); }

int capability_of_code(const void* kernel) {
  return once(std::make_pair(current_device(), kernel), [&] {
    cudaFuncAttributes attributes{};
    expect_success(cudaFuncGetAttributes(&attributes, kernel));
    return attributes.ptxVersion;
  });
}

}  // namespace ladder
