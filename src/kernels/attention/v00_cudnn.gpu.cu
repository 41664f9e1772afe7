// Idea      cuDNN, the vendor's library, as the baseline: its attention is a graph of products,
//           reductions and operations on elements, the plan, which one kernel does (of gradients a few)
// Bound by  tensor cores; decode by DRAM bandwidth
// Limits    no query that sees no key; of decode one query. Where sequences have different lengths a
//           launch begins with a kernel of one block, which makes the offsets that cuDNN takes.
#include "cudnn_graph.hpp"
#include "decode.hpp"
#include "harness/cuda/memory.hpp"
#include "limits.hpp"

#include <limits>
#include <memory>
#include <tuple>

namespace {

using cudnn_graph::Extents;
using cudnn_graph::Graph;
using cudnn_graph::packed;
using cudnn_graph::Shape;
using cudnn_graph::Tensor;
using Offset = std::int32_t;

/// What a graph depends on.
struct Sizes {
  int batch, heads, kv_heads, queries, keys, d;
  attention::Strides q, k;
  std::int64_t lse_head;  // from a head's lse to the next one's
  bool has_lengths, is_causal;
  int diagonal = 0;  // the first query sees the keys up to this one
  int page = 0, table_pitch = 0;
  float scale;

  template <class T>
  Sizes(const attention::Args<T>& a, bool causal)
      : Sizes(a, a.query_starts != nullptr, a.query_starts ? a.all_queries : a.queries) {
    is_causal = causal;
    if (!a.top_left && !has_lengths) diagonal = keys - queries;
  }
  template <class T>
  explicit Sizes(const attention_decode::Args<T>& a) : Sizes(a, false, a.queries) {
    if (!a.block_table) return;
    page = 1 << a.page_bits;
    table_pitch = a.table_pitch;
  }

  Shape of_q() const { return {batch, heads, queries, d}; }
  Shape of_k() const { return {batch, kv_heads, keys, d}; }
  Shape of_scores() const { return {batch, heads, queries, keys}; }
  Shape of_rows() const { return {batch, heads, queries, 1}; }
  Shape q_strides() const { return strides(q, queries); }
  Shape k_strides() const { return strides(k, keys); }
  Shape lse_strides() const { return {heads * std::int64_t{queries}, lse_head, 1, 1}; }
  static Shape transposed(Shape of) {
    std::swap(of[2], of[3]);
    return of;
  }

 private:
  template <class Args>
  Sizes(const Args& a, bool lengths, std::int64_t lse_pitch)
      : batch(a.batch),
        heads(a.heads),
        kv_heads(a.kv_heads),
        queries(a.queries),
        keys(a.keys),
        d(a.d),
        q(a.q_strides),
        k(a.k_strides),
        lse_head(lse_pitch),
        has_lengths(lengths),
        is_causal(false),
        scale(a.scale) {}

  /// A sequence's begins at an offset where lengths differ; its stride counts for nothing.
  Shape strides(const attention::Strides& by, int rows) const {
    return {has_lengths ? rows * by.row : by.batch, by.head, by.row, 1};
  }
};

/// What scores become that are not seen; before 9.10 cuDNN's softmax wants a number.
float lowest() {
  using Limits = std::numeric_limits<float>;
  return cudnnGetVersion() < 91000 ? Limits::lowest() : -Limits::infinity();
}

struct FreeOnGpu {
  void operator()(Offset* memory) const { cudaFree(memory); }
};
using OnGpu = std::unique_ptr<Offset, FreeOnGpu>;

/// The number of queries or keys of each sequence, the same for all.
OnGpu same_for_all(int batch, int length) {
  const std::vector<Offset> values(static_cast<std::size_t>(batch), length);
  const std::size_t bytes = values.size() * sizeof(Offset);
  OnGpu made(static_cast<Offset*>(ladder::allocate_on_gpu(bytes, "lengths")));
  LADDER_CUDA(cudaMemcpy(made.get(), values.data(), bytes, cudaMemcpyHostToDevice));
  LADDER_CUDA(cudaStreamSynchronize(cudaStreamLegacy));  // a launch's stream may not wait for it
  return made;
}

/// What graphs of attention have in common. Scores behind a sequence's end, where it has lengths, and
/// behind the diagonal are not seen.
struct Attention : Graph {
  struct {
    Tensor queries, keys;  // of each sequence
  } lengths;
  struct {
    Tensor q, k, lse;  // where each sequence begins
  } offsets;

