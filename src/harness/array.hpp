// The arrays of a problem: what a kernel reads and writes.
#pragma once

#include "device/types.hpp"
#include "harness/check.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ladder {

/// What a kernel does with an array: reads it, writes it, or reads it and writes it in place.
enum class Role { input, output, in_place };

/// How many elements: a number, or the product of a matrix's extents.
struct Extents {
  std::size_t elements;
  template <std::integral... Ns>
  Extents(Ns... along) : elements((std::size_t{1} * ... * static_cast<std::size_t>(along))) {}
};

/// What makes the elements that a kernel reads: the input set; or integers from 0 to bound - 1, each as
/// likely, as points that part them, each once, or by Zipf's law.
struct Generator {
  enum class Kind { input_set, uniform, offsets, permutation, zipf } kind = Kind::input_set;
  std::int64_t bound = 0;
  double exponent = 0;
  bool sorted = false;
};

struct Array {
  std::string name;  ///< "dweight"
  Role role;
  DType dtype;
  std::size_t size;       ///< elements
  Tolerance tolerance{};  ///< of what is written
  Generator generator{};
  std::string count{};                      ///< see valid_by
  std::vector<std::string> addresses_of{};  ///< of a table: the arrays whose addresses it has
  DType dtype_there{};                      ///< theirs
  int device = 0;                           ///< see on
  bool is_tied = false;                     ///< see tied

  bool is_read() const { return role != Role::output; }
  bool is_written() const { return role != Role::input; }

  // The same array with other elements than the input set's. Throw std::logic_error where its type
  // holds none such.

  /// Integers from 0 to bound - 1, each as likely.
  Array below(std::int64_t bound) const { return with({Generator::Kind::uniform, bound}); }
  /// In ascending order, the first 0, the last `total`.
  Array offsets(std::int64_t total) const {
    return with({Generator::Kind::offsets, total + 1, 0, true});
  }
  /// 0 to size - 1, each once.
  Array permutation() const {
    return with({Generator::Kind::permutation, static_cast<std::int64_t>(size)});
  }
  /// As below(), and k as likely as 1 / (k + 1)^exponent.
  Array zipf(std::int64_t bound, double exponent) const {
    return with({Generator::Kind::zipf, bound, exponent});
  }
  /// What it else has, in ascending order.
  Array sorted() const { return with({generator.kind, generator.bound, generator.exponent, true}); }
  Array with(Generator by) const;

  /// Of the array only the first elements are right or wrong, as many as a kernel writes to `count`:
  /// an array of one integer, which is compared as all are.
  Array valid_by(std::string count) const;

  /// An input that others depend on, or that is made of others: it can't change alone.
  Array tied() const {
    Array array = *this;
    array.is_tied = true;
    return array;
  }

  /// The same array on another device, of a problem that lies on several: from 0 on.
  Array on(int index) const {
    Array moved = *this;
    moved.device = index;
    return moved;
  }
};

/// Arrays of elements of type T.
template <class T>
Array input(std::string name, Extents size) {
  return {std::move(name), Role::input, DTypeOf<T>::value, size.elements};
}
template <class T>
Array output(std::string name, Extents size, Tolerance tolerance = {}) {
  return {std::move(name), Role::output, DTypeOf<T>::value, size.elements, tolerance};
}
template <class T>
Array in_place(std::string name, Extents size, Tolerance tolerance = {}) {
  return {std::move(name), Role::in_place, DTypeOf<T>::value, size.elements, tolerance};
}

/// A table in the device's memory of the addresses of arrays of T: a kernel gets it as a T* const*.
template <class T>
Array table(std::string name, std::vector<std::string> addresses_of) {
  Array array = input<std::uint64_t>(std::move(name), addresses_of.size());
  array.addresses_of = std::move(addresses_of);
  array.dtype_there = DTypeOf<T>::value;
  return array;
}

/// An array that lies somewhere: turns into a pointer to its elements, or a span of them; of packed ones to
/// and of their bytes. Throws std::logic_error when they are of another type.
class Operand {
 public:
  Operand(const Array& array, void* data) : array_(&array), data_(data) {}

  template <class U>
  operator U*() const {
    if (!is_of<std::remove_const_t<U>>()) {
      throw std::logic_error(array_->name + " is bound as an array of another type");
    }
    return static_cast<U*>(data_);
  }
  template <class U>
  operator std::span<U>() const {
    return {static_cast<U*>(*this), Packed<U> ? ceil_div(array_->size, 2) : array_->size};
  }

 private:
  template <class U>
  bool is_of() const {
    if constexpr (std::is_pointer_v<U>) {
      using There = std::remove_const_t<std::remove_pointer_t<U>>;
      return !array_->addresses_of.empty() && DTypeOf<There>::value == array_->dtype_there;
    } else {
      return DTypeOf<U>::value == array_->dtype;
    }
  }

  const Array* array_;
  void* data_;
};

/// The arrays of a problem, by their names, where they lie.
class Operands {
 public:
  Operands(std::span<const Array> arrays, std::span<void* const> addresses)
      : arrays_(arrays), addresses_(addresses) {}

  bool has(std::string_view name) const { return place_of(name) < arrays_.size(); }
  /// Throws std::logic_error with the names that there are.
  Operand operator[](std::string_view name) const {
    const std::size_t place = place_of(name);
    if (place == arrays_.size()) throw_missing(name);
    return {arrays_[place], addresses_[place]};
  }

 private:
  std::size_t place_of(std::string_view name) const {
    std::size_t place = 0;
    while (place < arrays_.size() && arrays_[place].name != name) ++place;
    return place;
  }
  [[noreturn]] void throw_missing(std::string_view name) const;

  std::span<const Array> arrays_;
  std::span<void* const> addresses_;
};

}  // namespace ladder
