#include "reference_kernels.hpp"

#include "harness/cuda/memory.hpp"

#include <memory>
#include <string>

namespace attention_reference {
namespace {

/// `rows` rows of d elements that lie on the GPU.
template <class T>
std::vector<T> download(const T* from, std::int64_t pitch, int rows, int d) {
  std::vector<T> all(static_cast<std::size_t>(rows) * static_cast<std::size_t>(d));
  const std::size_t size = static_cast<std::size_t>(d) * sizeof(T);
  LADDER_CUDA(cudaMemcpy2D(all.data(), size, from, static_cast<std::size_t>(pitch) * sizeof(T),
                           size, static_cast<std::size_t>(rows), cudaMemcpyDeviceToHost));
  return all;
}

/// Elements on the GPU that are freed with this.
template <class T>
std::unique_ptr<T, void (*)(T*)> scratch(std::int64_t size) {
  void* const data =
      ladder::allocate_on_gpu(static_cast<std::size_t>(size) * sizeof(T), "the reference");
  return {static_cast<T*>(data), [](T* all) { cudaFree(all); }};
}

/// How many keys a query sees, of sequences of one length.
template <class T>
int visible(const attention::Args<T>& a, bool causal, int row) {
  const int diagonal = a.top_left ? 0 : a.keys - a.queries;
  return causal ? std::clamp(row + diagonal + 1, 0, a.keys) : a.keys;
}

/// A query and a key that are compared with the CPU's.
struct Sample {
  static constexpr int kCount = 5;
  int sequence, head, kv_head, row, key;

