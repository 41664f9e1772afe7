// Tensor maps of the host executor: the rules of the driver's function, the elements of boxes, and
// the swizzles.
#include "host_executor/tensor_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "device/tensor_map.hpp"
#include "host_kernels.hpp"
#include "swizzled.hpp"

namespace {

using ladder::DType;
using ladder::host::decode;
using ladder::host::TensorMap;
using ladder::test::error_of;

constexpr std::uintptr_t kBase = 0x7000'0000'0000;  // no test reads what is there

struct Arguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  unsigned rank = 3;
  std::uintptr_t base = kBase;
  std::array<std::uint64_t, 5> sizes{100, 50, 20, 10, 5};
  std::array<std::uint64_t, 4> strides{416, 20'800, 416'000, 4'160'000};
  std::array<std::uint32_t, 5> box{8, 4, 3, 2, 2};
  std::array<std::uint32_t, 5> steps{1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  CUtensorMap encode() const {
    return ladder::host::encode_tensor_map(type, rank, reinterpret_cast<void*>(base), sizes.data(),
                                           strides.data(), box.data(), steps.data(), interleave,
                                           swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
  }
};

// --- The rules -----------------------------------------------------------------------------------

void interleave_32(Arguments& a) {
  a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
  a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
}

struct Case {
  std::string sentence;  // "" of what is allowed
  std::function<void(Arguments&)> change;
};

void expect_sentences(const std::vector<Case>& cases) {
  for (const auto& [sentence, change] : cases) {
    Arguments arguments;
    change(arguments);
    EXPECT_EQ(error_of([&] { (void)arguments.encode(); }),
              sentence.empty() ? "" : "a tensor map's " + sentence);
  }
}

TEST(TensorMap, RefusesWithTheRuleWhatTheDriverRefuses) {
  expect_sentences({
      {"", [](Arguments&) {}},
      {"rank is 0: not from 1 to 5", [](Arguments& a) { a.rank = 0; }},
      {"rank is 6: not from 1 to 5", [](Arguments& a) { a.rank = 6; }},
      {"base is 0x700000000008: no multiple of 16", [](Arguments& a) { a.base += 8; }},
      {"size 0 is 0: not from 1 to 2^32", [](Arguments& a) { a.sizes[0] = 0; }},
      {"size 2 is 4294967297: not from 1 to 2^32",
       [](Arguments& a) { a.sizes[2] = (1ull << 32) + 1; }},
      {"stride 1 is 24 bytes: no multiple of 16", [](Arguments& a) { a.strides[0] = 24; }},
      {"stride 2 is 1099511627776 bytes: not below 2^40",
       [](Arguments& a) { a.strides[1] = 1ull << 40; }},
      {"box 1 is 0: not from 1 to 256", [](Arguments& a) { a.box[1] = 0; }},
      {"box 2 is 257: not from 1 to 256", [](Arguments& a) { a.box[2] = 257; }},
      {"box is 24 bytes wide: no multiple of 16", [](Arguments& a) { a.box[0] = 6; }},
      {"box is 237568 bytes: more than the 233472 of an SM's shared memory",
       [](Arguments& a) {
         a.box = {16, 64, 58};
       }},
      {"element stride 1 is 0: not from 1 to 8", [](Arguments& a) { a.steps[1] = 0; }},
      {"element stride 0 is 9: not from 1 to 8", [](Arguments& a) { a.steps[0] = 9; }},
      {"swizzle is 4: none that Hopper has",
       [](Arguments& a) { a.swizzle = static_cast<CUtensorMapSwizzle>(4); }},
      {"data type is 3: no floating-point type, which a fill with NaN needs",
       [](Arguments& a) {
         a.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
         a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
       }},
  });
}

TEST(TensorMap, BoxesAreNoWiderThanTheSwizzle) {
  for (const int bytes : {32, 64, 128}) {
    const auto with_box = [bytes](std::uint32_t width) {
      return [=](Arguments& a) {
        a.swizzle = bytes == 32   ? CU_TENSOR_MAP_SWIZZLE_32B
                    : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                  : CU_TENSOR_MAP_SWIZZLE_128B;
        a.box[0] = width / 4;
      };
    };
    const auto width = static_cast<std::uint32_t>(bytes);
    expect_sentences({{"", with_box(width)},
                      {"", with_box(16)},
                      {"box is " + std::to_string(bytes + 16) + " bytes wide: more than the " +
                           std::to_string(bytes) + " of its swizzle",
                       with_box(width + 16)}});
  }
}

TEST(TensorMap, InterleavedOnesHaveRulesOfTheirOwnAndAreNotCopied) {
  expect_sentences({
      {"interleave is 2: none that the host executor copies", interleave_32},
      {"interleave is 1: none that the host executor copies",
       [](Arguments& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }},
      {"rank is 2: not from 3 to 5, and it is interleaved",
       [](Arguments& a) {
         a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
         a.rank = 2;
       }},
      {"base is 0x700000000010: no multiple of 32",
       [](Arguments& a) {
         interleave_32(a);
         a.base += 16;
       }},
      {"stride 1 is 48 bytes: no multiple of 32",
       [](Arguments& a) {
         interleave_32(a);
         a.strides[0] = 48;
       }},
      {"swizzle is 3: not that of 32 bytes, which the interleave of 32 bytes needs",
       [](Arguments& a) {
         interleave_32(a);
         a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
       }},
  });
}

TEST(TensorMap, RefusesTypesThatACopyChanges) {
  for (int type = 0; type < 16; ++type) {
    const bool plain = type <= CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    expect_sentences(
        {{plain ? ""
                : "data type is " + std::to_string(type) + ": none that the host executor copies",
          [&](Arguments& a) {
            a.type = static_cast<CUtensorMapDataType>(type);
            a.box[0] = 16;
          }}});
  }
}

TEST(TensorMap, TakesTheLargestOfEverything) {
  for (std::size_t d = 0; d < 5; ++d) {
    expect_sentences({{"", [d](Arguments& a) {
                         a.rank = 5;
                         a.sizes.fill(1ull << 32);
                         a.strides.fill((1ull << 40) - 16);
                         a.box = {4, 1, 1, 1, 1};
                         a.box[d] = 256;
                         a.steps.fill(8);
                       }}});
  }
}

TEST(TensorMap, BoxesAreAsLargeAsTheDriverCountsThem) {
  const auto with_steps = [](std::uint32_t of_0, std::uint32_t of_2) {
    return [=](Arguments& a) {
      a.box = {16, 64, 64};
      a.steps[0] = of_0;
      a.steps[2] = of_2;
    };
  };
  expect_sentences({
      {"",
       [](Arguments& a) {
         a.box = {16, 64, 57};
       }},
      {"box is 262144 bytes: more than the 233472 of an SM's shared memory", with_steps(1, 1)},
      {"", with_steps(2, 1)},  // though the innermost dimension is copied as if it had none
      {"",
       [](Arguments& a) {
         a.box = {16, 64, 115};
         a.steps[2] = 2;  // 57 of 58
       }},
  });
}

TEST(TensorMap, OnlyAnEncodedOneIsAMap) {
  CUtensorMap map = Arguments{}.encode();
  EXPECT_TRUE(decode(map));
  EXPECT_FALSE(decode(CUtensorMap{}));
  std::memset(&map, 0xa5, sizeof map);
  EXPECT_FALSE(decode(map));
}

// --- Boxes ---------------------------------------------------------------------------------------

/// The address of every element of a box in the order of shared memory, 0 if it is out of bounds.
std::vector<std::uintptr_t> elements(const Arguments& a, std::size_t element_bytes,
                                     const std::vector<int>& coordinates) {
  std::vector<std::uintptr_t> addresses{0};  // less base and, at first, the innermost dimensions
  std::vector<bool> inside{true};
  for (unsigned d = a.rank; d-- > 0;) {
    const long step = d == 0 ? 1 : a.steps[d], stride = d == 0 ? element_bytes : a.strides[d - 1];
    std::vector<std::uintptr_t> next;
    std::vector<bool> next_inside;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      for (long along = 0; along < a.box[d]; along += step) {
        const long at = coordinates[d] + along;
        next.push_back(addresses[i] + static_cast<std::uintptr_t>(at * stride));
        next_inside.push_back(inside[i] && 0 <= at && at < static_cast<long>(a.sizes[d]));
      }
    }
    addresses = next, inside = next_inside;
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    addresses[i] = inside[i] ? a.base + addresses[i] : 0;
  }
  return addresses;
}

/// The same from for_each_chunk, whose pieces must be in order and within their 16 bytes.
std::vector<std::uintptr_t> visited(const TensorMap& map, const std::vector<int>& coordinates) {
  std::vector<std::uintptr_t> addresses;
  std::size_t end = 0;
  for_each_chunk(map, coordinates.data(),
                 [&](std::size_t shared, const char* global, unsigned bytes) {
                   EXPECT_EQ(shared, end);
                   EXPECT_GT(bytes, 0u);
                   EXPECT_LE(shared % 16 + bytes, 16u);
                   EXPECT_EQ(bytes % map.element_bytes(), 0u);
                   for (unsigned i = 0; i < bytes; i += map.element_bytes()) {
                     const auto from = reinterpret_cast<std::uintptr_t>(global);
                     addresses.push_back(global == nullptr ? 0 : from + i);
                   }
                   end = shared + bytes;
                 });
  EXPECT_EQ(end, map.box_bytes());
  return addresses;
}

struct Type {
  CUtensorMapDataType type;
  unsigned bytes;
};
constexpr Type kTypes[] = {{CU_TENSOR_MAP_DATA_TYPE_UINT8, 1},
                           {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2},
                           {CU_TENSOR_MAP_DATA_TYPE_INT32, 4},
                           {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8}};

TEST(TensorBox, HasTheElementsOfATensorOfAnyRankAtEveryEdge) {
  std::mt19937 random(20240607);
  const auto from = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (unsigned rank = 1; rank <= 5; ++rank) {
    for (int i = 0; i < 400; ++i) {
      const auto [type, bytes] = kTypes[i % 4];
      Arguments a;
      a.type = type;
      a.rank = rank;
      std::vector<int> coordinates;
      for (unsigned d = 0; d < rank; ++d) {
        a.sizes[d] = static_cast<unsigned>(from(1, 20));
        a.steps[d] = static_cast<unsigned>(from(0, 2) == 0 ? from(1, 8) : 1);
        a.box[d] =
            static_cast<unsigned>(d == 0 ? from(1, 4) * 16 / static_cast<int>(bytes) : from(1, 6));
        const int size = static_cast<int>(a.sizes[d]), box = static_cast<int>(a.box[d]);
        coordinates.push_back(from(0, 3) == 0 ? from(-box - 2, size + 2) : from(-2, size - 1));
        if (d > 0) a.strides[d - 1] = static_cast<unsigned>(from(0, 40) * 16);  // in no order
      }
      const auto map = decode(a.encode());
      ASSERT_TRUE(map);
      ASSERT_EQ(map->element_bytes(), bytes);
      ASSERT_EQ(visited(*map, coordinates), elements(a, bytes, coordinates))
          << "rank " << rank << ", example " << i;
    }
  }
}

using Piece = std::tuple<std::size_t, std::uintptr_t, unsigned>;  // shared, global, bytes

std::vector<Piece> pieces(const Arguments& a, const std::vector<int>& coordinates) {
  std::vector<Piece> all;
  for_each_chunk(*decode(a.encode()), coordinates.data(),
                 [&](std::size_t shared, const char* global, unsigned bytes) {
                   all.emplace_back(shared, reinterpret_cast<std::uintptr_t>(global), bytes);
                 });
  return all;
}

TEST(TensorBox, IsSplitWhereTheTensorBeginsAndEnds) {
  Arguments a{.rank = 2, .sizes = {6, 2}, .strides = {32}, .box = {12, 2}};
  EXPECT_EQ(pieces(a, {-3, 1}), (std::vector<Piece>{{0, 0, 12},
                                                    {12, kBase + 32, 4},
                                                    {16, kBase + 36, 16},
                                                    {32, kBase + 52, 4},
                                                    {36, 0, 12},
                                                    {48, 0, 12},
                                                    {60, 0, 4},
                                                    {64, 0, 16},
                                                    {80, 0, 4},
                                                    {84, 0, 12}}));
}

TEST(TensorBox, OutsideOfTheTensorHasNoAddress) {
  const Arguments a;
  for (const std::vector<int>& outside : {std::vector{-8, 0, 0},
                                          {100, 0, 0},
                                          {0, -4, 0},
                                          {0, 50, 0},
                                          {0, 0, 20},
                                          {0, 0, -3},
                                          {INT32_MIN, 0, 0},
                                          {INT32_MAX, INT32_MAX, INT32_MAX}}) {
    for (const auto& [shared, global, bytes] : pieces(a, outside)) {
      EXPECT_EQ(global, 0u);
      EXPECT_EQ(bytes, 16u);
    }
  }
  EXPECT_EQ(decode(a.encode())->box_bytes(), 8u * 4 * 4 * 3);
}

TEST(TensorBox, ReachesBeyondTheLargestCoordinate) {
  Arguments a;
  a.rank = 2;
  a.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  a.sizes = {1ull << 32, 1ull << 32};
  a.strides = {1ull << 20};
  a.box = {32, 2};
  const std::uintptr_t row = kBase + (std::uintptr_t{INT32_MAX} << 20), next = row + (1 << 20);
  const std::uintptr_t x = INT32_MAX - 7;
  EXPECT_EQ(
      pieces(a, {INT32_MAX - 7, INT32_MAX}),
      (std::vector<Piece>{
          {0, row + x, 16}, {16, row + x + 16, 16}, {32, next + x, 16}, {48, next + x + 16, 16}}));
}

TEST(TensorBox, HasEveryStepthElement) {  // ceil(box / step), but in the innermost dimension
  Arguments a{.rank = 2, .sizes = {8, 6}, .strides = {32}, .box = {4, 5}, .steps = {2, 3}};
  EXPECT_EQ(decode(a.encode())->box_bytes(), 32u);
  EXPECT_EQ(pieces(a, {0, 1}), (std::vector<Piece>{{0, kBase + 32, 16}, {16, kBase + 128, 16}}));
  EXPECT_EQ(pieces(a, {0, -1}), (std::vector<Piece>{{0, 0, 16}, {16, kBase + 64, 16}}));
}

// --- What is out of bounds -----------------------------------------------------------------------

template <class T>
std::vector<double> filled(CUtensorMapDataType type, CUtensorMapFloatOOBfill fill) {
  T values[3];
  std::memset(static_cast<void*>(values), 0x11, sizeof values);
  Arguments a;
  a.type = type;
  a.fill = fill;
  decode(a.encode())->fill(values, 2 * sizeof(T));
  return {double(values[0]), double(values[1]), double(values[2])};
}

template <class T>
void expect_fill(CUtensorMapDataType type) {
  const auto zeros = filled<T>(type, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  const auto nans = filled<T>(type, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  for (const int i : {0, 1}) {
    EXPECT_EQ(zeros[i], 0);
    EXPECT_TRUE(std::isnan(nans[i]));
  }
  EXPECT_EQ(zeros[2], nans[2]);  // neither has touched it
}

TEST(TensorBox, IsFilledWithZerosOrWithNaNsOfItsType) {
  expect_fill<ladder::half>(CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  expect_fill<ladder::bfloat16>(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  expect_fill<float>(CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  expect_fill<double>(CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
}

// --- Swizzles ------------------------------------------------------------------------------------

using ladder::host::swizzle;

/// The same for 32 bytes as swizzled.hpp's for 64 and 128, in chunks.
int swizzled_32(int row, int chunk) { return row * 2 + (chunk ^ row / 4 % 2); }

TEST(Swizzle, IsThatOfTheOtherTests) {
  constexpr int kFirst = 3 << 10;  // the address of the first row
  for (int row = 0; row < 64; ++row) {
    for (int byte = 0; byte < 128; ++byte) {
      const int chunk = byte / 16;
      const auto place = [&](CUtensorMapSwizzle mode, int row_bytes) {
        return static_cast<int>(swizzle(mode, unsigned(kFirst + row * row_bytes + byte)));
      };
      const auto expected = [&](int chunks) { return kFirst + chunks * 16 + byte % 16; };
      EXPECT_EQ(place(CU_TENSOR_MAP_SWIZZLE_128B, 128), expected(swizzled(row, chunk)));
      EXPECT_EQ(place(CU_TENSOR_MAP_SWIZZLE_NONE, 128), expected(row * 8 + chunk));
      if (byte >= 64) continue;
      EXPECT_EQ(place(CU_TENSOR_MAP_SWIZZLE_64B, 64), expected(swizzled(row, chunk, 64)));
      if (byte >= 32) continue;
      EXPECT_EQ(place(CU_TENSOR_MAP_SWIZZLE_32B, 32), expected(swizzled_32(row, chunk)));
    }
  }
}

TEST(Swizzle, BeginsAnewAtTheAlignmentOfABox) {
  for (int mode = 0; mode < 4; ++mode) {
    Arguments a;
    a.swizzle = static_cast<CUtensorMapSwizzle>(mode);
    a.box[0] = 4;
    const unsigned alignment = decode(a.encode())->box_alignment();
    EXPECT_EQ(alignment, (std::array{128u, 256u, 512u, 1024u}[std::size_t(mode)]));
    unsigned different = 0;  // addresses for which half of it would not do
    for (unsigned address = 0; address < 2048; ++address) {
      const auto at = [&](unsigned first) { return swizzle(a.swizzle, first + address) - first; };
      EXPECT_EQ(at(alignment), at(0));
      different += at(alignment / 2) != at(0);
    }
    EXPECT_EQ(different > 0, mode != 0);
  }
}

// --- As versions make them -----------------------------------------------------------------------

TEST(TensorMapOfAVersion, HasItsTypeAndItsDimensions) {
  const void* const base = reinterpret_cast<const void*>(kBase);
  for (const auto& [type, bytes] : {std::pair{DType::f32, 4},
                                    {DType::f16, 2},
                                    {DType::bf16, 2},
                                    {DType::tf32, 4},
                                    {DType::e4m3, 1},
                                    {DType::e5m2, 1},
                                    {DType::e2m1, 1},
                                    {DType::f64, 8},
                                    {DType::i4, 1},
                                    {DType::i8, 1},
                                    {DType::i32, 4},
                                    {DType::i64, 8},
                                    {DType::u8, 1},
                                    {DType::u32, 4},
                                    {DType::u64, 8}}) {
    const auto map = decode(ladder::tensor_map(type, base,
                                               {{.size = 100, .stride = bytes, .box = 64 / bytes},
                                                {.size = 30, .stride = 1600, .box = 7},
                                                {.size = 3, .stride = 800, .box = 2}},
                                               CU_TENSOR_MAP_SWIZZLE_64B));
    ASSERT_TRUE(map);
    EXPECT_EQ(map->base, kBase);
    EXPECT_EQ(map->rank, 3);
    EXPECT_EQ(map->size, (std::array<std::uint64_t, 5>{100, 30, 3}));
    EXPECT_EQ(map->stride, (std::array<std::uint64_t, 5>{std::uint64_t(bytes), 1600, 800}));
    EXPECT_EQ(map->box_bytes(), 64u * 7 * 2);
    EXPECT_EQ(map->swizzle, CU_TENSOR_MAP_SWIZZLE_64B);
    EXPECT_FALSE(map->fills_with_nan);
  }
}

TEST(TensorMapOfAVersion, NamesTheRuleThatItBreaks) {
  const auto error = [](std::initializer_list<ladder::TensorDimension> tensor) {
    return error_of([&] {
      (void)ladder::tensor_map(DType::f32, reinterpret_cast<const void*>(kBase), tensor,
                               CU_TENSOR_MAP_SWIZZLE_NONE);
    });
  };
  const ladder::TensorDimension inner{.size = 4, .stride = 4, .box = 4};
  const ladder::TensorDimension outer{.size = 4, .stride = 16, .box = 4};
  EXPECT_EQ(error({inner, outer, outer, outer, outer}), "");
  EXPECT_EQ(error({inner, outer, outer, outer, outer, outer}),
            "a tensor map has at most 5 dimensions");
  EXPECT_EQ(error({}), "a tensor map's rank is 0: not from 1 to 5");
  EXPECT_EQ(error({inner, {.size = 4, .stride = 20, .box = 4}}),
            "a tensor map's stride 1 is 20 bytes: no multiple of 16");
  EXPECT_EQ(error({inner, {.size = -1, .stride = 16, .box = 4}}),
            "a tensor map's size 1 is 18446744073709551615: not from 1 to 2^32");
}

}  // namespace
