// The products of wgmma and the rows of stmatrix as the host executor makes them, by themselves.
#include "host_executor/wgmma.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "host_executor/fragments.hpp"
#include "swizzled.hpp"

namespace {

using ladder::host::descriptor_error;
using ladder::host::Major;
using ladder::host::MatrixDescriptor;
using ladder::host::multiply;
using ladder::host::Wgmma;
using ladder::host::WgmmaType;

using Half = __half;
using Bfloat16 = __nv_bfloat16;
using Tfloat32 = float;
using E4m3 = __nv_fp8_e4m3;
using E5m2 = __nv_fp8_e5m2;

template <class T>
constexpr WgmmaType kType = std::is_same_v<T, Half>          ? WgmmaType::f16
                            : std::is_same_v<T, Bfloat16>    ? WgmmaType::bf16
                            : std::is_same_v<T, Tfloat32>    ? WgmmaType::tf32
                            : std::is_same_v<T, E4m3>        ? WgmmaType::e4m3
                            : std::is_same_v<T, E5m2>        ? WgmmaType::e5m2
                            : std::is_same_v<T, std::int8_t> ? WgmmaType::s8
                                                             : WgmmaType::u8;
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, std::int32_t, float>;

template <class T>
T element_of(int value) {
  return T(static_cast<Sum<T>>(value));
}

/// How a slice of A or B lies in shared memory; all in bytes. A row is what lies side by side.
struct Layout {
  Major major;
  int row, leading, stride;

  int steps() const { return row == 16 ? 2 : major == Major::mn ? 4 : row / 32; }
  /// From a product's K to the next one's.
  int step() const { return row == 16 ? 2 * leading : major == Major::mn ? 2 * stride : 32; }
  template <class T>
  int at(int mn, int k) const {
    constexpr int kSize = sizeof(T), kChunk = 16 / kSize;
    const int r = major == Major::k ? mn : k, along = major == Major::k ? k : mn;
    const int byte = along % kChunk * kSize;
    if (row == 16) {  // core matrices: 8 rows of a chunk each
      const int of_r = major == Major::k ? stride : leading;
      const int of_chunks = major == Major::k ? leading : stride;
      return r / 8 * of_r + along / kChunk * of_chunks + r % 8 * 16 + byte;
    }
    const int chunks = row / 16, chunk = along / kChunk % chunks;
    const int place = row == 32 ? r % 8 * 2 + (chunk ^ r / 4 % 2) : swizzled(r % 8, chunk, row);
    return along / kChunk / chunks * leading + r / 8 * stride + place * 16 + byte;
  }
  std::uint64_t descriptor(int start) const {
    const auto units = [](int bytes) { return static_cast<std::uint64_t>(bytes / 16); };
    const std::uint64_t swizzle = row == 128 ? 1 : row == 64 ? 2 : row == 32 ? 3 : 0;
    return swizzle << 62 | units(stride) << 32 | units(leading) << 16 | units(start);
  }
};

constexpr int kUnused = 16;  // the leading offset along K
constexpr Layout kAlongK{Major::k, 128, kUnused, 1024};
constexpr Layout kAcrossK{Major::mn, 128, 8192, 1024};

std::mt19937 generator(20240607);
int random_integer(int largest) {
  return std::uniform_int_distribution(-largest, largest)(generator);
}

/// Shared memory, and what of it is read.
class Shared {
 public:
  template <class T>
  void put(int address, T element) {
    std::memcpy(&bytes_.at(static_cast<std::size_t>(address)), static_cast<const void*>(&element),
                sizeof(T));
  }
  ladder::host::ReadChunk reader() {
    return [this](unsigned address) -> const void* {
      EXPECT_EQ(address % 16, 0u);
      ++reads_.at(address / 16);
      return &bytes_.at(address);
    };
  }
  /// How many chunks have been read, each of them once.
  int chunks_read() const {
    EXPECT_LE(*std::max_element(reads_.begin(), reads_.end()), 1);
    return std::accumulate(reads_.begin(), reads_.end(), 0);
  }
  /// Whether what has been read in half 0 or 1 of memory is in these ranges, and something of every
  /// row of theirs.
  bool was_read(int half, const std::vector<ladder::host::AddressRange>& ranges) const {
    std::vector<bool> expected(1 << 11), read(1 << 11);  // by row, of 128 bytes
    for (const auto& [begin, end] : ranges) {
      std::fill(expected.begin() + begin / 128, expected.begin() + end / 128, true);
    }
    for (std::size_t i = 0; i < reads_.size(); ++i) read[i / 8] = read[i / 8] || reads_[i] > 0;
    const int first = half << 10;
    return std::equal(expected.begin() + first, expected.begin() + first + (1 << 10),
                      read.begin() + first);
  }
  void forget_reads() { std::fill(reads_.begin(), reads_.end(), 0); }

