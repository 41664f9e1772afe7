// What goes between ./bench and the process that measures for it: groups there, rows back. Both are
// one program, the second forked from the first, so that a pointer to what existed before means the
// same in both.
#pragma once

#include "measure/suite.hpp"

#include <concepts>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ladder {

/// A message that is not as it was packed: a kernel has written over its worker's memory.
struct BrokenMessage : std::runtime_error {
  BrokenMessage() : runtime_error("its process sent a message that cannot be read") {}
};

constexpr Backend last_value(Backend) { return Backend::host; }
constexpr Cache last_value(Cache) { return Cache::hot; }
constexpr DType last_value(DType) { return DType::i64; }
constexpr Verdict last_value(Verdict) { return Verdict::unsupported; }

template <class T>
concept Enumeration = std::is_enum_v<T>;

/// What any bytes are a value of.
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !Enumeration<T> && !std::same_as<T, bool> &&
                !std::same_as<T, GpuState> && !std::same_as<T, std::optional<Estimate>>;

/// A value that may be const or not, for functions that serve packing and unpacking alike.
template <class T, class Value>
concept Like = std::same_as<std::remove_const_t<T>, Value>;

void transfer(auto& io, Like<GpuState> auto& state);

/// Appends values to a message.
class Packer {
 public:
  void operator()(const Plain auto& value) {
    message_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(bool value) { (*this)(static_cast<unsigned char>(value)); }
  void operator()(Enumeration auto value) { (*this)(static_cast<unsigned char>(value)); }
  void operator()(const std::string& text) {
    (*this)(text.size());
    message_ += text;
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    for (const T& value : values) (*this)(value);
  }
  void operator()(const std::optional<Estimate>& estimate) {
    (*this)(estimate.has_value());
    if (estimate) (*this)(*estimate);
  }
  void operator()(const GpuState& state) { transfer(*this, state); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

/// Takes them out again, in the same order; the message must outlive it. Throws BrokenMessage where
/// there is no such value, before it asks for memory.
class Unpacker {
 public:
  explicit Unpacker(std::string_view message) : message_(message) {}

  template <Plain T>
  void operator()(T& value) {
    std::memcpy(&value, take(sizeof value), sizeof value);
  }
  void operator()(bool& value) { value = number_up_to(1) == 1; }
  template <Enumeration T>
  void operator()(T& value) {
    value = static_cast<T>(number_up_to(static_cast<unsigned char>(last_value(T{}))));
  }
  void operator()(std::string& text) {
    const std::size_t size = size_of_next();
    text.assign(take(size), size);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.clear();
    for (std::size_t n = size_of_next(); n > 0; --n) (*this)(values.emplace_back());
  }
  void operator()(std::optional<Estimate>& estimate) {
    bool known = false;
    (*this)(known);
    estimate.reset();
    if (known) (*this)(estimate.emplace());
  }
  void operator()(GpuState& state) { transfer(*this, state); }

  void expect(bool right) const {
    if (!right) throw BrokenMessage();
  }
  void expect_end() const { expect(at_ == message_.size()); }

  /// How many values follow, each of a byte at least.
  std::size_t size_of_next() {
    std::size_t size = 0;
    (*this)(size);
    expect(size <= message_.size() - at_);
    return size;
  }

 private:
  unsigned char number_up_to(unsigned char most) {
    unsigned char number = 0;
    (*this)(number);
    expect(number <= most);
    return number;
  }
  const char* take(std::size_t bytes) {
    expect(bytes <= message_.size() - at_);
    return message_.data() + std::exchange(at_, at_ + bytes);
  }

  std::string_view message_;
  std::size_t at_ = 0;
};

/// Applies a Packer or an Unpacker to every part of a value, but for a group's `selected` and the
/// counters' `lines`, which stay with those who asked.
void transfer(auto& io, Like<Group> auto& group) {
  io(group.family);
  io(group.dtype);
  std::string problem = group.problem.text();
  io(problem);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(group)>>) {
    group.problem = group.family->problem(problem);
  }
  io(group.cache);
  io(group.kernels);
}

void transfer(auto& io, Like<DeviceInfo> auto& info) {
  io(info.name);
  io(info.compute_capability);
  io(info.sm_count);
  io(info.l2_bytes);
  io(info.toolkit);
  io(info.driver);
  io(info.pin_gbps);
  io(info.pin_gflops);
}

void transfer(auto& io, Like<GpuState> auto& state) {
  io(state.sm_mhz);
  io(state.power_w);
  io(state.power_limited);
  io(state.thermal_limited);
}

void transfer(auto& io, Like<Step> auto& step) {
  io(step.doing);
  io(step.kernel);
  io(step.kernels);
}

void transfer(auto& io, Like<Counters> auto& counters) {
  io(counters.global_load);
  io(counters.global_store);
  io(counters.global_atomic);
  io(counters.shared_load);
  io(counters.shared_store);
  io(counters.shared_atomic);
  io(counters.shared_async);
  io(counters.shared_stmatrix);
  io(counters.cluster_load);
  io(counters.cluster_store);
  io(counters.own_cluster_load);
  for (auto* bulk : {&counters.bulk_load, &counters.bulk_store}) {
    io(bulk->copies);
    io(bulk->bytes);
    io(bulk->sectors);
  }
  io(counters.wgmma.products);
  io(counters.wgmma.bytes);
  io(counters.barriers);
  io(counters.mbarrier_phases);
}

void transfer(auto& io, Like<Row> auto& row) {
  io(row.kernel);
  io(row.problem);
  io(row.cache);
  io(row.check.verdict);
  io(row.check.reason);
  io(row.check.max_error);
  io(row.check.tolerance);
  io(row.samples.us);
  io(row.samples.states);
  io(row.samples.settled);
  io(row.samples.burst_us);
  io(row.samples.error);
  io(row.cost);
  io(row.roof);
  io(row.roof_us);
  io(row.baseline);
  io(row.vs_baseline);
  io(row.vs_fastest);
  io(row.fastest);
  io(row.aa);
  io(row.resources);
  bool counted = row.counters.has_value();
  io(counted);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(row)>>) {
    if (counted) row.counters.emplace();
  }
  if (counted) transfer(io, *row.counters);
}

}  // namespace ladder
