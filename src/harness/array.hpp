// The arrays of a problem: what a kernel reads and writes.
#pragma once

#include "device/types.hpp"
#include "harness/check.hpp"

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace ladder {

/// What a kernel does with an array: reads it, writes it, or reads it and writes it in place.
enum class Role { input, output, in_place };

struct Array {
  std::string name;  ///< "dweight"
  Role role;
  DType dtype;
  std::size_t size;       ///< elements
  Tolerance tolerance{};  ///< of what is written

  bool is_read() const { return role != Role::output; }
  bool is_written() const { return role != Role::input; }
};

/// Arrays of `size` elements of type T.
template <class T>
Array input(std::string name, std::size_t size) {
  return {std::move(name), Role::input, DTypeOf<T>::value, size};
}
template <class T>
Array output(std::string name, std::size_t size, Tolerance tolerance) {
  return {std::move(name), Role::output, DTypeOf<T>::value, size, tolerance};
}
template <class T>
Array in_place(std::string name, std::size_t size, Tolerance tolerance) {
  return {std::move(name), Role::in_place, DTypeOf<T>::value, size, tolerance};
}

/// An array that lies somewhere: turns into a pointer to its elements. Throws std::logic_error when
/// they are of another type.
class Operand {
 public:
  Operand(const Array& array, void* data) : array_(&array), data_(data) {}

  template <class U>
  operator U*() const {
    if (DTypeOf<std::remove_const_t<U>>::value != array_->dtype) {
      throw std::logic_error(array_->name + " is bound as an array of another type");
    }
    return static_cast<U*>(data_);
  }

  template <class U>
  std::span<U> elements() const {
    return {static_cast<U*>(*this), array_->size};
  }

 private:
  const Array* array_;
  void* data_;
};

/// The arrays of a problem in their order.
using Operands = std::span<const Operand>;

}  // namespace ladder
