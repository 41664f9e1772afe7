// 128-bit vectors: the widest load and store of one thread, one instruction each; and half of them.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

/// 16 bytes of elements: 4 floats, or 8 halves or bfloat16s.
template <class T>
struct alignas(16) Vec128 {
  static constexpr int size = 16 / sizeof(T);
  T element[size];

  __host__ __device__ T& operator[](int i) { return element[i]; }
  __host__ __device__ const T& operator[](int i) const { return element[i]; }

  /// from and to must be multiples of 16 bytes.
  __device__ static Vec128 load(const T* from) {
    Vec128 v;
    *reinterpret_cast<uint4*>(v.element) = *reinterpret_cast<const uint4*>(from);
    return v;
  }
  /// The same where only some of the elements are used: the others may be shared memory that nobody
  /// has written.
  __device__ static Vec128 load_some(const T* from) {
#if defined(LADDER_HOST_EXECUTOR)
    const host::MayBeUnwritten others;
#endif
    return load(from);
  }
  __device__ void store(T* to) const {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(element);
  }

  /// The same, and never split into narrower stores, as nvcc may where the elements were computed.
  __device__ void store_whole(T* to) const {
    uint4 words;
    std::memcpy(&words, element, sizeof words);
    __stwb(reinterpret_cast<uint4*>(to), words);
  }

  /// The same for data that nobody reads again soon: it is the first to leave the caches.
  __device__ static Vec128 load_streaming(const T* from) {
    Vec128 v;
    *reinterpret_cast<uint4*>(v.element) = __ldcs(reinterpret_cast<const uint4*>(from));
    return v;
  }
  __device__ void store_streaming(T* to) const {
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(element));
  }
};

/// 8 bytes of elements, where a warp has more lanes than a row has wider vectors.
template <class T>
struct alignas(8) Vec64 {
  static constexpr int size = 8 / sizeof(T);
  T element[size];

  __host__ __device__ T& operator[](int i) { return element[i]; }
  __host__ __device__ const T& operator[](int i) const { return element[i]; }

  /// from and to must be multiples of 8 bytes.
  __device__ static Vec64 load(const T* from) {
    Vec64 v;
    *reinterpret_cast<uint2*>(v.element) = *reinterpret_cast<const uint2*>(from);
    return v;
  }
  /// Never split into narrower stores, as nvcc may where the elements were computed.
  __device__ void store_whole(T* to) const {
    uint2 words;
    std::memcpy(&words, element, sizeof words);
    __stwb(reinterpret_cast<uint2*>(to), words);
  }
};

}  // namespace ladder
