#include "host_executor/wgmma.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "host_executor/fragments.hpp"
#include "host_executor/memory.hpp"

namespace ladder::host {
namespace {

constexpr unsigned kM = 64, kMostN = 256, kThreads = 128;

using Four [[gnu::vector_size(16)]] = float;
using FourWords [[gnu::vector_size(16)]] = std::uint32_t;

/// Where chunk `chunk` of row `row` lies.
unsigned chunk_address(const MatrixDescriptor& matrix, Major major, unsigned row, unsigned chunk) {
  const unsigned chunks = matrix.row / 16;  // a power of two
  const bool exchanged = major == Major::mn && chunks == 1;
  const unsigned from_rows = exchanged ? matrix.leading : matrix.stride;
  const unsigned from_chunks = exchanged ? matrix.stride : matrix.leading;
  const unsigned address = matrix.start + row / 8 * from_rows + row % 8 * matrix.row +
                           chunk / chunks * from_chunks + chunk % chunks * 16;
  return address ^ (address >> 7 & (chunks - 1)) << 4;
}

/// Calls visit(row, chunk, address) for the chunks of A or B.
template <class Visit>
void for_each_chunk(const MatrixDescriptor& matrix, Major major, unsigned size, unsigned bytes,
                    Visit visit) {
  const unsigned rows = major == Major::k ? size : 32 / bytes;
  const unsigned chunks = major == Major::k ? 2 : size * bytes / 16;
  for (unsigned row = 0; row < rows; ++row) {
    for (unsigned chunk = 0; chunk < chunks; ++chunk) {
      visit(row, chunk, chunk_address(matrix, major, row, chunk));
    }
  }
}

/// The elements of A or B of type T, in fours along M or N.
template <class T, unsigned kMost>
class Operand {
 public:
  static constexpr unsigned kPerWord = 4 / sizeof(T), kPerChunk = 16 / sizeof(T),
                            kK = 32 / sizeof(T);

  float at(unsigned mn, unsigned k) const { return at_[mn / 4][k][mn % 4]; }
  /// Those of mn, a multiple of 4, and the next three, for every k.
  const Four* fours(unsigned mn) const { return at_[mn / 4]; }

  void read(const MatrixDescriptor& matrix, Major major, unsigned size, const ReadChunk& read) {
    for_each_chunk(matrix, major, size, sizeof(T), [&](unsigned row, unsigned chunk, unsigned at) {
      std::uint32_t words[4];
      std::memcpy(words, read(at), sizeof(words));
      float elements[kPerChunk];
      for (unsigned i = 0; i < 4; ++i) unpack<T>(words[i], &elements[i * kPerWord]);
      for (unsigned i = 0; i < kPerChunk; ++i) {
        const unsigned along = chunk * kPerChunk + i;
        set(major == Major::k ? row : along, major == Major::k ? along : row, elements[i]);
      }
    });
  }

  /// A as it lies in registers.
  void read(const std::uint32_t* const* registers) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      const unsigned lane = thread % 32, group = lane / 4, t = lane % 4;
      for (unsigned i = 0; i < 4; ++i) {
        float elements[kPerWord];
        unpack<T>(registers[thread][i], elements);
        for (unsigned j = 0; j < kPerWord; ++j) {
          set(thread / 32 * 16 + group + i % 2 * 8, (t + i / 2 * 4) * kPerWord + j, elements[j]);
        }
      }
    }
  }

 private:
  void set(unsigned mn, unsigned k, float element) { at_[mn / 4][k][mn % 4] = element; }

  Four at_[kMost / 4][kK];
};

/// `sum` + the sum of a[k] * b[k]. The products are exact (of bf16, if they are neither too large
/// nor too small for fp32), and added to the sum in fp32, one by one; of integers that is exact if
/// `sum` is 0. Tensor cores add them in groups and cut each number off at the last bit of the
/// group's largest (device/ptx/mma.hpp).
template <unsigned kK>
Four add_products(const float (&a)[kK], const Four* b, Four sum) {
  for (unsigned k = 0; k < kK; ++k) sum += a[k] * b[k];
  return sum;
}

Four masked(Four x, std::uint32_t mask) {
  return std::bit_cast<Four>(std::bit_cast<FourWords>(x) & mask);
}
Four magnitude(Four x) { return masked(x, 0x7fffffff); }