 private:
  std::vector<unsigned char> bytes_ = std::vector<unsigned char>(1 << 18);
  std::vector<int> reads_ = std::vector<int>((1 << 18) / 16);
};

/// The registers of a warpgroup: some for each thread.
template <class T>
class Registers {
 public:
  explicit Registers(int each) : values_(static_cast<std::size_t>(128 * each)) {
    for (int thread = 0; thread < 128; ++thread) threads_.push_back(&values_[thread * each]);
  }
  T* const* threads() { return threads_.data(); }
  /// The same, as multiply() takes sums.
  void* const* sums() { return reinterpret_cast<void* const*>(threads_.data()); }

 private:
  std::vector<T> values_;
  std::vector<T*> threads_;
};

/// Element (row, column) of D.
template <class T>
T& element(T* const* d, int row, int column) {
  const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
  return d[thread][column / 8 * 4 + row % 16 / 8 * 2 + column % 2];
}

/// A random element's value: a small integer, of which all sums are exact (of fp8 they keep 14
/// bits), or any integer that T has.
template <class T>
int random_element() {
  if constexpr (std::is_integral_v<T>) {
    return std::uniform_int_distribution<int>(std::numeric_limits<T>::min(),
                                              std::numeric_limits<T>::max())(generator);
  } else {
    return random_integer(8);
  }
}

template <class A, class B = A>
void expect_product(int n, const Layout& of_a, const Layout& of_b, bool in_registers, bool add) {
  SCOPED_TRACE(testing::Message() << "64 x " << n << ", rows of " << of_a.row << " and " << of_b.row
                                  << (add ? ", added" : "") << (in_registers ? ", registers" : ""));
  constexpr int kStepK = 32 / sizeof(A), kStartA = 2048, kStartB = 1 << 17;
  const int steps = std::min(of_a.steps(), of_b.steps()), K = steps * kStepK;
  std::vector<int> a(64 * K), b(n * K);
  Shared shared;
  for (int i = 0; i < 64 * K; ++i) {
    a[i] = random_element<A>();
    shared.put<A>(kStartA + of_a.at<A>(i / K, i % K), element_of<A>(a[i]));
  }
  for (int i = 0; i < n * K; ++i) {
    b[i] = random_element<B>();
    shared.put<B>(kStartB + of_b.at<B>(i / K, i % K), element_of<B>(b[i]));
  }
  std::vector<Sum<A>> expected(64 * n);
  Registers<Sum<A>> d(n / 2);
  for (int i = 0; i < 64 * n; ++i) {
    Sum<A>& sum = element(d.threads(), i / n, i % n);
    sum = static_cast<Sum<A>>(random_integer(100));
    expected[i] = add ? sum : 0;
    for (int k = 0; k < K; ++k) {
      expected[i] += static_cast<Sum<A>>(a[i / n * K + k] * b[i % n * K + k]);
    }
  }

  const Wgmma shape{kType<A>, kType<B>, static_cast<unsigned>(n), of_a.major, of_b.major};
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t bits_a = of_a.descriptor(kStartA + step * of_a.step());
    const std::uint64_t bits_b = of_b.descriptor(kStartB + step * of_b.step());
    ASSERT_EQ(descriptor_error(bits_a), "");
    ASSERT_EQ(descriptor_error(bits_b), "");
    const auto from_a = MatrixDescriptor::decode(bits_a), from_b = MatrixDescriptor::decode(bits_b);
    if (in_registers) {
      Registers<std::uint32_t> fragments(4);
      for (int row = 0; row < 64; ++row) {
        for (int k = 0; k < kStepK; ++k) {
          constexpr int kPerWord = 4 / sizeof(A);
          const int word = k / kPerWord, thread = row / 16 * 32 + row % 8 * 4 + word % 4;
          const A value = element_of<A>(a[row * K + step * kStepK + k]);
          std::uint32_t& to = fragments.threads()[thread][word / 4 * 2 + row % 16 / 8];
          std::memcpy(reinterpret_cast<char*>(&to) + k % kPerWord * sizeof(A),
                      static_cast<const void*>(&value), sizeof(A));
        }
      }
      multiply(shape, fragments.threads(), from_b, shared.reader(), d.sums(), add || step > 0);
    } else {
      multiply(shape, from_a, from_b, shared.reader(), d.sums(), add || step > 0);
      ASSERT_TRUE(shared.was_read(0, ranges_of_a(shape, from_a)));
    }
    ASSERT_TRUE(shared.was_read(1, ranges_of_b(shape, from_b)));
    ASSERT_EQ(shared.chunks_read(), 2 * n + (in_registers ? 0 : 2 * 64));
    shared.forget_reads();
  }
  for (int i = 0; i < 64 * n; ++i) {
    ASSERT_EQ(element(d.threads(), i / n, i % n), expected[i])
        << "row " << i / n << ", column " << i % n;
  }
}

