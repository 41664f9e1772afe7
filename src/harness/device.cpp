#include "harness/device.hpp"

#include "harness/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ladder {

const char* to_string(Cache cache) {
  constexpr const char* kNames[] = {"cold", "dirty", "hot"};
  return kNames[static_cast<int>(cache)];
}
namespace {

constexpr unsigned char kCanaryByte = 0xA5;

std::string with_variant(std::string_view name, const Kernel& kernel) {
  const char* const variant = kernel.version.variant;
  return fmt::format("{}{}{}", name, *variant ? "_" : "", variant);
}

}  // namespace

std::string_view file_label(const Kernel& kernel) {
  std::string_view name = kernel.file;
  name.remove_prefix(name.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

std::string label(const Kernel& kernel) { return with_variant(file_label(kernel), kernel); }

std::string short_label(const Kernel& kernel) {
  const std::string_view name = file_label(kernel);
  return with_variant(name.substr(0, name.find('_')), kernel);
}

std::string full_name(const Kernel& kernel) {
  return fmt::format("{}{}{}/{}/{}", kernel.family, *kernel.op ? "/" : "", kernel.op,
                     to_string(kernel.dtype), label(kernel));
}

KernelResources largest_of(std::span<const KernelResources> launches) {
  const auto blocks = [](const KernelResources& of) {
    const dim3& grid = of.launch.grid;
    return double{1} * grid.x * grid.y * grid.z;
  };
  const auto largest = std::ranges::max_element(launches, {}, blocks);
  return largest == launches.end() ? KernelResources{} : *largest;
}

Device& Device::peer(int i) {
  if (i == 0) return *this;
  while (peers_.size() < static_cast<std::size_t>(i)) peers_.push_back(open_peer());
  return *peers_[static_cast<std::size_t>(i - 1)];
}

Buffer::Buffer(Device& device, std::size_t bytes)
    : device_(&device),
      canary_(device.canary_bytes()),
      base_(static_cast<unsigned char*>(device.allocate(bytes + 2 * canary_))),
      bytes_(bytes) {
  device_->fill(base_, kCanaryByte, canary_);
  device_->fill(base_ + canary_ + bytes_, kCanaryByte, canary_);
}

Buffer::~Buffer() {
  if (base_) device_->release(base_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      canary_(other.canary_),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_) {}

void Buffer::poison(unsigned char byte) { device_->fill(data(), byte, bytes_); }

bool Buffer::canaries_intact() const {
  std::vector<unsigned char> bytes(canary_);
  for (const unsigned char* canary : {base_, base_ + canary_ + bytes_}) {
    device_->download(bytes.data(), canary, canary_);
    if (!std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == kCanaryByte; })) {
      return false;
    }
  }
  return true;
}

Support architecture_supports(std::string_view file, const DeviceInfo& device) {
  const int capability = device.compute_capability;
  if (file.ends_with(".sm90a.cu") && capability != 90 && capability != 0) {
    return unsupported("needs a GPU of architecture sm_90a, this one is sm_%d", capability);
  }
  return supported();
}

}  // namespace ladder
