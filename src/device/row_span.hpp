// Rows that start anywhere, in vectors of 16 bytes, or 8. Where a matrix's columns are no whole number of
// vectors, most of its rows start between the vectors' boundaries:
//
//   column  0   head                       cols - tail   cols
//           |...|===|===|===|===|===|===|===|..|
//           singles     whole vectors        singles
//
// Head and tail, fewer than 16 elements together, are moved one by one, by a thread each.
#pragma once

#include "device/vector.hpp"

namespace ladder {

/// How a row of `cols` elements of a matrix lies, that starts `start` elements after a multiple of
/// a vector's bytes. kAligned: all rows of the matrix start at one, and there are no singles.
template <class T, bool kAligned, class Vec = Vec128<T>>
struct RowSpan {
  static constexpr int kSize = Vec::size;
  int head = 0, vectors, tail = 0;

  __device__ RowSpan(std::int64_t start, int cols) {
    if constexpr (!kAligned) {
      head = static_cast<int>(-start & (kSize - 1));
      if (head > cols) head = cols;
      tail = (cols - head) % kSize;
    }
    vectors = (cols - head) / kSize;
  }

  /// The first column of vector v.
  __device__ int column(int v) const { return head + v * kSize; }

  /// The column of the single that thread t takes; -1: none. Takes at least 16 threads.
  __device__ int single(int t) const {
    if (kAligned || t >= head + tail) return -1;
    return t < head ? t : t + vectors * kSize;
  }
};

/// Makes the compiler convert the elements again where they are used next: what it made of them
/// before would need more registers than it has for all of a row.
template <class Vec>
__device__ void stay_packed([[maybe_unused]] Vec& vector) {
#if !defined(LADDER_HOST_EXECUTOR)
  unsigned words[sizeof vector / 4];
  std::memcpy(words, &vector, sizeof words);
#pragma unroll
  for (unsigned& word : words) asm volatile("" : "+r"(word));
  std::memcpy(&vector, words, sizeof words);
#endif
}

/// Elements shift … shift + size - 1 of two vectors that follow each other. The shift, the same for
/// all threads, is made of selections: registers cannot be indexed.
template <class T>
__device__ Vec128<T> shifted(const Vec128<T>& low, const Vec128<T>& high, int shift) {
  constexpr int kOfWord = 4 / sizeof(T);
  unsigned words[8];
  std::memcpy(words, &low, 16);
  std::memcpy(words + 4, &high, 16);
  if (shift / kOfWord & 2) {
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
  }
  if (shift / kOfWord & 1) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
  }
  if constexpr (kOfWord == 2) {
    const int bits = shift % 2 * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t pair = std::uint64_t{words[i + 1]} << 32 | words[i];
      words[i] = static_cast<unsigned>(pair >> bits);
    }
  }
  Vec128<T> out;
  std::memcpy(&out, words, 16);
  return out;
}

/// Elements at … at + size - 1 of from[0 … n), which starts at a multiple of 16 bytes, as `at` does
/// if kAligned.
template <bool kAligned, class T>
__device__ Vec128<T> load_anywhere(const T* from, int at, int n) {
  using Vec = Vec128<T>;
  if constexpr (kAligned) return Vec::load(from + at);
  const int shift = at % Vec::size;
  const T* const aligned = from + (at - shift);
  Vec low, high;
  if (at - shift + 2 * Vec::size <= n) {
    low = Vec::load(aligned);
    high = Vec::load(aligned + Vec::size);
    return shifted(low, high, shift);
  }
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) low[e] = from[at + e];  // the second would end beyond n
  return low;
}

}  // namespace ladder
