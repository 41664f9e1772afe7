// The tests of device/ptx/ on the host executor, and what only that can show: programs that are
// wrong, and are lucky on a GPU, are wrong here every time. This file is compiled as kernels are.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"

#include "error_of.hpp"

namespace {

/// Every test runs under several orders of the threads.
class Ptx : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override { ladder::host::set_lane_order(GetParam()); }
  void TearDown() override { ladder::host::set_lane_order(0); }
};
INSTANTIATE_TEST_SUITE_P(LaneOrder, Ptx, testing::Values(0u, 1u, 20240607u));

bool has_fp8() { return true; }
using ladder::host::allocate;
using ladder::host::release;
using ladder::test::error_of;
void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

#include "ptx_tests.hpp"

namespace {

/// Whether a kernel gives the right result. An error of the executor's is no right result.
bool is_right(auto gives_right_result) {
  bool right = false;
  return error_of([&] { right = gives_right_result(); }).empty() && right;
}

// What is read too early is there by luck on a GPU, and never here.
TEST_P(Ptx, GroupsNotWaitedForAreNotThere) {
  EXPECT_FALSE(is_right([] { return groups_complete<0, 1>(3); }));
  EXPECT_FALSE(is_right([] { return groups_complete<0, 3>(1); }));
  EXPECT_FALSE(is_right([] { return groups_complete<1, 2>(3); }));
}

enum class Missing { nothing, commit, wait, barrier, wait_and_next_block };

template <Missing kMissing>
__global__ void reverse(const int* in, int* out) {
  int* const values = ladder::dynamic_shared<int>();
  const int t = threadIdx.x;
  if (kMissing != Missing::wait_and_next_block || blockIdx.x == 0) {
    cp_async<4>(&values[t], &in[t]);
  }
  if (kMissing != Missing::commit) cp_async_commit_group();
  if (kMissing == Missing::wait_and_next_block && blockIdx.x == 0) return;
  if (kMissing != Missing::wait) cp_async_wait_group<0>();
  if (kMissing != Missing::barrier) __syncthreads();
  if (blockIdx.x + 1 == gridDim.x) out[t] = values[63 - t];
}

template <Missing kMissing>
bool reverses(unsigned blocks = 1) {
  return is_right([&] {
    const auto in = random_integers<int>(64, 1 << 20);
    Array<int> in_array(in), out_array(64);
    launch(reverse<kMissing>, blocks, 64, 64 * sizeof(int), nullptr, in_array, out_array);
    const auto out = out_array.read();
    return std::equal(in.begin(), in.end(), out.rbegin());
  });
}

TEST_P(Ptx, WhatIsMissingIsFoundEveryTime) {
  EXPECT_TRUE(reverses<Missing::nothing>());
  EXPECT_FALSE(reverses<Missing::commit>());
  EXPECT_FALSE(reverses<Missing::wait>());
  EXPECT_FALSE(reverses<Missing::barrier>());
}

TEST_P(Ptx, CopiesPendingAtTheEndAreDropped) {
  EXPECT_FALSE(reverses<Missing::wait_and_next_block>(2));
  EXPECT_TRUE(reverses<Missing::nothing>(2));
}

template <bool kSync>
__global__ void load_what_others_write(std::uint32_t* out, std::uint32_t first) {
  auto* const rows = ladder::dynamic_shared<std::uint32_t>();
  const int lane = threadIdx.x;
  rows[lane] = first + static_cast<std::uint32_t>(lane);
  if (kSync) __syncwarp();
  std::uint32_t fragment[1];
  ldmatrix(fragment, &rows[lane % 8 * 4]);
  out[lane] = fragment[0];
}

TEST_P(Ptx, LdmatrixIsNoBarrier) {
  const auto loads = [](auto kernel, std::uint32_t first) {
    return is_right([&] {
      Array<std::uint32_t> out_array(32);
      launch(kernel, 1, 32, 32 * sizeof(std::uint32_t), nullptr, out_array, first);
      const auto out = out_array.read();
      for (std::uint32_t i = 0; i < 32; ++i) {
        if (out[i] != first + i) return false;
      }
      return true;
    });
  };
  EXPECT_TRUE(loads(load_what_others_write<true>, 1));
  EXPECT_FALSE(loads(load_what_others_write<false>, 2));
}

constexpr unsigned kLeaveLine = __LINE__ + 4;
__global__ void leave_early(float* out) {
  if (threadIdx.x == 7) return;
  float sums[4] = {};
  mma_m16n8k16<half>(sums, {0, 0, 0, 0}, {0, 0}, sums);
  out[threadIdx.x] = sums[0];
}

TEST_P(Ptx, WholeWarpsTakePart) {
  Array<float> out(32);
  const auto error = error_of([&] { launch(leave_early, 1, 32, 0, nullptr, out); });
  EXPECT_NE(error.find("mma_m16n8k16 with mask 0xffffffff (ptx_host_test.cpp:" +
                       std::to_string(kLeaveLine) + ":"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("needs all 32 lanes of the warp"), std::string::npos) << error;
}

/// Copies 16 bytes per lane, of which odd lanes read `valid_bytes`, and loads 4 matrices from it;
/// `pitch` is the distance of the matrices' rows.
__global__ void copy_and_load(const char* in, std::uint32_t* out, int valid_bytes, int pitch) {
  char* const bytes = ladder::dynamic_shared<char>();
  const int lane = threadIdx.x;
  cp_async<16>(&bytes[lane * pitch], &in[lane * 16], lane % 2 == 0 ? 16 : valid_bytes);
  cp_async_wait_all();
  __syncthreads();
  std::uint32_t fragment[4];
  ldmatrix(fragment, &bytes[lane * pitch]);
  out[lane] = fragment[0];
}

std::string error_of_copy_and_load(int offset, int valid_bytes, int pitch) {
  Array<char> in(32 * 16 + 12);
  Array<std::uint32_t> out(32);
  return error_of([&] {
    launch(copy_and_load, 1, 32, 32 * 128, nullptr, +in + offset, out, valid_bytes, pitch);
  });
}

#if !defined(__SANITIZE_ADDRESS__)  // where nothing is counted

TEST_P(Ptx, IsCounted) {
  const auto count = [](int valid_bytes, int pitch) {
    return ladder::host::count([&] { error_of_copy_and_load(0, valid_bytes, pitch); });
  };
  const auto whole = count(16, 16), half_read = count(0, 16), conflicts = count(16, 128);
  EXPECT_EQ(whole.global_load.requests, 1u);
  EXPECT_EQ(whole.global_load.units, 16u);
  EXPECT_EQ(whole.global_load.lanes, 32u);
  EXPECT_EQ(half_read.global_load.requests, 1u);
  EXPECT_EQ(half_read.global_load.units, 16u);
  EXPECT_EQ(half_read.global_load.lanes, 16u);
  for (const auto& counters : {whole, half_read}) {
    EXPECT_EQ(counters.shared_async.requests, 1u);
    EXPECT_EQ(counters.shared_async.units, 4u);
    EXPECT_EQ(counters.shared_async.lanes, 32u);
    EXPECT_EQ(counters.shared_load.requests, 1u);
    EXPECT_EQ(counters.shared_load.units, 4u);
    EXPECT_EQ(counters.shared_load.lanes, 32u);
  }
  EXPECT_EQ(conflicts.shared_async.units, 32u) << "rows of 128 bytes are all in the same banks";
  EXPECT_EQ(conflicts.shared_load.units, 32u);
}

/// Each lane copies 4 bytes of a line of its own, or zeros.
__global__ void copy_words(const float* in, float* out, int valid_bytes) {
  __shared__ float words[32];
  cp_async<4>(&words[threadIdx.x], &in[threadIdx.x * 32], valid_bytes);
  cp_async_commit_group();
  cp_async_wait_group<0>();
  out[threadIdx.x] = words[threadIdx.x];
}

TEST_P(Ptx, ZerosOfACopyComeFromNoLine) {
  Array<float> in(32 * 32), out(32);
  for (const auto& [valid_bytes, wavefronts] : {std::pair(4, 32u), {0, 1u}}) {
    const auto counters =
        ladder::host::count([&] { launch(copy_words, 1, 32, 0, nullptr, in, out, valid_bytes); });
    EXPECT_EQ(counters.shared_async.units, wavefronts);
  }
}

#endif

TEST_P(Ptx, WhatAGpuRefusesIsAnError) {
  EXPECT_EQ(error_of_copy_and_load(0, 12, 16), "");
  EXPECT_NE(error_of_copy_and_load(0, 17, 16).find("more valid bytes than bytes"),
            std::string::npos);
#if !defined(__SANITIZE_ADDRESS__)  // which finds these by itself, or not at all
  EXPECT_NE(error_of_copy_and_load(4, 16, 16).find("misaligned"), std::string::npos);
  EXPECT_NE(error_of_copy_and_load(0, 16, 24).find("misaligned"), std::string::npos);
  EXPECT_NE(error_of_copy_and_load(16, 16, 16).find("out of bounds"), std::string::npos);
  EXPECT_EQ(error_of_copy_and_load(16, 12, 16), "") << "what is not valid is not read";
#endif
}

}  // namespace
