// The products of wgmma, as the host executor carries them out: where A and B lie in shared memory,
// and what becomes of D. Who holds what is in device/ptx/wgmma.hpp.
//
// A descriptor names rows of chunks of 16 bytes. Where K is the major index, rows are of M or N,
// and a product takes two chunks of each: 32 bytes of K. Else they are of K, 16 of them, and their
// chunks, along M or N, are as many as the product takes. In the canonical layouts (PTX ISA,
// "Shared Memory Matrix Layout")
//
//   with a swizzle   8 rows of 128, 64 or 32 bytes lie one behind the other
//     stride         from 8 rows to the next
//     leading        mn: from these 128, 64 or 32 bytes of each row to those that follow
//   without          8 rows of one chunk lie one behind the other
//     stride         k: from 8 rows to the next      mn: from a chunk of each row to the next
//     leading        k: from a chunk to the next     mn: from 8 rows to the next
//
// The swizzle flips bits of the address where the bit three above is set: bits 4 to 6 where 128
// bytes of a row lie side by side, 4 and 5 with 64, 4 with 32.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ladder::host {

/// The bits of a descriptor that say where a matrix in shared memory begins. Static shared memory
/// lies beyond what a GPU's can name, so there are more of them here, in bits that mean nothing
/// else: 52 to 57.
std::uint64_t descriptor_start(const void* matrix);

/// A descriptor in bytes (its other bits are in device/ptx/wgmma.hpp).
struct MatrixDescriptor {
  unsigned start = 0, leading = 0, stride = 0;
  unsigned base_offset = 0;
  unsigned row = 16;  // how much of a row lies side by side: 16 without a swizzle

  static MatrixDescriptor decode(std::uint64_t bits);
};

/// What is wrong with a descriptor, as the rest of a sentence about it; empty if nothing is.
std::string descriptor_error(std::uint64_t bits);

enum class WgmmaType { f16, bf16, tf32, e4m3, e5m2, s8, u8 };
enum class Major { k, mn };  // mn of f16 and bf16 only

struct Wgmma {
  WgmmaType type_a, type_b;  // the same, both of fp8, or both integers
  unsigned n;                // a multiple of 8, at most 256
  Major major_a, major_b;

  bool operator==(const Wgmma&) const = default;
};

/// What a product reads of shared memory: 32 bytes of each row of B, and of A if it is there.
inline unsigned bytes_read(const Wgmma& shape, bool a_is_shared) {
  return 32 * (shape.n + (a_is_shared ? 64 : 0));
}

/// The addresses of shared memory between which a product reads; of rows all 128 bytes.
struct AddressRange {
  unsigned begin, end;
};
std::vector<AddressRange> ranges_of_a(const Wgmma& shape, const MatrixDescriptor& a);
std::vector<AddressRange> ranges_of_b(const Wgmma& shape, const MatrixDescriptor& b);

/// The 16 bytes at an address of shared memory, a multiple of 16. Offsets may lead beyond the 18
/// bits that descriptors have for a start.
using ReadChunk = std::function<const void*(unsigned address)>;

/// D = A * B, + D if `add`. d[thread] are the N / 2 sums of a thread of the warpgroup: floats, of
/// integers std::int32_t. Each chunk of A, then of B, is read once.
void multiply(const Wgmma& shape, const MatrixDescriptor& a, const MatrixDescriptor& b,
              const ReadChunk& read, void* const* d, bool add);
/// The same with A in registers: a[thread] are four, in each warp as mma's A.
void multiply(const Wgmma& shape, const std::uint32_t* const* a, const MatrixDescriptor& b,
              const ReadChunk& read, void* const* d, bool add);

}  // namespace ladder::host
