// Idea      CUB, the vendor's library, as the baseline of row sums: cub::DeviceSegmentedReduce, a
//           segment per row. For column sums it has nothing.
// Bound by  DRAM bandwidth
// Limits    at most 2^31 - 1 rows
#include "matrix_reduction.hpp"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_segmented_reduce.cuh>

namespace {

struct RowStart {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * cols; }
};

struct Add {
  __host__ __device__ float operator()(float a, float b) const { return a + b; }
};

/// CUB's call: without temporary storage it only says how many bytes that takes.
template <class T>
std::size_t cub_reduce(void* storage, std::size_t bytes, const matrix_reduction::Args<T>& a,
                       cudaStream_t stream) {
  const thrust::counting_iterator<std::int64_t> rows(0);
  const auto starts = thrust::make_transform_iterator(rows, RowStart{a.cols});
  ladder::expect_success(cub::DeviceSegmentedReduce::Reduce(
      storage, bytes, a.x, a.y, a.rows, starts, starts + 1, Add{}, 0.0f, stream));
  return bytes;
}

struct Cub {
  static constexpr ladder::Version version{"NVIDIA's library, cub::DeviceSegmentedReduce", true};

  template <class T>
  static std::size_t workspace(const matrix_reduction::Args<T>& a) {
    return cub_reduce(nullptr, 0, a, nullptr);
  }
  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    cub_reduce(a.workspace, cub_reduce(nullptr, 0, a, stream), a, stream);
  }
};

const ladder::Register<Cub, matrix_reduction::row_sum, float, ladder::half, ladder::bfloat16> rows;

}  // namespace
