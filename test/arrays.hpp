// Memory of a backend with the values of a vector, and values for it. Included behind what differs
// between backends: allocate(), release(), and copy(to, from, bytes), which copies to and from such
// memory when the kernels before it are done.
#pragma once

#include <random>
#include <vector>

namespace {

/// Global memory with the values of a vector.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& values)
      : size_(values.size()), data_(static_cast<T*>(allocate(values.size() * sizeof(T)))) {
    copy(data_, values.data(), size_ * sizeof(T));
  }
  explicit Array(std::size_t size) : Array(std::vector<T>(size)) {}
  ~Array() { release(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  operator T*() { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    copy(values.data(), data_, size_ * sizeof(T));
    return values;
  }

 private:
  std::size_t size_;
  T* data_;
};

template <class T>
std::vector<T> random_values(std::size_t size, auto distribution) {
  static std::mt19937 generator(20240607);
  std::vector<T> values(size);
  for (T& value : values) value = T(static_cast<float>(distribution(generator)));
  return values;
}
template <class T>
std::vector<T> random_integers(std::size_t size, int largest) {
  return random_values<T>(size, std::uniform_int_distribution(-largest, largest));
}

}  // namespace
