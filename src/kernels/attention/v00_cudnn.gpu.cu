// Idea      cuDNN, the vendor's library, as the baseline: its attention is a graph of products,
//           reductions and operations on elements, which one kernel does (of gradients a few)
// Bound by  tensor cores; decode by DRAM bandwidth
// Limits    sequences of one length, no query that sees no key, a causal mask aligned at the top left;
//           of decode one query and no pages; of gradients multiples of 128 keys, up to cuDNN 9.15
#include "cudnn_graph.hpp"
#include "decode.hpp"
#include "limits.hpp"

#include <limits>
#include <map>

namespace {

using cudnn_graph::Graph;
using cudnn_graph::packed;
using cudnn_graph::Shape;
using cudnn_graph::Tensor;

/// What a graph depends on.
struct Sizes {
  int batch, heads, kv_heads, queries, keys, d;
  attention::Strides q, k;
  float scale;

  template <class Args>
  explicit Sizes(const Args& a)
      : batch(a.batch),
        heads(a.heads),
        kv_heads(a.kv_heads),
        queries(a.queries),
        keys(a.keys),
        d(a.d),
        q(a.q_strides),
        k(a.k_strides),
        scale(a.scale) {}

  Shape of_q() const { return {batch, heads, queries, d}; }
  Shape of_k() const { return {batch, kv_heads, keys, d}; }
  Shape of_scores() const { return {batch, heads, queries, keys}; }
  Shape of_rows() const { return {batch, heads, queries, 1}; }
  static Shape strides(const attention::Strides& by) { return {by.batch, by.head, by.row, 1}; }
  static Shape transposed(Shape of) {
    std::swap(of[2], of[3]);
    return of;
  }

  auto key() const {
    return std::array<std::int64_t, 12>{batch,   heads,  kv_heads, queries, keys,   d,
                                        q.batch, q.head, q.row,    k.batch, k.head, k.row};
  }
};

/// What scores become that are not seen; before 9.10 cuDNN's softmax wants a number.
float lowest() {
  using Limits = std::numeric_limits<float>;
  return cudnnGetVersion() < 91000 ? Limits::lowest() : -Limits::infinity();
}

/// Scores times the scale; behind the diagonal, which begins at the top left, none.
struct Masked : Graph {
  Tensor scaled(Tensor x, const Sizes& s) {
    return pointwise(CUDNN_POINTWISE_MUL, x, number(s.scale), between(s.of_scores()));
  }
  Tensor masked(Tensor x, const Sizes& s) {
    const Shape size = s.of_scores();
    const auto position = [&](std::int64_t axis) {
      return index(axis, x, between(size, packed(size), CUDNN_DATA_INT32));
    };
    const Tensor row = position(2), column = position(3);
    const Tensor is_seen =
        pointwise(CUDNN_POINTWISE_CMP_GE, row, column,
                  between(size, packed(size), CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, number(lowest()), between(size),
                     CUDNN_DATA_FLOAT, is_seen);
  }
};

template <class T>
struct Forward : Masked {
  Tensor q, k, v, o, lse;

  Forward(const Sizes& s, bool causal) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const Shape scores = s.of_scores(), rows = s.of_rows();
    q = array(kType, s.of_q(), Sizes::strides(s.q));
    k = array(kType, Sizes::transposed(s.of_k()), Sizes::transposed(Sizes::strides(s.k)));
    v = array(kType, s.of_k(), Sizes::strides(s.k));
    o = array(kType, s.of_q(), Sizes::strides(s.q));
    lse = array(CUDNN_DATA_FLOAT, rows, packed(rows));

    const Tensor product = between(scores), max = between(rows), sum = between(rows);
    multiply(q, k, product);
    Tensor x = scaled(product, s);
    if (causal) x = masked(x, s);
    reduce(CUDNN_REDUCE_TENSOR_MAX, x, max);
    const Tensor lower = pointwise(CUDNN_POINTWISE_SUB, x, max, between(scores));
    const Tensor power = pointwise(CUDNN_POINTWISE_EXP, lower, between(scores));
    reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
    pointwise(CUDNN_POINTWISE_ADD, max, pointwise(CUDNN_POINTWISE_LOG, sum, between(rows)), lse);
    const Tensor weights = between(scores, packed(scores), kType);
    pointwise(CUDNN_POINTWISE_DIV, power, sum, weights);
    multiply(weights, v, o);
    finish();
  }
};

template <class T>
struct Backward : Masked {
  Tensor q, k, v, o, lse, d_o, dq, dk, dv;
  Tensor delta, dq_sums;  // in the workspace
  std::size_t delta_bytes, dq_bytes;

