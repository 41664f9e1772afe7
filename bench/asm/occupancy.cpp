#include "asm/occupancy.hpp"

#include <cuda_occupancy.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

namespace ladder {
namespace {

/// CUDA C++ Programming Guide, table of technical specifications per compute capability.
struct Sm {
  int compute_capability;
  int threads;
  int shared_kib;        ///< of the SM
  int block_shared_kib;  ///< the most that a block may have
};
constexpr std::array kSms{Sm{75, 1024, 64, 64},    Sm{80, 2048, 164, 163},  Sm{86, 1536, 100, 99},
                          Sm{87, 1536, 164, 163},  Sm{89, 1536, 100, 99},   Sm{90, 2048, 228, 227},
                          Sm{100, 2048, 228, 227}, Sm{103, 2048, 228, 227}, Sm{110, 1536, 228, 227},
                          Sm{120, 1536, 100, 99},  Sm{121, 1536, 100, 99}};

cudaOccDeviceProp properties_of(const Sm& sm) {
  cudaOccDeviceProp p{};
  p.computeMajor = sm.compute_capability / 10;
  p.computeMinor = sm.compute_capability % 10;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = sm.threads;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(sm.shared_kib) << 10;
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(sm.block_shared_kib) << 10;
  p.reservedSharedMemPerBlock = sm.compute_capability >= 80 ? 1024 : 0;
  p.numSms = 1;
  return p;
}

std::string names_of(unsigned limits) {
  std::vector<const char*> names;
  const auto name = [&](unsigned bit, const char* text) {
    if (limits & bit) names.push_back(text);
  };
  name(OCC_LIMIT_REGISTERS, "registers");
  name(OCC_LIMIT_SHARED_MEMORY, "shared memory");
  name(OCC_LIMIT_WARPS, "warps");
  name(OCC_LIMIT_BLOCKS, "blocks");
  name(OCC_LIMIT_BARRIERS, "barriers");
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::optional<Occupancy> occupancy_of(const Resources& resources, int compute_capability,
                                      int threads_per_block, std::size_t dynamic_shared) {
  for (const Sm& sm : kSms) {
    if (sm.compute_capability != compute_capability) continue;
    const cudaOccDeviceProp properties = properties_of(sm);
    cudaOccFuncAttributes attributes;
    attributes.maxThreadsPerBlock = properties.maxThreadsPerBlock;
    attributes.numRegs = resources.registers;
    attributes.sharedSizeBytes = resources.static_shared;
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes =
        properties.sharedMemPerBlockOptin - resources.static_shared;
    attributes.numBlockBarriers = resources.barriers;
    const cudaOccDeviceState state;
    cudaOccResult result{};
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state,
                                                threads_per_block,
                                                dynamic_shared) != CUDA_OCC_SUCCESS) {
      return std::nullopt;
    }
    const int blocks = result.activeBlocksPerMultiprocessor;
    const int warps = blocks * ((threads_per_block + 31) / 32), most = sm.threads / 32;
    return Occupancy{blocks, warps, most,
                     warps == most ? "warps" : names_of(result.limitingFactors)};
  }
  return std::nullopt;
}

}  // namespace ladder