/// Towards zero; |x| < 2^22, or x is no number.
Four whole(Four x) {
  const Four exact = magnitude(x), nearest = exact + 0x1p23f - 0x1p23f;
  const Four below = nearest - (nearest > exact ? Four{1, 1, 1, 1} : Four{});
  return std::bit_cast<Four>(std::bit_cast<FourWords>(below) |
                             std::bit_cast<FourWords>(masked(x, 0x80000000)));
}

/// The same as Hopper does it for fp8: all numbers are cut off 13 bits behind the first bit of the
/// largest one, and then the sum is exact.
template <unsigned kK>
Four add_cut_products(const float (&a)[kK], const Four* b, Four sum) {
  Four largest = magnitude(sum);
  for (unsigned k = 0; k < kK; ++k) {
    const Four product = magnitude(a[k] * b[k]);
    largest = largest < product ? product : largest;
  }
  // By `scale` the last bit that stays becomes 1. Sums below 2^-112 need not be told from 0.
  const FourWords exponent = std::bit_cast<FourWords>(largest) >> 23;
  const Four scale = std::bit_cast<Four>((127 + 13 + 127 - (exponent < 14 ? 14 : exponent)) << 23);
  sum = whole(sum * scale);
  for (unsigned k = 0; k < kK; ++k) sum += whole(a[k] * b[k] * scale);
  return sum / scale;
}

std::int32_t wrapping_sum(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

/// Of a row and four columns: four of D.
template <class Sum, bool kCut, unsigned kK>
void add_to(Sum (&sums)[4], const float (&a)[kK], const Four* b) {
  if constexpr (std::is_same_v<Sum, float>) {
    Four sum;
    for (unsigned i = 0; i < 4; ++i) sum[i] = sums[i];
    sum = kCut ? add_cut_products(a, b, sum) : add_products(a, b, sum);
    for (unsigned i = 0; i < 4; ++i) sums[i] = sum[i];
  } else {
    const Four sum = add_products(a, b, Four{});
    for (unsigned i = 0; i < 4; ++i) {
      sums[i] = wrapping_sum(sums[i], static_cast<std::int32_t>(sum[i]));
    }
  }
}

template <class A, class B, class ReadA>
void multiply_of(const Wgmma& shape, const ReadA& read_a, const MatrixDescriptor& b,
                 const ReadChunk& read, void* const* d, bool add) {
  using Sum = std::conditional_t<std::is_integral_v<A>, std::int32_t, float>;
  constexpr unsigned kK = Operand<A, kM>::kK;
  Operand<A, kM> operand_a;
  Operand<B, kMostN> operand_b;
  read_a(operand_a);
  operand_b.read(b, shape.major_b, shape.n, read);
  for (unsigned row = 0; row < kM; ++row) {
    float a[kK];
    for (unsigned k = 0; k < kK; ++k) a[k] = operand_a.at(row, k);
    for (unsigned column = 0; column < shape.n; column += 4) {
      // Two threads have two columns each.
      void* const* const thread = d + row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      const unsigned first = column / 8 * 4 + row % 16 / 8 * 2;
      const auto of_d = [&](unsigned i) -> Sum& {
        return static_cast<Sum*>(thread[i / 2])[first + i % 2];
      };
      Sum sums[4]{};
      for (unsigned i = 0; add && i < 4; ++i) sums[i] = of_d(i);
      add_to<Sum, sizeof(A) == 1>(sums, a, operand_b.fours(column));
      for (unsigned i = 0; i < 4; ++i) of_d(i) = sums[i];
    }
  }
}

template <class ReadA>
void multiply_any(const Wgmma& shape, const ReadA& read_a, const MatrixDescriptor& b,
                  const ReadChunk& read, void* const* d, bool add) {
  const auto of = [&](auto of_a, auto of_b) {
    multiply_of<decltype(of_a), decltype(of_b)>(shape, read_a, b, read, d, add);
  };
  const bool same = shape.type_a == shape.type_b;
  using E4m3 = __nv_fp8_e4m3;
  using E5m2 = __nv_fp8_e5m2;
  switch (shape.type_a) {
    case WgmmaType::f16:
      return of(__half{}, __half{});
    case WgmmaType::bf16:
      return of(__nv_bfloat16{}, __nv_bfloat16{});
    case WgmmaType::tf32:
      return of(float{}, float{});
    case WgmmaType::e4m3:
      return same ? of(E4m3{}, E4m3{}) : of(E4m3{}, E5m2{});
    case WgmmaType::e5m2:
      return same ? of(E5m2{}, E5m2{}) : of(E5m2{}, E4m3{});
    case WgmmaType::s8:
      return same ? of(std::int8_t{}, std::int8_t{}) : of(std::int8_t{}, std::uint8_t{});
    case WgmmaType::u8:
      return same ? of(std::uint8_t{}, std::uint8_t{}) : of(std::uint8_t{}, std::int8_t{});
  }
}

}  // namespace