  struct {
    OnGpu queries, keys;
  } same_lengths;  // where cuDNN is given lengths, but queries do not have any

  explicit Attention(const Sizes& s, bool with_lengths) {
    if (!with_lengths) return;
    lengths = {integers(s.batch), integers(s.batch)};
    if (s.has_lengths) {
      offsets = {integers(s.batch + 1), integers(s.batch + 1), integers(s.batch + 1)};
    } else {
      same_lengths = {same_for_all(s.batch, s.queries), same_for_all(s.batch, s.keys)};
    }
  }

  Tensor scaled(Tensor x, const Sizes& s) {
    return pointwise(CUDNN_POINTWISE_MUL, x, number(s.scale), between(s.of_scores()));
  }
  Tensor masked(Tensor x, const Sizes& s) {
    const Shape size = s.of_scores();
    const auto truth = [&](cudnnPointwiseMode_t mode, Tensor a, Tensor b) {
      return pointwise(mode, a, b, between(size, packed(size), CUDNN_DATA_BOOLEAN),
                       CUDNN_DATA_BOOLEAN);
    };
    const auto integer = [&] { return between(size, packed(size), CUDNN_DATA_INT32); };
    const auto where = [&](Tensor is_seen) {
      return pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, number(lowest()), between(size),
                       CUDNN_DATA_FLOAT, is_seen);
    };
    if (lengths.keys.descriptor) {
      const Tensor row = index(2, x, integer()), column = index(3, x, integer());
      x = where(truth(CUDNN_POINTWISE_LOGICAL_AND,
                      truth(CUDNN_POINTWISE_CMP_LT, row, lengths.queries),
                      truth(CUDNN_POINTWISE_CMP_LT, column, lengths.keys)));
    }
    if (s.is_causal) {
      Tensor row = index(2, x, integer());
      const Tensor column = index(3, x, integer());
      if (s.diagonal != 0) {
        row = pointwise(CUDNN_POINTWISE_ADD, row, number(s.diagonal), integer(), CUDNN_DATA_INT32);
      }
      x = where(truth(CUDNN_POINTWISE_CMP_GE, row, column));
    }
    return x;
  }
};

template <class T>
struct Forward : Attention {
  Tensor q, k, v, o, lse, table;

  Forward(const Sizes& s, bool with_lengths) : Attention(s, with_lengths) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const Shape scores = s.of_scores(), rows = s.of_rows();
    q = array(kType, s.of_q(), s.q_strides(), offsets.q);
    o = array(kType, s.of_q(), s.q_strides(), offsets.q);
    lse = array(CUDNN_DATA_FLOAT, rows, s.lse_strides(), offsets.lse);
    Tensor columns, values;
    if (s.page == 0) {
      columns = k =
          array(kType, Sizes::transposed(s.of_k()), Sizes::transposed(s.k_strides()), offsets.k);
      values = v = array(kType, s.of_k(), s.k_strides(), offsets.k);
    } else {
      std::tie(columns, values) = of_pages(s);
    }

    const Tensor product = between(scores), max = between(rows), sum = between(rows);
    multiply(q, columns, product,
             {.rows = lengths.queries, .columns = lengths.keys, .zeros_behind = with_lengths});
    const Tensor x = masked(scaled(product, s), s);
    reduce(CUDNN_REDUCE_TENSOR_MAX, x, max);
    const Tensor lower = pointwise(CUDNN_POINTWISE_SUB, x, max, between(scores));
    const Tensor power = pointwise(CUDNN_POINTWISE_EXP, lower, between(scores));
    reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
    pointwise(CUDNN_POINTWISE_ADD, max, pointwise(CUDNN_POINTWISE_LOG, sum, between(rows)), lse);
    const Tensor weights = between(scores, packed(scores), kType);
    pointwise(CUDNN_POINTWISE_DIV, power, sum, weights);
    multiply(weights, values, o, {.rows = lengths.queries, .terms = lengths.keys});
    finish();
  }

 private:
  /// Keys, transposed, and values. How many pages there are nobody says: as many as can be used.
  std::pair<Tensor, Tensor> of_pages(const Sizes& s) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const std::int64_t used = ladder::ceil_div(s.keys, s.page);
    const Shape size = {s.batch * used, s.kv_heads, s.page, s.d};
    const Shape strides = {s.page * s.k.row, s.k.head, s.k.row, 1};
    k = array(kType, size, strides);
    v = array(kType, size, strides);
    table = array(CUDNN_DATA_INT32, {s.batch, 1, used, 1}, {s.table_pitch, s.table_pitch, 1, 1});
    const Shape of_k = s.of_k();
    const Tensor columns = between(Sizes::transposed(of_k), Sizes::transposed(packed(of_k)), kType);
    const Tensor values = between(of_k, packed(of_k), kType);
    load_pages(k, table, lengths.keys, columns);
    load_pages(v, table, lengths.keys, values);
    return {columns, values};
  }
};

