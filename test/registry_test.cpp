// What the build compiled is what registered.
#include "harness/registry.hpp"
#include "harness/family.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#if __has_include(<cuda_fp4.h>)
#include <cuda_fp4.h>
#endif

namespace ladder {
namespace {

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> kernels = registered_kernels();
  for (const Kernel& kernel : open_host_device()->kernels()) kernels.push_back(kernel);
  return kernels;
}

TEST(Registry, EveryKernelFileRegisters) {
  std::set<std::string> files;
  for (const Kernel& kernel : all_kernels())
    files.insert(std::filesystem::path(kernel.file).filename());
  std::ifstream compiled(LADDER_KERNEL_FILES);
  ASSERT_TRUE(compiled);
  for (std::string file; std::getline(compiled, file);) {
    EXPECT_TRUE(files.contains(file)) << file << " registers nothing";
  }
}

TEST(Registry, HostExecutorHasEveryVersionThatIsNotGpuOnly) {
  std::set<std::string> on_host;
  for (const Kernel& kernel : open_host_device()->kernels()) on_host.insert(full_name(kernel));
  EXPECT_FALSE(on_host.empty());
  for (const Kernel& kernel : registered_kernels()) {
    const std::string name = std::filesystem::path(kernel.file).filename();
    const bool gpu_only = name.find(".gpu.") != std::string::npos;
    EXPECT_EQ(on_host.contains(full_name(kernel)), !gpu_only) << full_name(kernel);
  }
}

TEST(Registry, NoVersionIsRegisteredTwice) {
  std::set<std::string> names;
  std::map<std::string, std::string> files;  // by number
  for (const Kernel& kernel : all_kernels()) {
    const std::string where = kernel.backend == Backend::cuda ? " on GPU" : " on host";
    const std::string name = full_name(kernel);
    EXPECT_TRUE(names.insert(name + where).second) << name << where << " by " << kernel.file;
    const std::string number = name.substr(0, name.find('_', name.rfind('/'))) + where;
    EXPECT_EQ(files.emplace(number, kernel.file).first->second, kernel.file) << number;
  }
}

TEST(Registry, AFileMayRegisterVariants) {
  std::vector<std::string> labels;
  for (const Kernel& kernel : open_host_device()->kernels()) {
    if (file_label(kernel) == "v30_block_size") labels.push_back(label(kernel));
  }
  EXPECT_THAT(labels, testing::ElementsAre("v30_block_size_32", "v30_block_size_64",
                                           "v30_block_size_128", "v30_block_size_256",
                                           "v30_block_size_512", "v30_block_size_1024"));
}

TEST(Registry, ALabelLeadsBackToOneFile) {
  std::map<std::string_view, std::set<std::string>> files;  // by family
  for (const Kernel& kernel : all_kernels()) {
    files[kernel.family].insert(std::string(file_label(kernel)));
  }
  for (const Kernel& kernel : all_kernels()) {
    std::vector<std::string> found;
    for (const std::string& file : files[kernel.family]) {
      if ((label(kernel) + "_").starts_with(file + "_")) found.push_back(file);
    }
    EXPECT_THAT(found, testing::ElementsAre(file_label(kernel))) << full_name(kernel);
  }
}

TEST(Registry, EveryKernelHasAFamilyAndAnIdea) {
  for (const Kernel& kernel : all_kernels()) {
    EXPECT_EQ(family_of(kernel).name, kernel.family);
    EXPECT_STRNE(kernel.version.idea, "");
  }
}

TEST(Registry, CostsOfCausalSoftmaxAreOfWhatIsSeen) {
  const Kernel causal{"softmax", "causal", DType::f32, {"idea"}, "v20.cu", {}, nullptr, nullptr};
  const auto flops = [&](const char* problem) {
    const Family& family = family_of(causal);
    return family.cost(family.problem(problem), DType::f32).flops;
  };
  EXPECT_EQ(flops("1x1"), 5);
  EXPECT_EQ(flops("3x5"), 5 * (3 + 4 + 5));
  EXPECT_EQ(flops("5x3"), 5 * (1 + 2 + 3));
  EXPECT_EQ(flops("1073741824x331"), 5 * 331 * 332 / 2) << "and not row by row";
}

TEST(Registry, NamesComeFromFiles) {
  const Kernel gemm{"gemm", "",      DType::f32, {"idea"}, "/x/src/kernels/gemm/v05_tile2d.cu",
                    {},     nullptr, nullptr};
  EXPECT_EQ(full_name(gemm), "gemm/f32/v05_tile2d");
  const Kernel relu{"elementwise",     "relu", DType::bf16, {"idea"},
                    "v00b_lib.gpu.cu", {},     nullptr,     nullptr};
  EXPECT_EQ(full_name(relu), "elementwise/relu/bf16/v00b_lib");
  EXPECT_EQ(short_label(relu), "v00b");
  Kernel variant = gemm;
  variant.version.variant = Digits<1024>::text;
  EXPECT_EQ(full_name(variant), "gemm/f32/v05_tile2d_1024");
  EXPECT_EQ(file_label(variant), "v05_tile2d");
  EXPECT_EQ(short_label(variant), "v05_1024");
}

TEST(Registry, HopperFilesNeedExactlySm90) {
  DeviceInfo device;
  EXPECT_TRUE(architecture_supports("v50_wgmma.sm90a.cu", device).ok) << "the host executor";
  device.compute_capability = 90;
  EXPECT_TRUE(architecture_supports("v50_wgmma.sm90a.cu", device).ok);
  device.compute_capability = 100;
  EXPECT_FALSE(architecture_supports("v50_wgmma.sm90a.cu", device).ok);
  EXPECT_TRUE(architecture_supports("v05_tile2d.cu", device).ok);
}

TEST(Family, ProblemsSurviveTheirText) {
  for (const Family& family : families()) {
    for (const Problem& problem : family.test_problems())
      EXPECT_EQ(family.parse(problem.text()), problem);
    for (const char* bad :
         {"", "x", "12x", "-4", "1x2x3x4x5x6x7", "4096x4096x4096 ", "99999999999999999999"}) {
      EXPECT_EQ(family.parse(bad), std::nullopt) << family.name << " " << bad;
    }
  }
}

TEST(Family, DemandsBytesAndFp32UnlessItSaysOtherwise) {
  for (const Family& family : families()) {
    const Problem problem = family.bench_problems(Backend::host).front();
    const bool gemm_tensor = family.name == "gemm_tensor", attention = family.name == "attention";
    const auto expect_demands = [&](DType dtype, Roof arithmetic, double products) {
      const Cost cost = family.cost(problem, dtype);
      EXPECT_THAT(family.demands(problem, dtype, cost),
                  testing::ElementsAre(Demand{"dram", cost.bytes()},
                                       Demand{arithmetic, products * cost.flops}))
          << family.name << " " << family.op;
    };
    expect_demands(DType::bf16, gemm_tensor || attention ? "tensor bf16" : "fma f32", 1);
    if (attention) continue;  // not of f32
    expect_demands(DType::f32, gemm_tensor ? "tensor tf32" : "fma f32", gemm_tensor ? 3 : 1);
  }
}

TEST(Roof, IsMeasuredByTheFamilyRoofs) {
  std::set<std::string> measured;
  for (const Family& family : families()) {
    EXPECT_EQ(family.measures != nullptr, family.name == "roofs") << family.name;
    for (DType dtype : kDTypes) {
      if (family.measures) measured.insert(family.measures(dtype).roof.name());
    }
  }
  for (const char* name : {"dram", "l2", "latency l1", "fma f64", "tensor bf16"}) {
    EXPECT_TRUE(measured.contains(name)) << name;
  }
  EXPECT_FALSE(measured.contains("link")) << "one GPU has none";
}

TEST(Roof, OfAnUnknownNameIsRefused) {
  for (const char* name : {"warps", "", "fma", "fma f8", "tensor", "DRAM"}) {
    try {
      const Roof roof(name);
      ADD_FAILURE() << name;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(
          error.what(),
          "no roof is called \"" + std::string(name) +
              "\": there are dram, l2, shared, shared atomics, gather, link, latency dram, "
              "latency l2, latency l1, latency shared, launch, h2d, d2h, overlap, and fma and "
              "tensor of a type");
    }
  }
  EXPECT_EQ(Roof("tensor", DType::e4m3), "tensor e4m3");
}

TEST(DType, SurvivesItsText) {
  for (DType dtype : kDTypes) EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  EXPECT_EQ(parse_dtype("f128"), std::nullopt);
}

TEST(DType, Tf32IsTheNearestTiesToEven) {
  const auto rounded = [](float x) { return static_cast<float>(tfloat32(x)); };
  EXPECT_EQ(rounded(1 + 0x1p-10f), 1 + 0x1p-10f);
  EXPECT_EQ(rounded(1 + 0x1p-11f), 1);
  EXPECT_EQ(rounded(-1 - 0x1p-11f - 0x1p-23f), -1 - 0x1p-10f);
  EXPECT_EQ(rounded(1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(rounded(0x1.fffffep127f), HUGE_VALF);
  EXPECT_TRUE(std::isnan(rounded(std::nanf("")))) << rounded(std::nanf(""));
}

TEST(DType, E2m1IsTheNearestTiesToEven) {
  const auto rounded = [](float x) { return static_cast<float>(float4_e2m1(x)); };
  for (float x : {0.f, 0.5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f}) EXPECT_EQ(rounded(-x), -x);
  EXPECT_EQ(rounded(0.25f), 0);
  EXPECT_EQ(rounded(0.75f), 1);
  EXPECT_EQ(rounded(-1.25f), -1);
  EXPECT_EQ(rounded(1.75f), 2);
  EXPECT_EQ(rounded(2.5f), 2);
  EXPECT_EQ(rounded(2.6f), 3);
  EXPECT_EQ(rounded(3.5f), 4);
  EXPECT_EQ(rounded(-5), -4);
  EXPECT_EQ(rounded(5.1f), 6);
  EXPECT_EQ(rounded(-HUGE_VALF), -6);
  EXPECT_EQ(rounded(std::nanf("")), 6);
  EXPECT_TRUE(std::signbit(rounded(-0.1f)));
}

#if __has_include(<cuda_fp4.h>)
TEST(DType, E2m1IsCudas) {
  for (std::uint32_t high = 0; high < 1 << 16; ++high) {
    for (const std::uint32_t low : {0u, 1u}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(float4_e2m1(x).bits, __nv_fp4_e2m1(x).__x) << x;
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto bits = static_cast<std::uint8_t>(byte);
    const auto pair = std::bit_cast<float4_e2m1x2>(bits);
    const auto cudas = static_cast<float2>(std::bit_cast<__nv_fp4x2_e2m1>(bits));
    ASSERT_EQ(static_cast<float>(pair[0]), cudas.x);
    ASSERT_EQ(static_cast<float>(pair[1]), cudas.y);
    ASSERT_EQ(float4_e2m1x2(pair[0], pair[1]).bits, byte);
  }
}
#endif

TEST(DType, Int4IsTwosComplement) {
  for (int first = -8; first < 8; ++first) {
    for (int second = -8; second < 8; ++second) {
      const int4x2 pair(first, second);
      EXPECT_EQ(pair[0], first);
      EXPECT_EQ(pair[1], second);
      EXPECT_EQ(pair.bits, (first & 15) + 16 * (second & 15));
    }
  }
}

// Floats of every kind; every fourth lies halfway between two of T's, with or without one bit more.
template <class T>
double any_float(std::uint64_t bits, const Array&) {
  constexpr unsigned kHalfway = std::is_same_v<T, half> ? 0x1000 : 0x8000;
  auto word = static_cast<std::uint32_t>(bits >> 32);
  if (bits % 4 == 0) word = (word & ~(2 * kHalfway - 1)) | kHalfway | (bits / 4 % 2);
  return std::bit_cast<float>(word);
}
template <class T>
void expect_rounded_as_by_cuda() {
  constexpr std::size_t kN = 1 << 20;
  std::vector<T> made(kN);
  const Array x = input<T>("x", kN);
  make_input(x, made.data(), {"any", any_float<T>}, RandomBits(42, 0));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kN; ++i) {
    const T right(static_cast<float>(any_float<T>(random_bits(42, 0, i), x)));
    if (std::memcmp(&made[i], &right, sizeof right) != 0) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}
TEST(Family, SixteenBitInputsAreRoundedToTheNearest) {
  expect_rounded_as_by_cuda<half>();
  expect_rounded_as_by_cuda<bfloat16>();
}

TEST(Family, RandomInputsAreUniformAndRepeatable) {
  double sum = 0, squares = 0, least = 1, most = -1;
  constexpr int kN = 100'000;
  for (int i = 0; i < kN; ++i) {
    const double x = uniform(random_bits(42, 0, static_cast<std::uint64_t>(i)));
    sum += x;
    squares += x * x;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  EXPECT_NEAR(sum / kN, 0, 0.01);
  EXPECT_NEAR(squares / kN, 1.0 / 3, 0.01);
  EXPECT_GE(least, -1);
  EXPECT_LE(most, 1);
  EXPECT_EQ(random_bits(1, 2, 3), random_bits(1, 2, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(2, 2, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(1, 3, 3));
}

}  // namespace
}  // namespace ladder
