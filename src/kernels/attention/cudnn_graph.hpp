// Graphs of operations by cuDNN's backend API, as attention's baseline needs them: tensors of four
// dimensions, arithmetic in fp32.
#pragma once

#include "device/kernel.hpp"
#include "harness/cuda/cudnn.hpp"

#include <array>
#include <bit>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cudnn_graph {

using ladder::cudnn_check;

template <class T>
constexpr cudnnDataType_t kType =
    std::is_same_v<T, ladder::half> ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    cudnn_check(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
    made_.reset(made);
  }
  template <class V>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const V* values, std::size_t count = 1) {
    cudnn_check(
        cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values),
        "cudnnBackendSetAttribute");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &other);
  }
  /// Nothing, where there is no other.
  Descriptor& set_if(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
    return other ? set(name, other) : *this;
  }
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(get()); }
  Descriptor& finalize() {
    cudnn_check(try_finalize(), "cudnnBackendFinalize");
    return *this;
  }
  cudnnBackendDescriptor_t get() const { return made_.get(); }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t made) const { cudnnBackendDestroyDescriptor(made); }
  };
  std::unique_ptr<void, Destroy> made_;
};

using Shape = std::array<std::int64_t, 4>;

struct Tensor {
  cudnnBackendDescriptor_t descriptor = nullptr;
  std::int64_t id = 0;
};

