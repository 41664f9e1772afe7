#include "reference.hpp"

#include "harness/cuda/cublas.hpp"
#include "harness/cuda/error.hpp"
#include "harness/cuda/memory.hpp"

namespace {

template <class T>
__global__ void widen(const T* from, double* to, std::size_t n, bool absolute) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  const double value = ladder::widen(from[i]);
  to[i] = absolute ? fabs(value) : value;
}

class Wide {
 public:
  template <class T>
  Wide(const T* from, std::size_t n, bool absolute)
      : data_(static_cast<double*>(
            ladder::allocate_on_gpu(n * sizeof(double), "an operand in fp64"))) {
    widen<<<static_cast<unsigned>(ladder::ceil_div(n, 256)), 256>>>(from, data_, n, absolute);
    LADDER_CUDA(cudaGetLastError());
  }
  ~Wide() { cudaFree(data_); }
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  const double* data() const { return data_; }

 private:
  double* data_;
};

template <class T>
void multiply(GemmOperand<T> a, GemmOperand<T> b, int m, int n, int k, bool absolute,
              double* product) {
  const Wide wide_a(a.data, std::size_t(m) * std::size_t(k), absolute);
  const Wide wide_b(b.data, std::size_t(k) * std::size_t(n), absolute);
  const double one = 1, zero = 0;
  // cuBLAS is column-major: C^T = B^T * A^T is the row-major C = A * B.
  LADDER_CUBLAS(
      cublasDgemm(ladder::cublas(nullptr, nullptr), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                  a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, wide_b.data(),
                  b.transposed ? k : n, wide_a.data(), a.transposed ? m : k, &zero, product, n));
  LADDER_CUDA(cudaDeviceSynchronize());
}

template <class T>
std::vector<double> download(const T* from, std::size_t n, std::size_t stride) {
  std::vector<T> out(n);
  LADDER_CUDA(cudaMemcpy2D(out.data(), sizeof(T), from, stride * sizeof(T), sizeof(T), n,
                           cudaMemcpyDeviceToHost));
  std::vector<double> values;
  for (const T& element : out) values.push_back(ladder::widen(element));
  return values;
}

}  // namespace

template <class T>
void gemm_reference_on_gpu(GemmOperand<T> a, GemmOperand<T> b, int m, int n, int k,
                           ladder::AnswerOnGpu c) {
  multiply(a, b, m, n, k, false, c.values);
  multiply(a, b, m, n, k, true, c.magnitude);
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n),
             depth = static_cast<std::size_t>(k);
  for (std::size_t sample = 0; sample < 64; ++sample) {
    const std::size_t row = sample * (rows - 1) / 63, col = (sample * 37 % 64) * (columns - 1) / 63;
    const auto of_a = a.transposed ? download(a.data + row, depth, rows)
                                   : download(a.data + row * depth, depth, 1);
    const auto of_b = b.transposed ? download(b.data + col * depth, depth, 1)
                                   : download(b.data + col, depth, columns);
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < depth; ++i) {
      sum += of_a[i] * of_b[i];
      size += std::abs(of_a[i] * of_b[i]);
    }
    const double limit = static_cast<double>(k) * 0x1p-52 * size;
    const double value = download(c.values + row * columns + col, 1, 1).front();
    const double scale = download(c.magnitude + row * columns + col, 1, 1).front();
    if (!(std::abs(value - sum) <= limit && std::abs(scale - size) <= limit)) {
      throw std::runtime_error("the fp64 cuBLAS reference differs from the CPU's at row " +
                               std::to_string(row) + ", column " + std::to_string(col));
    }
  }
}

#define LADDER_REFERENCE(T)                                                          \
  template void gemm_reference_on_gpu(GemmOperand<T>, GemmOperand<T>, int, int, int, \
                                      ladder::AnswerOnGpu)
LADDER_REFERENCE(float);
LADDER_REFERENCE(ladder::half);
LADDER_REFERENCE(ladder::bfloat16);
LADDER_REFERENCE(ladder::tfloat32);
LADDER_REFERENCE(ladder::float8_e4m3);