template <class T>
struct Backward : Attention {
  Tensor q, k, v, o, lse, d_o, dq, dk, dv;
  Tensor delta, dq_sums;  // in the workspace
  std::size_t delta_bytes, dq_bytes;

  Backward(const Sizes& s, bool with_lengths) : Attention(s, with_lengths) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const Shape scores = s.of_scores(), rows = s.of_rows(), of_q = s.of_q(), of_k = s.of_k();
    const Shape q_strides = s.q_strides(), k_strides = s.k_strides();
    const auto like_q = [&] { return array(kType, of_q, q_strides, offsets.q); };
    const auto like_k = [&] { return array(kType, of_k, k_strides, offsets.k); };
    const auto columns = [&] {
      return array(kType, Sizes::transposed(of_k), Sizes::transposed(k_strides), offsets.k);
    };
    q = like_q();
    o = like_q();
    d_o = like_q();
    dq = like_q();
    k = columns();
    v = columns();
    dk = like_k();
    dv = like_k();
    lse = array(CUDNN_DATA_FLOAT, rows, s.lse_strides(), offsets.lse);
    delta = array(CUDNN_DATA_FLOAT, rows, packed(rows));
    dq_sums = array(CUDNN_DATA_FLOAT, of_q, packed(of_q));
    delta_bytes = sizeof(float) * static_cast<std::size_t>(rows[0] * rows[1] * rows[2]);
    dq_bytes = delta_bytes * static_cast<std::size_t>(s.d);

    const Tensor products = pointwise(CUDNN_POINTWISE_MUL, d_o, o, between(of_q)),
                 sum = between(rows);
    reduce(CUDNN_REDUCE_TENSOR_ADD, products, sum);
    pointwise(CUDNN_POINTWISE_MUL, sum, number(1.0f), delta);

    const Extents of_scores = {.rows = lengths.queries, .columns = lengths.keys};
    const Tensor score = between(scores);
    multiply(q, k, score, of_scores);
    Tensor x = pointwise(CUDNN_POINTWISE_SUB, scaled(score, s), lse, between(scores));
    const Tensor weights = pointwise(CUDNN_POINTWISE_EXP, masked(x, s), between(scores));
    multiply_transposed(weights, d_o, dv, s);

    const Tensor dp = between(scores);
    multiply(d_o, v, dp, of_scores);
    x = pointwise(CUDNN_POINTWISE_SUB, dp, delta, between(scores));
    x = pointwise(CUDNN_POINTWISE_MUL, x, weights, between(scores));
    const Tensor ds = scaled(x, s);
    multiply_transposed(ds, q, dk, s);

    const Tensor key_rows = between(of_k, k_strides, kType, offsets.k);
    reshape(k, key_rows);
    multiply(ds, key_rows, dq_sums, {.rows = lengths.queries, .terms = lengths.keys});
    pointwise(CUDNN_POINTWISE_IDENTITY, dq_sums, dq);
    finish();
  }

 private:
  /// The sum of rows of y over all queries of the heads that share a head of keys.
  void multiply_transposed(Tensor x, Tensor y, Tensor sums, const Sizes& s) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const Extents extents = {.rows = lengths.keys, .terms = lengths.queries};
    const Shape scores = s.of_scores(), size = {s.batch, s.heads, s.keys, s.d};
    const Tensor columns =
        between(Sizes::transposed(scores), Sizes::transposed(packed(scores)), kType);
    reshape(x, columns);
    if (s.heads == s.kv_heads) return multiply(columns, y, sums, extents);
    const Tensor of_heads = between(size, packed(size), kType);
    multiply(columns, y, of_heads, extents);
    reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, sums);
  }
};

// --- Sequences of different lengths --------------------------------------------------------------

/// Where each sequence begins, in elements.
struct Offsets {
  Offset *q, *k;