/// The strides of [batch][heads][rows][columns], one behind the other.
inline Shape packed(const Shape& size) {
  return {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
}

/// How many rows, columns and terms a product has of each sequence, [batch, 1, 1, 1]; none: all.
struct Extents {
  Tensor rows{}, columns{}, terms{};
  bool zeros_behind = false;  ///< what the product's rows and columns behind them are
};

class Graph {
 public:
  /// An array whose address run() is given. Where there are `offsets`, [batch + 1, 1, 1, 1], they say
  /// at which element each sequence begins.
  Tensor array(cudnnDataType_t type, const Shape& size, const Shape& strides, Tensor offsets = {}) {
    return tensor(type, size, strides, false, false, offsets);
  }
  /// An integer for each of `count` sequences, or one more.
  Tensor integers(std::int64_t count) {
    return array(CUDNN_DATA_INT32, {count, 1, 1, 1}, {1, 1, 1, 1});
  }
  /// What one operation makes and another reads, of fp32 if nothing is said.
  Tensor between(const Shape& size, const Shape& strides, cudnnDataType_t type = CUDNN_DATA_FLOAT,
                 Tensor offsets = {}) {
    return tensor(type, size, strides, true, false, offsets);
  }
  Tensor between(const Shape& size) { return between(size, packed(size)); }
  Tensor number(float value) {
    return number(CUDNN_DATA_FLOAT, std::bit_cast<std::uint32_t>(value));
  }
  Tensor number(std::int32_t value) {
    return number(CUDNN_DATA_INT32, std::bit_cast<std::uint32_t>(value));
  }

  void multiply(Tensor a, Tensor b, Tensor c, const Extents& of = {}) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &kFloat);
    constexpr double kZero = 0;
    if (of.zeros_behind) how.set(CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, &kZero);
    how.finalize();
    Descriptor& made = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor)
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor)
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor)
        .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how.get());
    made.set_if(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, of.rows.descriptor)
        .set_if(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, of.columns.descriptor)
        .set_if(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, of.terms.descriptor)
        .finalize();
    keep(std::move(how));
  }

  /// The first lengths[b] positions of each sequence b, from the pages that its row of a table has, of
  /// `pages`, [pages, heads, positions, d]. Of y the last two dimensions may be the other way round.
  void load_pages(Tensor pages, Tensor table, Tensor lengths, Tensor y) {
    operation(CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC, pages.descriptor)
        .set(CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC, table.descriptor)
        .set(CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC, lengths.descriptor)
        .set(CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC, y.descriptor)
        .finalize();
  }

  void reduce(cudnnReduceTensorOp_t by, Tensor x, Tensor y) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &by)
        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &kFloat)
        .finalize();
    operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how.get())
        .finalize();
    keep(std::move(how));
  }

  void reshape(Tensor x, Tensor y) {
    operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor)
        .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor)
        .finalize();
  }

  /// y = f(x), or of two, or of `mask` too.
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
    return pointwise(mode, x, Tensor{}, y);
  }
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y,
                   cudnnDataType_t type = CUDNN_DATA_FLOAT, Tensor mask = {}) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &type)
        .finalize();
    return applied(std::move(how), x, b, y, mask);
  }
  /// Where a tensor like x has its elements along an axis.
  Tensor index(std::int64_t axis, Tensor x, Tensor y) {
    constexpr cudnnPointwiseMode_t kMode = CUDNN_POINTWISE_GEN_INDEX;
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &kMode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &kFloat)
        .set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, &axis)
        .finalize();
    return applied(std::move(how), x, Tensor{}, y, Tensor{});
  }

  /// Chooses an engine, the first by cuDNN's heuristic that takes the graph.
  void finish() {
    const ladder::CudnnHandle handle;
    const cudnnHandle_t on = handle;
    std::vector<cudnnBackendDescriptor_t> operations;
    for (const Descriptor& one : operations_) operations.push_back(one.get());
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
             operations.size())
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &on)
        .finalize();
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    constexpr cudnnBackendHeurMode_t kMode = CUDNN_HEUR_MODE_A;
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &kMode)
        .finalize();
    std::int64_t count = 0;
    cudnn_check(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                "cuDNN's heuristic");
    std::vector<Descriptor> engines;
    std::vector<cudnnBackendDescriptor_t> found;
    for (std::int64_t i = 0; i < count; ++i) {
      found.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
    }
    cudnn_check(
        cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, found.data()),
        "cuDNN's heuristic");
    for (std::int64_t i = 0; i < count; ++i) {
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &on)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found[static_cast<std::size_t>(i)]);
      if (plan.try_finalize() != CUDNN_STATUS_SUCCESS) continue;
      std::int64_t one = 0;
      cudnn_check(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, &one, &workspace_),
                  "cuDNN's plan");
      keep(std::move(graph));
      keep(std::move(engines[static_cast<std::size_t>(i)]));
      plan_ = keep(std::move(plan));
      return;
    }
    throw std::runtime_error("cuDNN has no engine for this problem on this GPU");
  }

  /// Bytes.
  std::size_t workspace() const { return static_cast<std::size_t>(workspace_); }

  void run(const std::vector<std::pair<Tensor, const void*>>& arrays, void* workspace,
           cudaStream_t stream) const {
    std::vector<std::int64_t> ids(number_ids_);
    std::vector<const void*> addresses;
    for (const std::uint32_t& bits : numbers_) addresses.push_back(&bits);
    for (const auto& [array, address] : arrays) {
      ids.push_back(array.id);
      addresses.push_back(address);
    }
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), ids.size())
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses.data(),
             addresses.size())
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace)
        .finalize();
    const ladder::CudnnHandle handle;
    cudnn_check(cudnnSetStream(handle, stream), "cudnnSetStream");
    cudnn_check(cudnnBackendExecute(handle, plan_, pack.get()), "cudnnBackendExecute");
  }

 private:
  static constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

  Tensor number(cudnnDataType_t type, std::uint32_t bits) {
    const Tensor made = tensor(type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true, {});
    numbers_.push_back(bits);
    number_ids_.push_back(made.id);
    return made;
  }
  Tensor tensor(cudnnDataType_t type, const Shape& size, const Shape& strides, bool is_virtual,
                bool by_value, Tensor offsets) {
    const std::int64_t id = ++tensors_, alignment = by_value ? sizeof(float) : 16;
    Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &id)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, size.data(), size.size())
        .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.data(), strides.size())
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &alignment)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &is_virtual)
        .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, &by_value)
        .set_if(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, offsets.descriptor)
        .finalize();
    return {keep(std::move(made)), id};
  }
  Tensor applied(Descriptor how, Tensor x, Tensor b, Tensor y, Tensor mask) {
    Descriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get())
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
    made.set_if(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b.descriptor)
        .set_if(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask.descriptor)
        .finalize();
    keep(std::move(how));
    return y;
  }
  Descriptor& operation(cudnnBackendDescriptorType_t type) {
    return operations_.emplace_back(type);
  }
  cudnnBackendDescriptor_t keep(Descriptor made) {
    return kept_.emplace_back(std::move(made)).get();
  }

  std::int64_t tensors_ = 0, workspace_ = 0;
  std::deque<Descriptor> operations_, kept_;
  std::deque<std::uint32_t> numbers_;
  std::vector<std::int64_t> number_ids_;
  cudnnBackendDescriptor_t plan_ = nullptr;
};

}  // namespace cudnn_graph