template <class A, class B = A>
void expect_products(const Layout& a, const Layout& b) {
  for (const int n : {8, 16, 64, 96, 128, 192, 224, 256}) {
    expect_product<A, B>(n, a, b, false, false);
    expect_product<A, B>(n, a, b, false, true);
    expect_product<A, B>(n, a, b, true, true);
  }
}

TEST(WgmmaOnHost, F16) { expect_products<Half>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, F16AAcrossK) { expect_products<Half>(kAcrossK, kAlongK); }
TEST(WgmmaOnHost, F16BAcrossK) { expect_products<Half>(kAlongK, kAcrossK); }
TEST(WgmmaOnHost, F16BothAcrossK) { expect_products<Half>(kAcrossK, kAcrossK); }
TEST(WgmmaOnHost, Bf16) { expect_products<Bfloat16>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, Bf16BothAcrossK) { expect_products<Bfloat16>(kAcrossK, kAcrossK); }
TEST(WgmmaOnHost, Tf32) { expect_products<Tfloat32>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, E4m3) { expect_products<E4m3>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, E5m2) { expect_products<E5m2>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, E4m3ByE5m2) { expect_products<E4m3, E5m2>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, E5m2ByE4m3) { expect_products<E5m2, E4m3>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, S8) { expect_products<std::int8_t>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, U8) { expect_products<std::uint8_t>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, S8ByU8) { expect_products<std::int8_t, std::uint8_t>(kAlongK, kAlongK); }
TEST(WgmmaOnHost, U8ByS8) { expect_products<std::uint8_t, std::int8_t>(kAlongK, kAlongK); }

/// Every layout with each other, in its smallest form and with gaps.
template <class T>
void expect_products_of(const std::vector<Layout>& layouts) {
  for (const Layout& a : layouts) {
    for (const Layout& b : layouts) expect_product<T>(96, a, b, false, false);
  }
}
TEST(WgmmaOnHost, EverySwizzleAlongK) {
  const std::vector<Layout> layouts{
      {Major::k, 128, kUnused, 1024}, {Major::k, 128, 4096, 3072},  {Major::k, 64, kUnused, 512},
      {Major::k, 64, kUnused, 1536},  {Major::k, 32, kUnused, 256}, {Major::k, 32, kUnused, 1280},
      {Major::k, 16, 128, 512},       {Major::k, 16, 2048, 128},    {Major::k, 16, 4112, 144}};
  expect_products_of<Half>(layouts);
  expect_products_of<Bfloat16>(layouts);
  expect_products_of<Tfloat32>(layouts);
  expect_products_of<E4m3>(layouts);
}
TEST(WgmmaOnHost, EverySwizzleAcrossK) {
  const std::vector<Layout> layouts{
      {Major::mn, 128, 8192, 1024}, {Major::mn, 128, 12288, 1024}, {Major::mn, 128, 1024, 2048},
      {Major::mn, 64, 4096, 512},   {Major::mn, 64, 512, 2048},    {Major::mn, 32, 2048, 256},
      {Major::mn, 32, 256, 2048},   {Major::mn, 16, 128, 512},     {Major::mn, 16, 2048, 128}};
  expect_products_of<Half>(layouts);
  expect_products_of<Bfloat16>(layouts);
}

// --- Precision -----------------------------------------------------------------------------------