std::uint64_t descriptor_start(const void* matrix) {
  const std::uint64_t address = shared_address(matrix);
  return (address & 0x3ffff) / 16 | address >> 18 << 52;
}

MatrixDescriptor MatrixDescriptor::decode(std::uint64_t bits) {
  const auto bytes = [&](int first) { return static_cast<unsigned>(bits >> first & 0x3fff) * 16; };
  constexpr unsigned kRow[] = {16, 128, 64, 32};
  return {.start = bytes(0) | static_cast<unsigned>(bits >> 52 & 0x3f) << 18,
          .leading = bytes(16),
          .stride = bytes(32),
          .base_offset = static_cast<unsigned>(bits >> 49 & 7),
          .row = kRow[bits >> 62]};
}

std::string descriptor_error(std::uint64_t bits) {
  const auto matrix = MatrixDescriptor::decode(bits);
  if ((bits & 0xc000) != 0) return "begins beyond the 256 KiB that it can name";
  if ((bits & 0x3c01'c000'c000'0000) != 0) return "has other bits than its fields'";
  if (matrix.base_offset != 0) {
    return "has base offset " + std::to_string(matrix.base_offset) +
           ", and the host executor knows only 0";
  }
  const unsigned row = matrix.start % (8 * matrix.row) / matrix.row;
  if (matrix.row > 16 && row != 0) {
    return "begins in row " + std::to_string(row) + " of the swizzle's 8, and its base offset is 0";
  }
  return {};
}

namespace {

unsigned bytes_of(WgmmaType type) {
  switch (type) {
    case WgmmaType::tf32:
      return 4;
    case WgmmaType::f16:
    case WgmmaType::bf16:
      return 2;
    default:
      return 1;
  }
}

std::vector<AddressRange> ranges_of(const MatrixDescriptor& matrix, WgmmaType type, Major major,
                                    unsigned size) {
  constexpr unsigned kRow = 128;
  const unsigned bytes = bytes_of(type);
  std::vector<AddressRange> ranges;
  for_each_chunk(matrix, major, size, bytes, [&](unsigned, unsigned, unsigned at) {
    const unsigned begin = at / kRow * kRow, end = begin + kRow;
    for (AddressRange& range : ranges) {
      if (begin > range.end || end < range.begin) continue;
      range = {std::min(range.begin, begin), std::max(range.end, end)};
      return;
    }
    ranges.push_back({begin, end});
  });
  return ranges;
}

}  // namespace

std::vector<AddressRange> ranges_of_a(const Wgmma& shape, const MatrixDescriptor& a) {
  return ranges_of(a, shape.type_a, shape.major_a, kM);
}
std::vector<AddressRange> ranges_of_b(const Wgmma& shape, const MatrixDescriptor& b) {
  return ranges_of(b, shape.type_b, shape.major_b, shape.n);
}

void multiply(const Wgmma& shape, const MatrixDescriptor& a, const MatrixDescriptor& b,
              const ReadChunk& read, void* const* d, bool add) {
  multiply_any(
      shape, [&](auto& operand) { operand.read(a, shape.major_a, kM, read); }, b, read, d, add);
}

void multiply(const Wgmma& shape, const std::uint32_t* const* a, const MatrixDescriptor& b,
              const ReadChunk& read, void* const* d, bool add) {
  multiply_any(
      shape, [&](auto& operand) { operand.read(a); }, b, read, d, add);
}

}  // namespace ladder::host
