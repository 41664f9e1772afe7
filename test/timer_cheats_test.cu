// Kernels that would find in the L2 what a cold sample must not find there. On a GPU only.
#include "gpu.hpp"

#include "harness/cuda/hardware_counters.hpp"
#include "harness/cuda/l2_flush.hpp"
#include "harness/device.hpp"
#include "harness/statistics.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

namespace {

using ladder::Cache;
using ladder::Call, ladder::Kernel;
using ladder::Contestant;

constexpr int kBlocks = 512, kThreads = 256;
constexpr std::int64_t kVectors = 1 << 20;  // 16 MiB: they fit the L2
constexpr double kBytes = kVectors * sizeof(float4);

struct Args {
  const float4* x;
  float* y;  // [kBlocks * kThreads]
};

/// A load whose line is to be evicted from the L2 after all others. Compute capability 8.0.
__device__ float4 load_and_keep(const float4* from) {
  float4 v{};
#if __CUDA_ARCH__ >= 800
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from), "l"(policy));
#endif
  return v;
}

template <bool kKeeps>
__global__ void sums(Args a) {
  float sum = 0;
  const std::int64_t first = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  for (std::int64_t i = first; i < kVectors; i += kBlocks * kThreads) {
    const float4 v = kKeeps ? load_and_keep(a.x + i) : a.x[i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  a.y[first] = sum;
}

template <bool kKeeps>
void launch(const Call& call, cudaStream_t stream) {
  sums<kKeeps><<<kBlocks, kThreads, 0, stream>>>(*static_cast<const Args*>(call.args));
}

void launch_that_reserves(const Call& call, cudaStream_t stream) {
  LADDER_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 8 << 20));
  launch<false>(call, stream);
}

Kernel kernel(const char* file, void (*launch)(const Call&, cudaStream_t)) {
  return {"reduction", "sum",  ladder::DType::f32, {"a cheat"}, file, ladder::Backend::cuda,
          launch,      nullptr};
}

class TimerCheats : public GpuTest<80, 1000> {
 protected:
  void SetUp() override {
    GpuTest<80, 1000>::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    device_ = ladder::open_cuda_device(0);
    args_ = {static_cast<const float4*>(allocate(kVectors * sizeof(float4))),
             static_cast<float*>(allocate(kBlocks * kThreads * sizeof(float)))};
  }
  void TearDown() override {
    release(const_cast<float4*>(args_.x));
    release(args_.y);
  }

  std::unique_ptr<ladder::Device> device_;
  Args args_{};
};
INSTANTIATE_TEST_SUITE_P(Gpu, TimerCheats, testing::Values(0u));

TEST_P(TimerCheats, LinesThatAreToBeEvictedLastAreCold) {
  const Kernel honest = kernel("v01_honest.cu", launch<false>);
  const Kernel keeps = kernel("v02_keeps.cu", launch<true>);
  const Contestant contestants[] = {{&honest, &args_}, {&keeps, &args_}};
  const ladder::Sampling sampling{.min_samples = 50};
  const auto cold = device_->measure(contestants, Cache::cold, sampling);
  const auto hot = device_->measure(contestants, Cache::hot, sampling);
  const double cold_us = ladder::median(cold[0].us), keeps_us = ladder::median(cold[1].us);
  const double hot_us = ladder::median(hot[0].us);
  std::printf("cold %.2f us, kept %.2f us, hot %.2f us\n", cold_us, keeps_us, hot_us);
  ASSERT_LT(hot_us, 0.8 * cold_us) << "or nothing could be gained";
  EXPECT_EQ(cold[1].error, "");
  EXPECT_GT(keeps_us, 0.95 * cold_us);
}

enum Count { kSectors, kHits, kRead, kWritten };
const std::vector<ladder::HardwareCounter> kCounters{
    {"sectors", {{"lts__t_sectors_srcunit_tex_op_read.sum"}}},
    {"hits", {{"lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum"}}},
    {"read", {{"dram__bytes_read.sum"}}},
    {"written", {{"dram__bytes_write.sum"}}},
};

/// What a GPU counts of a plain read, after others and a flush.
class L2Counts : public TimerCheats {
 protected:
  std::vector<double> of_a_read(const char* what, auto before, auto flush) {
    const auto prepare = [&] {
      before();
      flush();
      LADDER_CUDA(cudaDeviceSynchronize());
    };
    const auto read = [&] {
      launch<false>(call_, nullptr);
      LADDER_CUDA(cudaDeviceSynchronize());
    };
    std::vector<double> counts;
    for (const std::optional<double>& one : counters_->count(prepare, read)) {
      EXPECT_TRUE(one) << "this GPU has no such counter";
      counts.push_back(one.value_or(0));
    }
    std::printf(
        "%s: %.0f sectors, %.2f %% hits; of DRAM %.2f %% of the bytes read, %.2f %% written\n",
        what, counts[kSectors], 100 * counts[kHits] / counts[kSectors],
        100 * counts[kRead] / kBytes, 100 * counts[kWritten] / kBytes);
    return counts;
  }
  void expect_cold(const char* what, auto before) {
    const auto counts = of_a_read(what, before, [&] { flush_->read(nullptr); });
    EXPECT_LT(counts[kHits], 0.01 * counts[kSectors]) << what;
    EXPECT_GT(counts[kRead], 0.99 * kBytes) << what;
    EXPECT_LT(counts[kWritten], 0.01 * kBytes) << what;
  }

  void SetUp() override {
    TimerCheats::SetUp();
    if (!device_) return;
    call_.args = &args_;
    counters_.emplace(0, kCounters);
    flush_.emplace(device_->info().l2_bytes);
  }

  Call call_{};
  std::optional<ladder::HardwareCounters> counters_;
  std::optional<ladder::L2Flush> flush_;
};
INSTANTIATE_TEST_SUITE_P(Gpu, L2Counts, testing::Values(0u));

TEST_P(L2Counts, AreOfAColdOneWithNothingDirtyBehindAFlushThatReads) {
  expect_cold("read before", [&] { launch<false>(call_, nullptr); });
  expect_cold("read before as evict_last", [&] { launch<true>(call_, nullptr); });
  expect_cold("written before", [&] {
    LADDER_CUDA(cudaMemsetAsync(const_cast<float4*>(args_.x), 0, kBytes, nullptr));
  });
}

TEST_P(L2Counts, TellAHotOneAndADirtyOne) {
  const auto hot = of_a_read(
      "hot", [&] { launch<false>(call_, nullptr); }, [] {});
  EXPECT_GT(hot[kHits], 0.9 * hot[kSectors]);
  EXPECT_LT(hot[kRead], 0.1 * kBytes);
  const auto dirty = of_a_read(
      "behind a flush that writes", [] {}, [&] { flush_->write(nullptr); });
  EXPECT_GT(dirty[kWritten], 0.2 * kBytes);
}

TEST_P(TimerCheats, ALaunchThatReservesL2GetsNoTime) {
  const Kernel honest = kernel("v01_honest.cu", launch<false>);
  const Kernel reserves = kernel("v02_reserves.cu", launch_that_reserves);
  const Contestant contestants[] = {{&honest, &args_}, {&reserves, &args_}};
  const auto samples = device_->measure(contestants, Cache::cold, {});
  EXPECT_EQ(samples[0].error, "");
  EXPECT_FALSE(samples[0].us.empty());
  EXPECT_EQ(samples[1].error, "its launch reserves a part of the L2, which is then never cold");
  EXPECT_TRUE(samples[1].us.empty());
}

}  // namespace