/// What becomes of a sum when row 0 of A is multiplied with ones.
template <class T>
Sum<T> sum_of(const std::vector<T>& row, Sum<T> sum) {
  Shared shared;
  for (unsigned k = 0; k < row.size(); ++k) {
    shared.put<T>(kAlongK.at<T>(0, static_cast<int>(k)), row[k]);
  }
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < static_cast<int>(32 / sizeof(T)); ++k) {
      shared.put<T>(65536 + kAlongK.at<T>(n, k), element_of<T>(1));
    }
  }
  Registers<Sum<T>> d(4);
  for (int i = 0; i < 64 * 8; ++i) element(d.threads(), i / 8, i % 8) = i < 8 ? sum : 0;
  multiply({kType<T>, kType<T>, 8, Major::k, Major::k},
           MatrixDescriptor::decode(kAlongK.descriptor(0)),
           MatrixDescriptor::decode(kAlongK.descriptor(65536)), shared.reader(), d.sums(), true);
  return element(d.threads(), 0, 5);
}

TEST(WgmmaOnHost, SumsOfE4m3AreCutOff13BitsBehindTheLargestNumber) {
  const E4m3 one(1.0f), three(3.0f);
  EXPECT_EQ(sum_of<E4m3>({one, three}, 0x1p13f), 0x1p13f + 4);
  EXPECT_EQ(sum_of<E4m3>({one, three, three}, 0x1p14f), 0x1p14f + 4);  // 1 is none, 3 are 2
  EXPECT_EQ(sum_of<E4m3>({one, E4m3(-3.0f)}, 0x1p14f), 0x1p14f - 2);
  EXPECT_EQ(sum_of<E4m3>({one, three}, -0x1p14f - 1), -0x1p14f + 2);
  EXPECT_EQ(sum_of<E4m3>({E4m3(448.0f), E4m3(0x1p-5f), E4m3(0x1p-6f)}, 0), 448 + 0x1p-5f);
  EXPECT_EQ(sum_of<E4m3>({E4m3(0x1p-9f)}, 0x1p-13f), 0x1p-9f + 0x1p-13f);
  EXPECT_EQ(sum_of<E4m3>({}, 0), 0);
  EXPECT_TRUE(std::isnan(sum_of<E4m3>({one, E4m3(NAN)}, 1)));
  EXPECT_TRUE(std::isnan(sum_of<E4m3>({one}, NAN)));
  EXPECT_EQ(sum_of<E4m3>({one}, -INFINITY), -INFINITY);
}

TEST(WgmmaOnHost, SumsOfE5m2AreCutOffAsThoseOfE4m3) {
  const E5m2 one(1.0f), three(3.0f);
  const auto infinity = std::bit_cast<E5m2>(std::uint8_t{0x7c});  // a conversion saturates
  const auto minus_infinity = std::bit_cast<E5m2>(std::uint8_t{0xfc});
  EXPECT_EQ(sum_of<E5m2>({one, three, three}, 0x1p14f), 0x1p14f + 4);
  EXPECT_EQ(sum_of<E5m2>({E5m2(57344.0f), E5m2(4.0f), E5m2(2.0f)}, 0), 57344 + 4);
  EXPECT_EQ(sum_of<E5m2>({one, infinity}, 0), INFINITY);
  EXPECT_TRUE(std::isnan(sum_of<E5m2>({infinity, minus_infinity}, 0)));
}

TEST(WgmmaOnHost, SumsOfIntegersWrapAround) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(sum_of<std::uint8_t>(std::vector<std::uint8_t>(32, 255), kMost - 10),
            std::numeric_limits<std::int32_t>::min() + 32 * 255 - 11);
  EXPECT_EQ(sum_of<std::int8_t>({-1, -1}, -kMost), kMost);
}

TEST(WgmmaOnHost, OtherSumsAreInFp32) {
  EXPECT_EQ(sum_of<Half>({Half(1.0f), Half(3.0f)}, 0x1p23f), 0x1p23f + 4);
  EXPECT_EQ(sum_of<Half>({Half(0x1p-24f)}, 0), 0x1p-24f);
  EXPECT_EQ(sum_of<Bfloat16>({Bfloat16(0x1p-100f)}, 0), 0x1p-100f);
}

TEST(WgmmaOnHost, TheLast13BitsOfATf32AreNotLookedAt) {
  EXPECT_EQ(sum_of<Tfloat32>({std::bit_cast<float>(0x3f801fffu)}, 0), 1);
  EXPECT_EQ(sum_of<Tfloat32>({std::bit_cast<float>(0x3f802000u)}, 0), 1 + 0x1p-10f);
}

// --- Descriptors ---------------------------------------------------------------------------------

