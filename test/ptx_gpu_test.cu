// The tests of device/ptx/ on a GPU. What only Hopper has: ptx_hopper_tests.hpp.
#include "device/ptx/mma.hpp"
#include "gpu.hpp"

namespace {

constexpr int kAny = 1000;
class Ptx : public GpuTest<80, kAny> {};
INSTANTIATE_TEST_SUITE_P(Gpu, Ptx, testing::Values(0u));

bool has_fp8() { return compute_capability() >= 90 && ladder::ptx::kHasMmaE4m3; }

}  // namespace

#include "ptx_tests.hpp"
