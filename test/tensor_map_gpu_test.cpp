// The rules of the host executor's tensor maps are those of the GPU's driver: both refuse the same.
#include "gpu.hpp"

#include <array>
#include <random>
#include <stdexcept>
#include <string>

#include "device/tensor_map.hpp"
#include "host_executor/tensor_map.hpp"

namespace {

using ladder::TensorDimension;

class TensorMapRules : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Order, TensorMapRules, LADDER_ORDERS);

struct Arguments {
  bool is_double;
  std::uintptr_t base;
  std::array<TensorDimension, 5> d;
  int rank;
  CUtensorMapSwizzle swizzle;
};

bool driver_takes(const Arguments& a) {
  const auto make = [&](std::initializer_list<TensorDimension> tensor) {
    (void)ladder::tensor_map(a.is_double ? ladder::DType::f64 : ladder::DType::f32,
                             reinterpret_cast<const void*>(a.base), tensor, a.swizzle);
  };
  try {
    a.rank == 1   ? make({a.d[0]})
    : a.rank == 2 ? make({a.d[0], a.d[1]})
    : a.rank == 3 ? make({a.d[0], a.d[1], a.d[2]})
    : a.rank == 4 ? make({a.d[0], a.d[1], a.d[2], a.d[3]})
                  : make({a.d[0], a.d[1], a.d[2], a.d[3], a.d[4]});
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

/// "" if the host executor takes them, else its rule.
std::string rule_broken(const Arguments& a) {
  std::array<std::uint64_t, 5> sizes{}, strides{};
  std::array<std::uint32_t, 5> box{}, steps{};
  for (std::size_t i = 0; i < 5; ++i) {
    sizes[i] = static_cast<std::uint64_t>(a.d[i].size);
    strides[i] = static_cast<std::uint64_t>(a.d[i].stride);
    box[i] = static_cast<std::uint32_t>(a.d[i].box);
    steps[i] = static_cast<std::uint32_t>(a.d[i].step);
  }
  try {
    (void)ladder::host::encode_tensor_map(
        a.is_double ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        static_cast<unsigned>(a.rank), reinterpret_cast<void*>(a.base), sizes.data(),
        strides.data() + 1, box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, a.swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST_P(TensorMapRules, AreTheDrivers) {
  void* const memory = allocate(1 << 20);
  std::mt19937 random(20240607);
  const auto one_of = [&](auto... values) {
    const std::array<std::int64_t, sizeof...(values)> all{values...};
    return all[random() % all.size()];
  };
  int taken = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Arguments a{.is_double = random() % 2 == 0,
                .base = reinterpret_cast<std::uintptr_t>(memory) +
                        (random() % 8 == 0 ? one_of(4, 8, 16, 32) : 0),
                .d = {},
                .rank = static_cast<int>(random() % 5) + 1,
                .swizzle = static_cast<CUtensorMapSwizzle>(random() % 4)};
    for (TensorDimension& d : a.d) {
      const bool rare = random() % 16 == 0;
      d.size = rare ? one_of(0, 1, 1ll << 31, 1ll << 32, (1ll << 32) + 1) : one_of(1, 9, 64, 1000);
      d.stride = rare ? one_of(0, 8, 24, (1ll << 40) - 16, 1ll << 40) : one_of(16, 48, 4096);
      d.box = static_cast<int>(rare ? one_of(0, 1, 3, 256, 257) : one_of(2, 4, 8, 16, 32));
      d.step = static_cast<int>(random() % 32 == 0 ? one_of(0, 8, 9) : one_of(1, 1, 2));
    }
    const std::string rule = rule_broken(a);
    ASSERT_EQ(driver_takes(a), rule.empty())
        << "the host executor: " << (rule.empty() ? "taken" : rule) << "; rank " << a.rank
        << ", swizzle " << a.swizzle << ", " << (a.is_double ? "f64" : "f32")
        << ", base % 64 = " << a.base % 64 << [&] {
             std::string text;
             for (int k = 0; k < a.rank; ++k) {
               const TensorDimension& d = a.d[static_cast<std::size_t>(k)];
               text += "; size " + std::to_string(d.size) + ", stride " + std::to_string(d.stride) +
                       ", box " + std::to_string(d.box) + ", step " + std::to_string(d.step);
             }
             return text;
           }();
    ++(rule.empty() ? taken : refused);
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(refused, 2000);
  release(memory);
}

}  // namespace