  Offsets(void* workspace, int batch)
      : q(static_cast<Offset*>(workspace)), k(q + bytes(batch) / sizeof(Offset) / 2) {}
  /// Of both.
  static std::size_t bytes(int batch) {
    return 2 *
           ladder::ceil_div((static_cast<std::size_t>(batch) + 1) * sizeof(Offset),
                            std::size_t{256}) *
           256;
  }
};

__global__ void make_offsets(const std::int32_t* query_starts, const std::int32_t* key_starts,
                             int batch, int q_row, int k_row, Offsets offsets) {
  for (int b = static_cast<int>(threadIdx.x); b <= batch; b += static_cast<int>(blockDim.x)) {
    offsets.q[b] = query_starts[b] * q_row;
    offsets.k[b] = key_starts[b] * k_row;
  }
}

/// Rows behind a sequence's last key, which cuDNN leaves as they are: a block for each sequence and
/// head.
template <class T>
__global__ void clear_unused(attention_backward::Args<T> a) {
  const int b = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  for (int row = a.key_starts[b] + a.keys_used[b]; row < a.key_starts[b + 1]; ++row) {
    for (int i = static_cast<int>(threadIdx.x); i < a.d; i += static_cast<int>(blockDim.x)) {
      const std::int64_t at = head * a.k_strides.head + row * a.k_strides.row + i;
      a.dk[at] = a.dv[at] = T(0.0f);
    }
  }
}

using Arrays = std::vector<std::pair<Tensor, const void*>>;

/// Adds to what a graph is given the lengths of its sequences and where they begin; returns cuDNN's part
/// of the workspace.
template <class G, class Args>
char* add_lengths(const G& graph, const Args& a, Arrays& arrays, cudaStream_t stream) {
  char* const workspace = static_cast<char*>(a.workspace);
  if (a.query_starts == nullptr) {
    if (graph.same_lengths.keys) {
      arrays.emplace_back(graph.lengths.queries, graph.same_lengths.queries.get());
      arrays.emplace_back(graph.lengths.keys, graph.same_lengths.keys.get());
    }
    return workspace;
  }
  const Offsets offsets(workspace, a.batch);
  ladder::launch(make_offsets, 1, 256, 0, stream, a.query_starts, a.key_starts, a.batch,
                 static_cast<int>(a.q_strides.row), static_cast<int>(a.k_strides.row), offsets);
  // As many queries as keys.
  arrays.insert(arrays.end(), {{graph.lengths.queries, a.keys_used},
                               {graph.lengths.keys, a.keys_used},
                               {graph.offsets.q, offsets.q},
                               {graph.offsets.k, offsets.k},
                               {graph.offsets.lse, a.query_starts}});
  return workspace + Offsets::bytes(a.batch);
}

// --- The versions --------------------------------------------------------------------------------

ladder::Support supports_graph(const attention::Problem& p) {
  if (cudnnGetVersion() < 90600) return ladder::unsupported("needs cuDNN 9.6 or newer");
  if (const auto support = needs_compute_capability(80); !support.ok) return support;
  if (p.batch == 0 || p.queries == 0 || p.keys == 0 || p.shortest == 0 || p.shortest_keys == 0) {
    return ladder::unsupported("cuDNN's tensors are not empty");
  }
  const std::int64_t rows = std::int64_t{p.batch} * (std::max(p.queries, p.keys) + 3);
  if (p.has_lengths() && rows * p.heads * p.d > std::numeric_limits<Offset>::max()) {
    return ladder::unsupported("offsets are of 32 bits");
  }
  return ladder::supported();
}

template <class Op>
ladder::Support supports_mask(const attention::Problem& p) {
  if (Op::kCausal && !p.top_left && p.queries > p.keys) {
    return ladder::unsupported("there are queries that see no key");
  }
  return supports_graph(p);
}

template <class Op>
struct CudnnForward {
  static constexpr ladder::Version version{"NVIDIA's library, cuDNN's attention", true};

  template <class T>
  static Forward<T> plan(const attention::Args<T>& a, bool) {
    const Sizes sizes(a, Op::kCausal);
    return Forward<T>(sizes, sizes.has_lengths);
  }
  template <class T>
  static std::size_t workspace(const attention::Args<T>& a, const Forward<T>& graph) {
    return (a.query_starts ? Offsets::bytes(a.batch) : 0) + graph.workspace();
  }
  template <class T>
  static void launch(const attention::Args<T>& a, const Forward<T>& graph, cudaStream_t stream) {
    Arrays arrays{
        {graph.q, a.q}, {graph.k, a.k}, {graph.v, a.v}, {graph.o, a.o}, {graph.lse, a.lse}};
    char* const workspace = add_lengths(graph, a, arrays, stream);
    graph.run(arrays, workspace, stream);
  }
  static ladder::Support supports(const attention::Problem& p) { return supports_mask<Op>(p); }
};

