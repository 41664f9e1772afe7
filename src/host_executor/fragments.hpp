// The elements of matrices as they lie in the registers of a warp (device/ptx/mma.hpp,
// ldmatrix.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ladder::host {

/// The elements in a register of A or B; float stands for tf32.
template <class T>
void unpack(std::uint32_t word, float* to) {
  if constexpr (std::is_same_v<T, float>) word &= 0xffffe000;  // the tensor cores see no more
  T elements[sizeof(word) / sizeof(T)];
  std::memcpy(static_cast<void*>(elements), &word, sizeof(word));
  for (const T element : elements) *to++ = static_cast<float>(element);
}

/// stmatrix: row[lane] is what is stored at the address that `lane` brings; fragments[lane] are its
/// four registers.
template <bool kTransposed>
void store_matrices(const std::uint32_t* const* fragments, std::uint16_t (&row)[32][8]) {
  for (unsigned i = 0; i < 32; ++i) {
    for (unsigned j = 0; j < 8; ++j) {
      const unsigned group = kTransposed ? j : i % 8, along = kTransposed ? i % 8 : j;
      const std::uint32_t word = fragments[group * 4 + along / 2][i / 8];
      row[i][j] = static_cast<std::uint16_t>(word >> along % 2 * 16);
    }
  }
}

}  // namespace ladder::host
