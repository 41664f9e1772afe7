// Reductions of so many elements that the kernels' tests would take too long with them.
#include "harness/family.hpp"

#include "kernels/reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace ladder {
namespace {

/// Elements of fp16, zero but for a few ones: enough of them, on a GPU, to need 64-bit indices.
class SparseOnes {
 public:
  SparseOnes(Device& device, std::int64_t n, std::initializer_list<std::int64_t> ones)
      : n_(n), x_(device, static_cast<std::size_t>(n) * sizeof(half)) {
    device.fill(x_.data(), 0, x_.bytes());
    const half one(1.0f);
    for (std::int64_t i : ones) device.upload(static_cast<half*>(x_.data()) + i, &one, sizeof one);
  }

  /// What a kernel of an operation makes of them; of the dot product, with themselves.
  template <class Op>
  double reduced(const Kernel& kernel, Device& device) {
    using Result = typename Op::template Output<half>;
    const Buffer y(device, sizeof(Result));
    const auto* const x = static_cast<const half*>(x_.data());
    auto* const to = static_cast<Result*>(y.data());
    reduction::Args<Op, half> args;
    if constexpr (std::is_same_v<Op, reduction::dot>) {
      args = {.x = {x, x}, .y = to, .n = n_, .workspace = nullptr};
    } else {
      args = {.x = x, .y = to, .n = n_, .workspace = nullptr};
    }
    const Plan plan = make_plan(kernel, &args, true);
    Call call{&args, plan.get()};
    Buffer workspace(device, kernel.workspace(call)), state(device, kernel.state(&args));
    workspace.poison();
    state.poison(0);
    args.workspace = workspace.data();
    call.state = state.data();
    device.run(kernel, call);
    Result result{};
    device.download(&result, y.data(), sizeof result);
    return static_cast<double>(result);
  }

 private:
  std::int64_t n_;
  Buffer x_;
};

void expect_all_right(Device& device, const Kernel& kernel, SparseOnes& ones, double count,
                      double first) {
  SCOPED_TRACE(full_name(kernel));
  const std::string_view op = kernel.op;
  if (op == "sum") {
    EXPECT_EQ(ones.reduced<reduction::sum>(kernel, device), count);
  } else if (op == "max") {
    EXPECT_EQ(ones.reduced<reduction::max>(kernel, device), 1);
  } else if (op == "dot") {
    EXPECT_EQ(ones.reduced<reduction::dot>(kernel, device), count);
  } else {
    EXPECT_EQ(ones.reduced<reduction::argmax>(kernel, device), first);
  }
}

bool is_ours(const Kernel& kernel, const Device& device) {
  return kernel.family == std::string_view("reduction") && kernel.dtype == DType::f16 &&
         architecture_supports(kernel.file, device.info()).ok;
}

// v14 to v16 make groups of 1024 blocks, each of which has 8192 elements.
TEST(Reduction, OfMoreThanOneGroupOfBlocks) {
  const auto device = open_host_device();
  constexpr std::int64_t kTile = 8192, kGroup = 1024 * kTile, kN = kGroup + 2 * kTile + 13;
  SparseOnes ones(*device, kN, {kTile - 1, 17 * kTile, kGroup - 1, kGroup, kGroup + kTile, kN - 1});
  int tested = 0;
  for (const Kernel& kernel : device->kernels()) {
    const std::string name = full_name(kernel);
    constexpr std::array kInGroups{"/v14_", "/v15_", "/v16_"};
    const bool in_groups = std::ranges::any_of(
        kInGroups, [&](const char* rung) { return name.find(rung) != std::string::npos; });
    if (!is_ours(kernel, *device) || !in_groups) continue;
    expect_all_right(*device, kernel, ones, 6, kTile - 1);
    expect_all_right(*device, kernel, ones, 6, kTile - 1);  // counters are zero again
    ++tested;
  }
  EXPECT_EQ(tested, 5);
}

TEST(Reduction, OfMoreElementsThan32BitsCount) {
  std::unique_ptr<Device> device;
  try {
    device = open_cuda_device(0);
  } catch (const std::exception& error) {
    GTEST_SKIP() << "nothing ran on a GPU: " << error.what();
  }
  constexpr std::int64_t kHalf = std::int64_t{1} << 31, kN = kHalf + 13;
  if (device->free_memory() < 10e9) GTEST_SKIP() << "takes 10 GB";
  SparseOnes across(*device, kN, {5, kHalf - 1, kHalf, kN - 1});
  SparseOnes beyond(*device, kN, {kHalf + 3, kN - 1});
  for (const Kernel& kernel : device->kernels()) {
    if (!is_ours(kernel, *device)) continue;
    expect_all_right(*device, kernel, across, 4, 5);
    expect_all_right(*device, kernel, beyond, 2, static_cast<double>(kHalf + 3));
  }
}

}  // namespace
}  // namespace ladder
