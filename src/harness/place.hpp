// Memory that changes here and there from one launch to the next.
#pragma once

#include "device/types.hpp"
#include "harness/mixed.hpp"

#include <cstddef>
#include <cstdint>

namespace ladder {

/// An array, or other memory, with up to kParts short parts that change, one in each of as many stretches
/// of the same length.
struct Place {
  static constexpr int kParts = 32;
  static constexpr unsigned kPartBytes = 32;  // at most; a multiple of all elements'

  /// What a part was before it changed; no bytes: it is as it was.
  struct Before {
    std::uint64_t at;
    std::uint32_t bytes;
    unsigned char was[kPartBytes];
  };

  unsigned char* data;
  std::uint64_t bytes;
  std::uint32_t element_bytes;  ///< a part is of whole ones
  /// That parts are made of, some elements in their order; null: random bits.
  const unsigned char* values = nullptr;
  std::uint64_t values_bytes = 0;  ///< at least kPartBytes
  Before* before = nullptr;        ///< kParts of them; null where what was there needn't come back
};

/// Puts back what a part was, and unless the number is 0 changes another, by the number and the place's own.
__host__ __device__ inline void vary_part(const Place& place, std::uint64_t place_number,
                                          unsigned part, std::uint64_t number) {
  const std::uint64_t elements = place.bytes / place.element_bytes;
  const std::uint64_t parts = elements < Place::kParts ? elements : Place::kParts;
  if (part >= parts) return;
  if (place.before) {
    Place::Before& before = place.before[part];
    for (unsigned b = 0; b < before.bytes; ++b) place.data[before.at + b] = before.was[b];
    before.bytes = 0;
    if (number == 0) return;
  }
  const std::uint64_t begin = elements * part / parts, end = elements * (part + 1) / parts;
  const std::uint64_t most = Place::kPartBytes / place.element_bytes;
  const std::uint64_t n = most < end - begin ? most : end - begin;
  const std::uint64_t bits = mixed(mixed(number) + place_number * Place::kParts + part + 1);
  const std::uint64_t at = (begin + bits % (end - begin - n + 1)) * place.element_bytes;
  const auto bytes = static_cast<unsigned>(n * place.element_bytes);
  std::uint64_t from = 0;
  if (place.values) {
    from = mixed(bits + 1) % ((place.values_bytes - bytes) / place.element_bytes + 1) *
           place.element_bytes;
  }
  if (place.before) place.before[part].at = at, place.before[part].bytes = bytes;
  for (unsigned b = 0; b < bytes; ++b) {
    if (place.before) place.before[part].was[b] = place.data[at + b];
    const auto random = static_cast<unsigned char>(mixed(bits + 2 + b / 8) >> (8 * (b % 8)));
    place.data[at + b] = place.values ? place.values[from + b] : random;
  }
}

}  // namespace ladder