  Backward(const Sizes& s, bool causal) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const Shape scores = s.of_scores(), rows = s.of_rows(), of_q = s.of_q(), of_k = s.of_k();
    const Shape q_strides = Sizes::strides(s.q), k_strides = Sizes::strides(s.k);
    const auto like_q = [&] { return array(kType, of_q, q_strides); };
    const auto columns = [&] {
      return array(kType, Sizes::transposed(of_k), Sizes::transposed(k_strides));
    };
    q = like_q();
    o = like_q();
    d_o = like_q();
    dq = like_q();
    k = columns();
    v = columns();
    dk = array(kType, of_k, k_strides);
    dv = array(kType, of_k, k_strides);
    lse = array(CUDNN_DATA_FLOAT, rows, packed(rows));
    delta = array(CUDNN_DATA_FLOAT, rows, packed(rows));
    dq_sums = array(CUDNN_DATA_FLOAT, of_q, packed(of_q));
    delta_bytes = sizeof(float) * static_cast<std::size_t>(rows[0] * rows[1] * rows[2]);
    dq_bytes = delta_bytes * static_cast<std::size_t>(s.d);

    const Tensor products = pointwise(CUDNN_POINTWISE_MUL, d_o, o, between(of_q)),
                 sum = between(rows);
    reduce(CUDNN_REDUCE_TENSOR_ADD, products, sum);
    pointwise(CUDNN_POINTWISE_MUL, sum, number(1), delta);

    const Tensor score = between(scores);
    multiply(q, k, score);
    Tensor x = scaled(score, s);
    x = pointwise(CUDNN_POINTWISE_SUB, x, lse, between(scores));
    if (causal) x = masked(x, s);
    const Tensor weights = pointwise(CUDNN_POINTWISE_EXP, x, between(scores));
    multiply_transposed(weights, d_o, dv, s);

    const Tensor dp = between(scores);
    multiply(d_o, v, dp);
    x = pointwise(CUDNN_POINTWISE_SUB, dp, delta, between(scores));
    x = pointwise(CUDNN_POINTWISE_MUL, x, weights, between(scores));
    const Tensor ds = scaled(x, s);
    multiply_transposed(ds, q, dk, s);

    const Tensor key_rows = between(of_k, k_strides, kType);
    reshape(k, key_rows);
    multiply(ds, key_rows, dq_sums);
    pointwise(CUDNN_POINTWISE_IDENTITY, dq_sums, dq);
    finish();
  }

 private:
  /// The sum of rows of y over all queries of the heads that share a head of keys.
  void multiply_transposed(Tensor x, Tensor y, Tensor sums, const Sizes& s) {
    constexpr cudnnDataType_t kType = cudnn_graph::kType<T>;
    const Shape scores = s.of_scores(), size = {s.batch, s.heads, s.keys, s.d};
    const Tensor columns =
        between(Sizes::transposed(scores), Sizes::transposed(packed(scores)), kType);
    reshape(x, columns);
    if (s.heads == s.kv_heads) return multiply(columns, y, sums);
    const Tensor of_heads = between(size, packed(size), kType);
    multiply(columns, y, of_heads);
    reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, sums);
  }
};

/// Of one kind, made when a problem is first met, and never destroyed: CUDA goes before.
template <class G, bool kCausal, class Args>
G& graph_of(const Args& a) {
  static auto& graphs = *new std::map<std::array<std::int64_t, 12>, G>;
  const Sizes sizes(a);
  const auto found = graphs.find(sizes.key());
  return found != graphs.end() ? found->second
                               : graphs.try_emplace(sizes.key(), sizes, kCausal).first->second;
}

