#include "reference.hpp"

#include "harness/cuda/cublas.hpp"
#include "harness/cuda/error.hpp"

#include <cmath>
#include <vector>

namespace {

__global__ void widen(const float* from, double* to, std::size_t n, bool absolute) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < n) to[i] = absolute ? fabs(from[i]) : from[i];
}

class Wide {
 public:
  Wide(const float* from, std::size_t n, bool absolute) {
    LADDER_CUDA(cudaMalloc(&data_, n * sizeof(double)));
    widen<<<static_cast<unsigned>(ladder::ceil_div(n, 256)), 256>>>(from, data_, n, absolute);
    LADDER_CUDA(cudaGetLastError());
  }
  ~Wide() { cudaFree(data_); }
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  const double* data() const { return data_; }

 private:
  double* data_ = nullptr;
};

void multiply(const gemm::Args<float>& args, bool absolute, double* product) {
  const auto m = static_cast<std::size_t>(args.m), n = static_cast<std::size_t>(args.n),
             k = static_cast<std::size_t>(args.k);
  const Wide a(args.a, m * k, absolute), b(args.b, k * n, absolute);
  const double one = 1, zero = 0;
  // cuBLAS is column-major: C^T = B^T * A^T is the row-major C = A * B.
  LADDER_CUBLAS(cublasDgemm(ladder::cublas(nullptr), CUBLAS_OP_N, CUBLAS_OP_N, args.n, args.m,
                            args.k, &one, b.data(), args.n, a.data(), args.k, &zero, product,
                            args.n));
  LADDER_CUDA(cudaDeviceSynchronize());
}

template <class T>
std::vector<T> download(const T* from, std::size_t n, std::size_t stride) {
  std::vector<T> out(n);
  LADDER_CUDA(cudaMemcpy2D(out.data(), sizeof(T), from, stride * sizeof(T), sizeof(T), n,
                           cudaMemcpyDeviceToHost));
  return out;
}

}  // namespace

void gemm_reference(const gemm::Args<float>& args, double* values, double* magnitude) {
  multiply(args, false, values);
  multiply(args, true, magnitude);
  const auto m = static_cast<std::size_t>(args.m), n = static_cast<std::size_t>(args.n),
             k = static_cast<std::size_t>(args.k);
  for (std::size_t sample = 0; sample < 64; ++sample) {
    const std::size_t row = sample * (m - 1) / 63, col = (sample * 37 % 64) * (n - 1) / 63;
    const std::vector<float> a = download(args.a + row * k, k, 1);
    const std::vector<float> b = download(args.b + col, k, n);
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < k; ++i) {
      sum += double{a[i]} * double{b[i]};
      size += std::abs(double{a[i]} * double{b[i]});
    }
    const double limit = static_cast<double>(k) * 0x1p-52 * size;
    const double value = download(values + row * n + col, 1, 1).front();
    const double scale = download(magnitude + row * n + col, 1, 1).front();
    if (!(std::abs(value - sum) <= limit && std::abs(scale - size) <= limit)) {
      throw std::runtime_error("the fp64 cuBLAS reference differs from the CPU's at row " +
                               std::to_string(row) + ", column " + std::to_string(col));
    }
  }
}
