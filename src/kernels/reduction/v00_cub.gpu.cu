// Idea      CUB, the vendor's library, as the baseline
// Bound by  DRAM bandwidth; at small n by its two launches
// Limits    n at most 2^32 - 1
//
// DeviceReduce::Reduce with a result in fp32 converts every element before it adds; for fp32 it is
// DeviceReduce::Sum. DeviceReduce::Max would begin at the lowest finite number, which is more than
// the maximum of infinities below zero; DeviceReduce::ArgMax would let a NaN lose. Dot products of
// fp32 and fp64 have cuBLAS as their baseline.
#include "reduction.hpp"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/transform_output_iterator.h>
#include <cub/device/device_reduce.cuh>

namespace {

using reduction::Accumulator;
using reduction::Candidate;

/// CUB's call: without temporary storage it only says how many bytes that takes. Offsets of 64 bits
/// would be kernels of their own.
template <class In, class Out, class Combine, class A>
std::size_t cub_reduce(void* storage, std::size_t bytes, In in, Out out, std::int64_t length,
                       Combine combine, A initial, cudaStream_t stream) {
  ladder::expect_success(cub::DeviceReduce::Reduce(
      storage, bytes, in, out, static_cast<std::uint32_t>(length), combine, initial, stream));
  return bytes;
}

template <class Op, class A>
struct Combine {
  __host__ __device__ A operator()(A a, A b) const { return Op::combine(a, b); }
};

template <class Op, class T>
std::size_t run(void* storage, std::size_t bytes, const reduction::Args<Op, T>& a,
                cudaStream_t stream) {
  using A = Accumulator<T>;
  return cub_reduce(storage, bytes, a.x, a.y, a.n, Combine<Op, A>{}, Op::template identity<A>(),
                    stream);
}

template <class T>
struct CandidateAt {
  const T* x;
  __host__ __device__ Candidate<Accumulator<T>> operator()(std::int64_t i) const {
    return {static_cast<Accumulator<T>>(x[i]), i};
  }
};
template <class A>
struct Better {
  __host__ __device__ Candidate<A> operator()(const Candidate<A>& a, const Candidate<A>& b) const {
    return reduction::better(a, b);
  }
};
struct IndexOf {
  template <class A>
  __host__ __device__ std::int64_t operator()(const Candidate<A>& candidate) const {
    return candidate.index;
  }
};

template <class T>
std::size_t run(void* storage, std::size_t bytes, const reduction::Args<reduction::argmax, T>& a,
                cudaStream_t stream) {
  using A = Accumulator<T>;
  const thrust::counting_iterator<std::int64_t> indices(0);
  return cub_reduce(storage, bytes, thrust::make_transform_iterator(indices, CandidateAt<T>{a.x}),
                    thrust::make_transform_output_iterator(a.y, IndexOf{}), a.n, Better<A>{},
                    Candidate<A>{reduction::kLeast<A>, 0}, stream);
}

template <class T>
struct ProductAt {
  const T *x, *y;
  __host__ __device__ Accumulator<T> operator()(std::int64_t i) const {
    return static_cast<Accumulator<T>>(x[i]) * static_cast<Accumulator<T>>(y[i]);
  }
};

template <class T>
std::size_t run(void* storage, std::size_t bytes, const reduction::Args<reduction::dot, T>& a,
                cudaStream_t stream) {
  using A = Accumulator<T>;
  const thrust::counting_iterator<std::int64_t> indices(0);
  const auto products = thrust::make_transform_iterator(indices, ProductAt<T>{a.x[0], a.x[1]});
  return cub_reduce(storage, bytes, products, a.y, a.n, Combine<reduction::sum, A>{}, A{0}, stream);
}

struct Cub {
  static constexpr ladder::Version version{"NVIDIA's library, cub::DeviceReduce", true};

  static ladder::Support supports(const reduction::Problem& p) {
    return p.n >> 32 == 0 ? ladder::supported() : ladder::unsupported("n is over 4294967295");
  }
  template <class Op, class T>
  static std::size_t workspace(const reduction::Args<Op, T>& a) {
    return run(nullptr, 0, a, nullptr);
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, cudaStream_t stream) {
    run(a.workspace, run(nullptr, 0, a, stream), a, stream);
  }
};

const ladder::Register<Cub, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<Cub, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;
const ladder::Register<Cub, reduction::argmax, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    argmax;
const ladder::Register<Cub, reduction::dot, ladder::half, ladder::bfloat16> dot;

}  // namespace