ladder::Support supports_lengths(const attention::Problem& p) {
  if (cudnnGetVersion() < 90000) return ladder::unsupported("needs cuDNN 9");
  if (const auto support = needs_compute_capability(80); !support.ok) return support;
  if (const auto support = needs_equal_lengths(p); !support.ok) return support;
  if (p.batch == 0 || p.queries == 0 || p.keys == 0) {
    return ladder::unsupported("cuDNN's tensors are not empty");
  }
  return ladder::supported();
}

/// cuDNN's two kinds of alignment are one where there are as many queries as keys.
template <class Op>
ladder::Support supports_mask(const attention::Problem& p) {
  if (!Op::kCausal || p.top_left || p.queries == p.keys) return supports_lengths(p);
  return ladder::unsupported("the causal mask is aligned at the bottom right");
}

template <class Op>
struct CudnnForward {
  static constexpr ladder::Version version{"NVIDIA's library, cuDNN's attention", true};

  template <class T>
  static void launch(const attention::Args<T>& a, cudaStream_t stream) {
    auto& graph = graph_of<Forward<T>, Op::kCausal>(a);
    graph.run({{graph.q, a.q}, {graph.k, a.k}, {graph.v, a.v}, {graph.o, a.o}, {graph.lse, a.lse}},
              a.workspace, stream);
  }
  template <class T>
  static std::size_t workspace(const attention::Args<T>& a) {
    return graph_of<Forward<T>, Op::kCausal>(a).workspace();
  }
  static ladder::Support supports(const attention::Problem& p) { return supports_mask<Op>(p); }
};

template <class Op>
struct CudnnBackward {
  static constexpr ladder::Version version{"NVIDIA's library, gradients of cuDNN's attention",
                                           true};
  static constexpr attention::Problem test_problems[] = {{1, 2, 2, 128, 128, 64},
                                                         {2, 4, 2, 256, 256, 128, -1, true}};

  // delta and dq's sums lie before cuDNN's own workspace, at multiples of 256 bytes.
  template <class T>
  static void launch(const attention_backward::Args<T>& a, cudaStream_t stream) {
    auto& graph = graph_of<Backward<T>, Op::kCausal>(a);
    char* const delta = static_cast<char*>(a.workspace);
    char* const dq_sums = delta + rounded(graph.delta_bytes);
    if (cudnnGetVersion() < 90600) ladder::fill_async(dq_sums, 0, graph.dq_bytes, stream);
    graph.run({{graph.q, a.q},
               {graph.k, a.k},
               {graph.v, a.v},
               {graph.o, a.o},
               {graph.lse, a.lse},
               {graph.d_o, a.d_o},
               {graph.dq, a.dq},
               {graph.dk, a.dk},
               {graph.dv, a.dv},
               {graph.delta, delta},
               {graph.dq_sums, dq_sums}},
              dq_sums + rounded(graph.dq_bytes), stream);
  }
  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    const auto& graph = graph_of<Backward<T>, Op::kCausal>(a);
    return rounded(graph.delta_bytes) + rounded(graph.dq_bytes) + graph.workspace();
  }
  static ladder::Support supports(const attention::Problem& p) {
    if (p.keys % 128 != 0 && cudnnGetVersion() <= 91500) {
      return ladder::unsupported("cuDNN up to 9.15 needs keys in multiples of 128");
    }
    return supports_mask<Op>(p);
  }

 private:
  static std::size_t rounded(std::size_t bytes) {
    return ladder::ceil_div(bytes, std::size_t{256}) * 256;
  }
};

struct CudnnDecode {
  static constexpr ladder::Version version{"NVIDIA's library, cuDNN's attention", true};

  template <class T>
  static void launch(const attention_decode::Args<T>& a, cudaStream_t stream) {
    auto& graph = graph_of<Forward<T>, false>(a);
    graph.run({{graph.q, a.q}, {graph.k, a.k}, {graph.v, a.v}, {graph.o, a.o}, {graph.lse, a.lse}},
              a.workspace, stream);
  }
  template <class T>
  static std::size_t workspace(const attention_decode::Args<T>& a) {
    return graph_of<Forward<T>, false>(a).workspace();
  }
  static ladder::Support supports(const attention::Problem& p) {
    if (p.page > 0) return ladder::unsupported("the cache has pages");
    if (p.shortest_keys >= 0) return ladder::unsupported("the sequences have different lengths");
    if (p.queries > 1) return ladder::unsupported("there are several queries");
    return supports_lengths(p);
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