TEST(WgmmaDescriptor, HasItsFieldsInBytes) {
  const auto matrix = MatrixDescriptor::decode(0x8006'0123'0045'3fffu);
  EXPECT_EQ(matrix.start, 0x3fff0u);
  EXPECT_EQ(matrix.leading, 0x450u);
  EXPECT_EQ(matrix.stride, 0x1230u);
  EXPECT_EQ(matrix.base_offset, 3u);
  EXPECT_EQ(matrix.row, 64u);
}

TEST(WgmmaDescriptor, NamesStaticSharedMemoryBeyondTheBitsOfAGpus) {
  const std::uint64_t bits = Layout{Major::k, 128, kUnused, 1024}.descriptor(8192);
  const auto matrix = MatrixDescriptor::decode(bits | std::uint64_t{5} << 52);
  EXPECT_EQ(matrix.start, (5u << 18) + 8192);
  EXPECT_EQ(matrix.stride, 1024u);
  EXPECT_EQ(matrix.row, 128u);
}

TEST(WgmmaDescriptor, ErrorsSayWhatIsUndefined) {
  for (const int row : {128, 64, 32, 16}) {
    const Layout layout{Major::k, row, kUnused, 8 * row};
    const std::uint64_t bits = layout.descriptor(8192);
    EXPECT_EQ(descriptor_error(bits), "");
    EXPECT_EQ(descriptor_error(layout.descriptor(8192 + row - 16)), "");
    EXPECT_EQ(descriptor_error(bits | 1 << 14), "begins beyond the 256 KiB that it can name");
    EXPECT_EQ(descriptor_error(bits | 1 << 15), "begins beyond the 256 KiB that it can name");
    for (const int bit : {30, 31, 46, 47, 48, 58, 61}) {
      EXPECT_EQ(descriptor_error(bits | std::uint64_t{1} << bit),
                "has other bits than its fields'");
    }
    EXPECT_EQ(descriptor_error(bits | std::uint64_t{5} << 49),
              "has base offset 5, and the host executor knows only 0");
    EXPECT_EQ(descriptor_error(layout.descriptor(8192 + 3 * row)),
              row == 16 ? "" : "begins in row 3 of the swizzle's 8, and its base offset is 0");
  }
}

// --- stmatrix ------------------------------------------------------------------------------------

// The lanes of ldmatrix.hpp's pictures
constexpr unsigned kLanes[8][8] = {
    {0, 0, 1, 1, 2, 2, 3, 3},         {4, 4, 5, 5, 6, 6, 7, 7},
    {8, 8, 9, 9, 10, 10, 11, 11},     {12, 12, 13, 13, 14, 14, 15, 15},
    {16, 16, 17, 17, 18, 18, 19, 19}, {20, 20, 21, 21, 22, 22, 23, 23},
    {24, 24, 25, 25, 26, 26, 27, 27}, {28, 28, 29, 29, 30, 30, 31, 31}};
constexpr unsigned kLanesTransposed[8][8] = {
    {0, 4, 8, 12, 16, 20, 24, 28},  {0, 4, 8, 12, 16, 20, 24, 28},  {1, 5, 9, 13, 17, 21, 25, 29},
    {1, 5, 9, 13, 17, 21, 25, 29},  {2, 6, 10, 14, 18, 22, 26, 30}, {2, 6, 10, 14, 18, 22, 26, 30},
    {3, 7, 11, 15, 19, 23, 27, 31}, {3, 7, 11, 15, 19, 23, 27, 31}};

/// Each half of a register says whose it is: matrix, lane, half.
template <bool kTransposed>
void expect_picture(const unsigned (&lanes)[8][8]) {
  std::uint32_t words[32][4];
  const std::uint32_t* fragments[32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      words[lane][i] = (1000 * i + 10 * lane) | (1000 * i + 10 * lane + 1) << 16;
    }
    fragments[lane] = words[lane];
  }
  std::uint16_t rows[32][8];
  ladder::host::store_matrices<kTransposed>(fragments, rows);
  for (unsigned i = 0; i < 32; ++i) {
    for (unsigned column = 0; column < 8; ++column) {
      const unsigned half = kTransposed ? i % 2 : column % 2;  // the upper or left one is low
      EXPECT_EQ(rows[i][column], 1000 * (i / 8) + 10 * lanes[i % 8][column] + half)
          << "address " << i << ", column " << column;
    }
  }
}

TEST(StmatrixOnHost, RowsAreLdmatrixs) { expect_picture<false>(kLanes); }
TEST(StmatrixOnHost, TransposedRowsAreLdmatrixs) { expect_picture<true>(kLanesTransposed); }

}  // namespace