template <class Op>
struct CudnnBackward {
  static constexpr ladder::Version version{"NVIDIA's library, gradients of cuDNN's attention",
                                           true};
  static constexpr attention::Problem test_problems[] = {{1, 2, 2, 128, 128, 64},
                                                         {2, 4, 2, 256, 256, 128, -1, true}};

  // Up to 9.15 cuDNN takes multiples of 128 keys, or lengths.
  template <class T>
  static Backward<T> plan(const attention_backward::Args<T>& a, bool) {
    const Sizes sizes(a, Op::kCausal);
    const bool odd = sizes.keys % 128 != 0 && cudnnGetVersion() <= 91500;
    return Backward<T>(sizes, sizes.has_lengths || odd);
  }
  // Offsets, delta and dq's sums lie before cuDNN's own workspace, at multiples of 256 bytes.
  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a, const Backward<T>& graph) {
    return (a.query_starts ? Offsets::bytes(a.batch) : 0) + rounded(graph.delta_bytes) +
           rounded(graph.dq_bytes) + graph.workspace();
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, const Backward<T>& graph,
                     cudaStream_t stream) {
    Arrays arrays{{graph.q, a.q},   {graph.k, a.k},     {graph.v, a.v},
                  {graph.o, a.o},   {graph.lse, a.lse}, {graph.d_o, a.d_o},
                  {graph.dq, a.dq}, {graph.dk, a.dk},   {graph.dv, a.dv}};
    char* const delta = add_lengths(graph, a, arrays, stream);
    if (a.query_starts) {
      ladder::launch(clear_unused<T>,
                     {static_cast<unsigned>(a.batch), static_cast<unsigned>(a.kv_heads)}, 128, 0,
                     stream, a);
    }
    char* const dq_sums = delta + rounded(graph.delta_bytes);
    arrays.emplace_back(graph.delta, delta);
    arrays.emplace_back(graph.dq_sums, dq_sums);
    graph.run(arrays, dq_sums + rounded(graph.dq_bytes), stream);
  }
  static ladder::Support supports(const attention::Problem& p) { return supports_mask<Op>(p); }

 private:
  static std::size_t rounded(std::size_t bytes) {
    return ladder::ceil_div(bytes, std::size_t{256}) * 256;
  }
};

struct CudnnDecode {
  static constexpr ladder::Version version{"NVIDIA's library, cuDNN's attention", true};

  template <class T>
  static Forward<T> plan(const attention_decode::Args<T>& a, bool) {
    return Forward<T>(Sizes(a), a.lengths_differ || a.block_table);
  }
  template <class T>
  static std::size_t workspace(const attention_decode::Args<T>&, const Forward<T>& graph) {
    return graph.workspace();
  }
  template <class T>
  static void launch(const attention_decode::Args<T>& a, const Forward<T>& graph,
                     cudaStream_t stream) {
    Arrays arrays{
        {graph.q, a.q}, {graph.k, a.k}, {graph.v, a.v}, {graph.o, a.o}, {graph.lse, a.lse}};
    if (graph.same_lengths.queries) {
      arrays.emplace_back(graph.lengths.queries, graph.same_lengths.queries.get());
      arrays.emplace_back(graph.lengths.keys, a.keys_used);
    }
    if (a.block_table) arrays.emplace_back(graph.table, a.block_table);
    graph.run(arrays, a.workspace, stream);
  }
  static ladder::Support supports(const attention::Problem& p) {
    if (p.queries > 1) return ladder::unsupported("there are several queries");
    return supports_graph(p);
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<CudnnForward<attention>, attention, half, bfloat16> plain;
const ladder::Register<CudnnForward<attention_causal>, attention_causal, half, bfloat16> causal;
const ladder::Register<CudnnBackward<attention_backward>, attention_backward, half, bfloat16>
    backward;
const ladder::Register<CudnnBackward<attention_causal_backward>, attention_causal_backward, half,
                       bfloat16>
    causal_backward;
const ladder::Register<CudnnDecode, attention_decode, half, bfloat16> decode;

}  // namespace
