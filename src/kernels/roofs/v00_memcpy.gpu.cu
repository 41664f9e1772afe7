// Idea      what the CUDA runtime offers: cudaMemcpyAsync on the device, cudaMemsetAsync
// Bound by  DRAM bandwidth
// Limits    as many bytes read as written, or none read
#include "roofs.hpp"

#include "harness/cuda/error.hpp"

namespace {

using roofs::dram;

struct Memcpy {
  static constexpr ladder::Version version{"cudaMemcpy on the device, cudaMemset"};

  static void launch(const dram::Args<float>& a, cudaStream_t stream) {
    const auto bytes = static_cast<std::size_t>(a.mix.length) * 16;
    if (bytes > 0) {
      LADDER_CUDA(cudaMemcpyAsync(a.y, a.x, bytes, cudaMemcpyDeviceToDevice, stream));
    } else {
      const auto written = static_cast<std::size_t>(a.mix.writes) * 16;
      LADDER_CUDA(cudaMemsetAsync(a.y, dram::kWrittenByte, written, stream));
    }
  }
  static ladder::Support supports(const dram::Problem& p) {
    return p.read == p.write || p.read == 0
               ? ladder::supported()
               : ladder::unsupported("copies as many bytes as it reads, or reads none");
  }
};

const ladder::Register<Memcpy, dram, float> registration;

}  // namespace