  /// Throws unless the GPU's answers from `at` on are the CPU's: fp64's errors are next to nothing of
  /// what a kernel may be off by.
  void expect(ladder::AnswerOnGpu on_gpu, std::int64_t at, const std::vector<double>& values,
              const std::vector<double>& limits) const {
    const int size = static_cast<int>(values.size());
    const auto found = download(on_gpu.values + at, size, 1, size);
    const auto found_limits = download(on_gpu.magnitude + at, size, 1, size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto is_right = [&](double x, double expected) {
        return x == expected || std::abs(x - expected) <= 1e-4 * limits[i];
      };
      if (is_right(found[i], values[i]) && is_right(found_limits[i], limits[i])) continue;
      throw std::runtime_error("the fp64 reference on the GPU differs from the CPU's in head " +
                               std::to_string(head) + " of sequence " + std::to_string(sequence) +
                               ", query " + std::to_string(row) + ", key " + std::to_string(key));
    }
  }
  void expect(ladder::AnswerOnGpu on_gpu, std::int64_t at, const std::vector<Sum>& sums,
              double scale, auto limit) const {
    std::vector<double> values, limits;
    for (const Sum& sum : sums) {
      values.push_back(scale * sum.value);
      limits.push_back(scale * limit(sum));
    }
    expect(on_gpu, at, values, limits);
  }
};

/// Calls f with a few of them, where sequences have one length.
template <class T, class F>
void for_each_sample(const attention::Args<T>& a, F f) {
  if (a.query_starts != nullptr) return;
  constexpr int kLast = Sample::kCount - 1;
  for (int i = 0; i < Sample::kCount; ++i) {
    const auto place = [&](int sample, int count) {
      return static_cast<int>(std::int64_t{sample} * (count - 1) / kLast);
    };
    const int head = place(i * 3 % Sample::kCount, a.heads);
    f(Sample{place(i, a.batch), head, head / (a.heads / a.kv_heads), place(i, a.queries),
             place(i * 2 % Sample::kCount, a.keys)});
  }
}

/// Rows of fp64 of those that lie on the GPU.
template <class T>
std::vector<double> wide_rows(const T* from, std::int64_t pitch, int rows, int d) {
  return widened(download(from, pitch, rows, d).data(), rows, d, d);
}

std::int64_t place_of(const attention::Strides& by, int sequence, int head, int row) {
  return sequence * by.batch + head * by.head + row * by.row;
}

template <class T>
void expect_samples(const attention::Args<T>& a, bool causal, ladder::AnswerOnGpu o,
                    ladder::AnswerOnGpu lse) {
  for_each_sample(a, [&](const Sample& sample) {
    const std::int64_t q_at = place_of(a.q_strides, sample.sequence, sample.head, sample.row);
    const std::int64_t k_at = place_of(a.k_strides, sample.sequence, sample.kv_head, 0);
    const int seen = visible(a, causal, sample.row);
    const auto q = download(a.q + q_at, a.d, 1, a.d);
    const Answer expected(q.data(), wide_rows(a.k + k_at, a.k_strides.row, seen, a.d),
                          wide_rows(a.v + k_at, a.k_strides.row, seen, a.d), seen, a.d);
    sample.expect(o, q_at, expected.value, expected.limit);
    sample.expect(lse, place_of(a.lse_strides, sample.sequence, sample.head, sample.row),
                  {expected.lse}, {expected.limit_of_its_lse});
  });
}

/// The gradients of keys are compared with what the CPU makes of `queries`.
template <class T>
void expect_samples(const attention_backward::Args<T>& a, bool causal, const Query* queries,
                    ladder::AnswerOnGpu dq, ladder::AnswerOnGpu dk, ladder::AnswerOnGpu dv) {
  const auto d = static_cast<std::size_t>(a.d);
  const double size = a.d, scale = 1 / std::sqrt(size);
  const int group = a.heads / a.kv_heads;
  const double summed = static_cast<double>(a.queries) * group;
  for_each_sample(a, [&](const Sample& sample) {
    const std::int64_t q_at = place_of(a.q_strides, sample.sequence, sample.head, sample.row);
    const std::int64_t k_at = place_of(a.k_strides, sample.sequence, sample.kv_head, 0);
    const int seen = visible(a, causal, sample.row);
    const auto all_k = wide_rows(a.k + k_at, a.k_strides.row, seen, a.d);
    const auto all_v = wide_rows(a.v + k_at, a.k_strides.row, seen, a.d);
    const QueryRow query(wide_rows(a.q + q_at, 0, 1, a.d), wide_rows(a.d_o + q_at, 0, 1, a.d),
                         wide_rows(a.o + q_at, 0, 1, a.d), all_k.data(), all_v.data(),
                         norms(all_k, d).data(), norms(all_v, d).data(), seen);
    std::vector<Sum> of_q(d), of_k(d), of_v(d);
    for (std::size_t j = 0; j < query.pairs.size(); ++j) {
      add(of_q.data(), query.pairs[j].template of_k<T>(query, seen), &all_k[j * d], d);
    }
    sample.expect(dq, q_at, of_q, scale, [&](const Sum& sum) { return sum.magnitude(seen); });

    const std::int64_t key_at = k_at + sample.key * a.k_strides.row;
    const auto k = wide_rows(a.k + key_at, 0, 1, a.d), v = wide_rows(a.v + key_at, 0, 1, a.d);
    for (int h = sample.kv_head * group; h < (sample.kv_head + 1) * group; ++h) {
      const std::int64_t first = place_of(a.q_strides, sample.sequence, h, 0);
      const auto all_q = wide_rows(a.q + first, a.q_strides.row, a.queries, a.d);
      const auto all_d_o = wide_rows(a.d_o + first, a.q_strides.row, a.queries, a.d);
      const std::int64_t row0 = h * a.all_queries + std::int64_t{sample.sequence} * a.queries;
      const auto of_head = download(queries + row0, a.queries, 1, a.queries);
      for (int row = 0; row < a.queries; ++row) {
        if (sample.key >= visible(a, causal, row)) continue;
        const auto at = static_cast<std::size_t>(row);
        const double *const q = &all_q[at * d], *const d_o = &all_d_o[at * d];
        const Pair pair(of_head[at], QueryRow::dot(q, k.data(), d) * scale,
                        QueryRow::dot(d_o, v.data(), d), norms(k, d)[0], norms(v, d)[0], size);
        add(of_k.data(), pair.template of_q<T>(of_head[at], summed), q, d);
        add(of_v.data(), pair.template of_d_o<T>(summed), d_o, d);
      }
    }
    sample.expect(dk, key_at, of_k, scale, [&](const Sum& sum) { return sum.magnitude(summed); });
    sample.expect(dv, key_at, of_v, 1, [&](const Sum& sum) { return limit_of_dv<T>(sum, summed); });
  });
}

void wait() {
  LADDER_CUDA(cudaGetLastError());
  LADDER_CUDA(cudaDeviceSynchronize());
}

}  // namespace

template <class T>
void forward_on_gpu(const attention::Args<T>& a, bool causal, ladder::AnswerOnGpu o,
                    ladder::AnswerOnGpu lse) {
  with_head_size(a.d, [&](auto d) {
    constexpr int D = decltype(d)::value;
    const auto kernel = causal ? answer<attention_causal, T, D> : answer<attention, T, D>;
    kernel<<<query_tiles(a, kRows), kThreads>>>(a, o, lse);
  });
  wait();
  expect_samples(a, causal, o, lse);
}

template <class T>
void fill_forward_on_gpu(const attention::Args<T>& a, bool causal) {
  const std::int64_t rows = a.all_queries * a.heads;
  const auto o = scratch<double>(rows * a.d), limits = scratch<double>(rows * a.d);
  const auto lse = scratch<double>(rows), lse_limits = scratch<double>(rows);
  forward_on_gpu(a, causal, {o.get(), limits.get()}, {lse.get(), lse_limits.get()});
  constexpr int kBlocks = 1024;
  rounded<<<kBlocks, kThreads>>>(a, o.get(), lse.get());
  wait();
}

template <class T>
void backward_on_gpu(const attention_backward::Args<T>& a, bool causal, ladder::AnswerOnGpu dq,
                     ladder::AnswerOnGpu dk, ladder::AnswerOnGpu dv) {
  const auto queries = scratch<Query>(a.all_queries * a.heads);
  with_head_size(a.d, [&](auto d) {
    constexpr int D = decltype(d)::value;
    const auto first =
        causal ? of_queries<attention_causal_backward, T, D> : of_queries<attention_backward, T, D>;
    const auto second =
        causal ? of_keys<attention_causal_backward, T, D> : of_keys<attention_backward, T, D>;
    first<<<query_tiles(a, kRows), kThreads>>>(a, queries.get(), dq);
    LADDER_CUDA(cudaGetLastError());
    second<<<key_tiles(a, kRows), kThreads>>>(a, queries.get(), dk, dv);
  });
  wait();
  expect_samples(a, causal, queries.get(), dq, dk, dv);
}

#define LADDER_REFERENCE(T)                                                                    \
  template void forward_on_gpu(const attention::Args<T>&, bool, ladder::AnswerOnGpu,           \
                               ladder::AnswerOnGpu);                                           \
  template void fill_forward_on_gpu(const attention::Args<T>&, bool);                          \
  template void backward_on_gpu(const attention_backward::Args<T>&, bool, ladder::AnswerOnGpu, \
                                ladder::AnswerOnGpu, ladder::AnswerOnGpu)
LADDER_REFERENCE(ladder::half);
LADDER_REFERENCE(ladder::bfloat16);

}  // namespace attention_reference
