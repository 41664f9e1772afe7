// Idea      cuBLAS, the vendor's library, as the baseline of dot products
// Bound by  DRAM bandwidth; at small n by its launches
// Limits    fp32 and fp64: of narrower types cuBLAS rounds the result to the type of the elements,
//           and theirs is v00
#include "harness/cuda/cublas.hpp"
#include "reduction.hpp"

namespace {

/// While it lives cuBLAS writes its results to device memory.
class ResultsOnDevice {
 public:
  explicit ResultsOnDevice(cublasHandle_t handle) : handle_(handle) {
    LADDER_CUBLAS(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE));
  }
  ~ResultsOnDevice() { cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST); }
  ResultsOnDevice(const ResultsOnDevice&) = delete;
  ResultsOnDevice& operator=(const ResultsOnDevice&) = delete;

 private:
  cublasHandle_t handle_;
};

struct Cublas {
  static constexpr ladder::Version version{"NVIDIA's library, cublasSdot and cublasDdot", true};

  template <class T>
  static std::size_t workspace(const reduction::Args<reduction::dot, T>&) {
    return ladder::kCublasWorkspace;
  }
  static void launch(const reduction::Args<reduction::dot, float>& a, cudaStream_t stream) {
    const cublasHandle_t handle = ladder::cublas(stream, a.workspace);
    const ResultsOnDevice mode(handle);
    LADDER_CUBLAS(cublasSdot_64(handle, a.n, a.x[0], 1, a.x[1], 1, a.y));
  }
  static void launch(const reduction::Args<reduction::dot, double>& a, cudaStream_t stream) {
    const cublasHandle_t handle = ladder::cublas(stream, a.workspace);
    const ResultsOnDevice mode(handle);
    LADDER_CUBLAS(cublasDdot_64(handle, a.n, a.x[0], 1, a.x[1], 1, a.y));
  }
};

const ladder::Register<Cublas, reduction::dot, float, double> dot;

}  // namespace
