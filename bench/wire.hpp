// What goes between ./bench and the process that measures for it: groups there, rows back. Both are
// one program, the second forked from the first, so that a pointer to what existed before means the
// same in both.
#pragma once

#include "suite.hpp"

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

/// Appends values to a message.
class Packer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(const T& value) {
    message_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    message_ += text;
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    for (const T& value : values) (*this)(value);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

/// Takes them out again, in the same order; the message must outlive it. Throws std::logic_error at
/// the message's end.
class Unpacker {
 public:
  explicit Unpacker(std::string_view message) : message_(message) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(T& value) { std::memcpy(&value, take(sizeof value), sizeof value); }
  void operator()(std::string& text) {
    std::size_t size = 0;
    (*this)(size);
    text.assign(take(size), size);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    std::size_t size = 0;
    (*this)(size);
    values.clear();
    for (; size > 0; --size) (*this)(values.emplace_back());
  }

 private:
  const char* take(std::size_t bytes) {
    if (bytes > message_.size() - at_) throw std::logic_error("a message is too short");
    return message_.data() + std::exchange(at_, at_ + bytes);
  }

  std::string_view message_;
  std::size_t at_ = 0;
};

/// A value that may be const or not, for functions that serve packing and unpacking alike.
template <class T, class Value>
concept Like = std::same_as<std::remove_const_t<T>, Value>;

/// Applies a Packer or an Unpacker to every part of a value, but for a group's `selected` and the
/// counters' `lines`, which stay with those who asked.
void transfer(auto& io, Like<Group> auto& group) {
  io(group.family);
  io(group.dtype);
  io(group.problem);
  io(group.cache);
  io(group.kernels);
}

void transfer(auto& io, Like<DeviceInfo> auto& info) {
  io(info.name);
  io(info.compute_capability);
  io(info.multiprocessors);
  io(info.l2_bytes);
  io(info.toolkit);
  io(info.driver);
  io(info.pin_gbps);
  io(info.pin_gflops);
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
  io(counters.barriers);
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
