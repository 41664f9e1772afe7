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
constexpr DType last_value(DType) { return DType::u64; }
constexpr Space last_value(Space) { return Space::shared; }
constexpr Access last_value(Access) { return Access::cluster_load; }
constexpr Verdict last_value(Verdict) { return Verdict::unsupported; }

template <class T>
concept Enumeration = std::is_enum_v<T>;

/// What transfer takes apart.
template <class T>
concept Composite = std::same_as<T, Group> || std::same_as<T, DeviceInfo> ||
    std::same_as<T, GpuState> || std::same_as<T, Step> || std::same_as<T, LineCounters> ||
    std::same_as<T, Counters> || std::same_as<T, Row>;

/// What any bytes are a value of.
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !Enumeration<T> && !Composite<T> &&
                !std::same_as<T, bool> && !std::same_as<T, std::optional<Estimate>>;

/// A value that may be const or not, for functions that serve packing and unpacking alike.
template <class T, class Value>
concept Like = std::same_as<std::remove_const_t<T>, Value>;

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
  template <class T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  void operator()(const Composite auto& value) { transfer(*this, value); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

std::string packed(const auto&... values) {
  Packer pack;
  (pack(values), ...);
  return pack.message();
}

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
  template <class T>
  void operator()(std::optional<T>& value) {
    bool known = false;
    (*this)(known);
    value.reset();
    if (known) (*this)(value.emplace());
  }
  void operator()(Composite auto& value) { transfer(*this, value); }

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

void each(auto& io, auto&... parts) { (io(parts), ...); }

/// Applies a Packer or an Unpacker to every part of a value, but for what stays with those who asked: a
/// group's `selected`, and what a row says of its kernel.
void transfer(auto& io, Like<Group> auto& group) {
  std::string problem = group.problem.text();
  each(io, group.family, group.dtype, problem, group.cache, group.kernels);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(group)>>) {
    group.problem = group.family->problem(problem);
  }
}

void transfer(auto& io, Like<DeviceInfo> auto& info) {
  each(io, info.name, info.compute_capability, info.sm_count, info.l2_bytes, info.toolkit,
       info.driver, info.pin_gbps, info.pin_gflops, info.count);
}

void transfer(auto& io, Like<GpuState> auto& state) {
  each(io, state.sm_mhz, state.power_w, state.power_limited, state.thermal_limited);
}

void transfer(auto& io, Like<Step> auto& step) {
  each(io, step.doing, step.kernel, step.kernels, step.on_test_problem);
}

void transfer(auto& io, Like<LineCounters> auto& line) {
  each(io, line.file, line.line, line.space, line.access, line.width, line.requests);
}

void transfer(auto& io, Like<Counters> auto& counters) {
  each(io, counters.global_load, counters.global_store, counters.global_atomic);
  each(io, counters.shared_load, counters.shared_store, counters.shared_atomic,
       counters.shared_async, counters.shared_stmatrix);
  each(io, counters.cluster_load, counters.cluster_store, counters.own_cluster_load);
  for (auto* bulk : {&counters.bulk_load, &counters.bulk_store}) {
    each(io, bulk->copies, bulk->bytes, bulk->sectors);
  }
  each(io, counters.wgmma.products, counters.wgmma.bytes);
  each(io, counters.barriers, counters.mbarrier_phases, counters.lines);
}

void transfer(auto& io, Like<Row> auto& row) {
  each(io, row.kernel, row.problem, row.cache);
  each(io, row.check.verdict, row.check.reason, row.check.error, row.check.tolerance);
  each(io, row.samples.us, row.samples.states, row.samples.settled, row.samples.burst_us,
       row.samples.error);
  each(io, row.cost, row.plan_us, row.roof, row.roof_us, row.library, row.vs_library,
       row.vs_fastest, row.fastest, row.aa, row.launches, row.counters);
  each(io, row.launch_us, row.is_short, row.sm_mhz, row.power_w);
}

}  // namespace ladder
