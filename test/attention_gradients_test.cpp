// The gradients of attention: its fp64 answer is what finite differences of the fp64 forward give,
// and its limits accept a kernel that rounds as tensor cores do, and reject well-known mistakes.
#include "harness/family.hpp"

#include "kernels/attention/attention.hpp"
#include "kernels/attention/backward_reference.hpp"
#include "kernels/attention/contract.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ladder {
namespace {

// --- Finite differences ---------------------------------------------------------------------------

struct Operands64 {
  std::vector<double> q, k, v, d_o;
};

std::vector<double> some(std::size_t size, std::uint64_t stream) {
  std::vector<double> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = uniform(random_bits(1, stream, i));
  return all;
}

double function_of(const attention::Problem& p, bool causal, const Operands64& of) {
  const auto o =
      attention_reference::forward<double>(p, causal, of.q.data(), of.k.data(), of.v.data())[0];
  double sum = 0;
  for (std::size_t i = 0; i < of.d_o.size(); ++i) sum += of.d_o[i] * o.values[i];
  return sum;
}

void expect_derivatives(const attention::Problem& p, bool causal) {
  const attention_layout::Layout at(p);
  Operands64 of{some(at.q_size(), 0), some(at.k_size(), 1), some(at.k_size(), 2),
                some(at.q_size(), 3)};
  const auto o =
      attention_reference::forward<double>(p, causal, of.q.data(), of.k.data(), of.v.data())[0];
  const std::vector<double> o_values(o.values.begin(), o.values.end());
  const auto gradients = attention_reference::backward<double>(
      p, causal, of.q.data(), of.k.data(), of.v.data(), o_values.data(), of.d_o.data());
  constexpr double kStep = 1e-4;
  std::vector<double>* const inputs[] = {&of.q, &of.k, &of.v};
  for (std::size_t input = 0; input < 3; ++input) {
    for (std::size_t i = 0; i < inputs[input]->size(); ++i) {
      double& x = (*inputs[input])[i];
      const double before = x;
      x = before + kStep;
      const double above = function_of(p, causal, of);
      x = before - kStep;
      const double below = function_of(p, causal, of);
      x = before;
      ASSERT_NEAR(gradients[input].values[i], (above - below) / (2 * kStep), 1e-7)
          << ladder::text_of(
                 ladder::field_texts(attention_contract::Common<attention>::fields(), &p))
          << (causal ? " causal" : "") << ", element " << i << " of input " << input;
    }
  }
}

TEST(AttentionGradients, AreThoseOfFiniteDifferences) {
  for (const bool causal : {false, true}) {
    // Heads in groups; more queries than keys, and less; both layouts, both alignments of the mask;
    // different lengths, with rows that are not used.
    expect_derivatives({1, 4, 2, 5, 3, 4}, causal);
    expect_derivatives({2, 1, 1, 3, 5, 4, -1, true}, causal);
    expect_derivatives({1, 2, 1, 4, 6, 4, -1, true, true}, causal);
    expect_derivatives({3, 2, 1, 4, 4, 4, 0}, causal);
    expect_derivatives({2, 2, 2, 3, 3, 4, 1, true}, causal);
  }
}

// --- Well-known mistakes: a kernel in plain C++ on the host device's memory -----------------------

enum class Mistake {
  none,
  scale_dropped_of_dq,
  scale_dropped_of_dk,
  delta_dropped,
  delta_of_next_row,
  delta_of_half_a_row,
  weights_for_dk,
  gradients_for_dv,
  last_keys_missing_in_dq,
  last_queries_missing_in_dk,
  first_head_alone,
  last_head_overwrites,
  diagonal_not_masked,
  diagonal_masked,
  top_left,
  lse_in_base_2,
  scores_in_16_bits,
  sums_in_16_bits,
  unused_rows_left,
};

float rounded(float x) { return static_cast<float>(bfloat16(x)); }

template <class Op, Mistake kMistake>
void gradients(const attention_backward::Args<bfloat16>& a) {
  constexpr int kTile = 64;
  const auto is = [](Mistake mistake) { return mistake == kMistake; };
  const auto d = static_cast<std::size_t>(a.d);
  const auto dot = [&](const bfloat16* x, const bfloat16* y, std::size_t size) {
    float sum = 0;
    for (std::size_t i = 0; i < size; ++i)
      sum += static_cast<float>(x[i]) * static_cast<float>(y[i]);
    return sum;
  };
  const auto scale_of = [&](Mistake mistake) { return is(mistake) ? 1 : a.scale; };
  for (int b = 0; b < a.batch; ++b) {
    std::int64_t first_query = 0, first_key = 0;
    int queries = a.queries, keys = a.keys, key_rows = a.keys;
    if (a.query_starts) {
      first_query = a.query_starts[b];
      first_key = a.key_starts[b];
      queries = a.query_starts[b + 1] - a.query_starts[b];
      keys = a.keys_used[b];
      key_rows = a.key_starts[b + 1] - a.key_starts[b];
    }
    const int diagonal = a.top_left || is(Mistake::top_left) ? 0 : keys - queries;
    const auto query_at = [&](int h, int row) {
      return b * a.q_strides.batch + h * a.q_strides.head + (first_query + row) * a.q_strides.row;
    };
    const auto lse_of = [&](int h, int row) {
      return a.lse[b * a.lse_strides.batch + h * a.lse_strides.head + first_query + row];
    };
    const int group = a.heads / a.kv_heads;
    for (int kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      const auto key_at = [&](int row) {
        return b * a.k_strides.batch + kv_head * a.k_strides.head +
               (first_key + row) * a.k_strides.row;
      };
      std::vector<float> dk(static_cast<std::size_t>(keys) * d), dv(dk.size());
      for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        if (is(Mistake::first_head_alone) && h > kv_head * group) continue;
        if (is(Mistake::last_head_overwrites)) {
          std::fill(dk.begin(), dk.end(), 0.f);
          std::fill(dv.begin(), dv.end(), 0.f);
        }
        // Of dq last_head_overwrites and first_head_alone say nothing.
        for (int i = 0; i < queries; ++i) {
          const std::int64_t row = query_at(h, i);
          const int of_delta = is(Mistake::delta_of_next_row) ? (i + 1) % queries : i;
          const std::int64_t delta_row = query_at(h, of_delta);
          const float delta = is(Mistake::delta_dropped)
                                  ? 0
                                  : dot(a.o + delta_row, a.d_o + delta_row,
                                        is(Mistake::delta_of_half_a_row) ? d / 2 : d);
          int seen = Op::kCausal ? std::clamp(i + diagonal + 1, 0, keys) : keys;
          if (Op::kCausal && is(Mistake::diagonal_not_masked)) {
            seen = std::min(keys, (seen + kTile - 1) / kTile * kTile);
          }
          if (Op::kCausal && is(Mistake::diagonal_masked)) seen = std::max(0, seen - 1);
          std::vector<float> dq(d);
          for (int j = 0; j < seen; ++j) {
            const auto key = static_cast<std::size_t>(j) * d;
            float score = dot(a.q + row, a.k + key_at(j), d) * a.scale;
            if (is(Mistake::scores_in_16_bits)) score = rounded(score);
            const float exponent = score - lse_of(h, i);
            const float p = is(Mistake::lse_in_base_2) ? std::exp2(exponent) : std::exp(exponent);
            const float ds = rounded(p * (dot(a.d_o + row, a.v + key_at(j), d) - delta));
            const bool in_dq =
                !is(Mistake::last_keys_missing_in_dq) || j < (keys - 1) / kTile * kTile;
            const bool in_dk =
                !is(Mistake::last_queries_missing_in_dk) || i < (queries - 1) / kTile * kTile;
            for (std::size_t c = 0; c < d; ++c) {
              const auto q = static_cast<float>(a.q[row + static_cast<std::int64_t>(c)]);
              const auto d_o = static_cast<float>(a.d_o[row + static_cast<std::int64_t>(c)]);
              const auto k = static_cast<float>(a.k[key_at(j) + static_cast<std::int64_t>(c)]);
              if (in_dq) dq[c] += ds * k;
              if (in_dk) dk[key + c] += (is(Mistake::weights_for_dk) ? rounded(p) : ds) * q;
              dv[key + c] += (is(Mistake::gradients_for_dv) ? ds : rounded(p)) * d_o;
              if (is(Mistake::sums_in_16_bits)) dq[c] = rounded(dq[c]);
            }
          }
          for (std::size_t c = 0; c < d; ++c) {
            a.dq[row + static_cast<std::int64_t>(c)] =
                bfloat16(dq[c] * scale_of(Mistake::scale_dropped_of_dq));
          }
        }
      }
      for (int j = 0; j < (is(Mistake::unused_rows_left) ? keys : key_rows); ++j) {
        for (std::size_t c = 0; c < d; ++c) {
          const auto at = static_cast<std::size_t>(j) * d + c;
          const std::int64_t to = key_at(j) + static_cast<std::int64_t>(c);
          a.dk[to] = bfloat16(j < keys ? dk[at] * scale_of(Mistake::scale_dropped_of_dk) : 0);
          a.dv[to] = bfloat16(j < keys ? dv[at] : 0);
        }
      }
    }
  }
}

template <class Op, Mistake kMistake>
void launch(const Call& call, cudaStream_t) {
  gradients<Op, kMistake>(*static_cast<const attention_backward::Args<bfloat16>*>(call.args));
}

template <class Op, Mistake kMistake>
Verdict verdict(const char* problem, std::string_view inputs) {
  const Kernel kernel{Op::family,    Op::op,        DType::bf16,           {""},
                      "v01_test.cu", Backend::host, &launch<Op, kMistake>, nullptr};
  const auto host = open_host_device();
  const Family& family = family_of(kernel);
  for (const InputSet& set : family.input_sets()) {
    if (set.name != inputs) continue;
    const auto workload = family.open(family.problem(problem), kernel.dtype, set, 7, *host);
    return check(kernel, *workload, *host).verdict;
  }
  ADD_FAILURE() << "no inputs are called " << inputs;
  return Verdict::failed;
}

constexpr const char* kProblem = "1x2:1x70:131x64";
using Plain = attention_backward;
using Causal = attention_causal_backward;

template <class Op, Mistake... kMistakes>
void expect_rejected(const char* problem = kProblem, const char* inputs = "uniform") {
  int number = 0;
  const auto expect = [&](Verdict found) {
    EXPECT_EQ(found, Verdict::incorrect) << Op::op << ": number " << number << " of the mistakes";
    ++number;
  };
  (expect(verdict<Op, kMistakes>(problem, inputs)), ...);
}

TEST(AttentionGradientsCheck, AcceptsARightKernel) {
  for (const char* inputs : {"uniform", "climbing", "steep", "large", "equal"}) {
    for (const char* problem : {kProblem, "1x1x200:40x64", "3x2:1x1..70x128@bshd"}) {
      EXPECT_EQ((verdict<Plain, Mistake::none>(problem, inputs)), Verdict::passed)
          << problem << ", " << inputs;
      EXPECT_EQ((verdict<Causal, Mistake::none>(problem, inputs)), Verdict::passed)
          << problem << ", " << inputs;
    }
  }
}

TEST(AttentionGradientsCheck, RejectsKnownMistakes) {
  using enum Mistake;
  expect_rejected<Plain, scale_dropped_of_dq, scale_dropped_of_dk, delta_dropped, delta_of_next_row,
                  delta_of_half_a_row, weights_for_dk, gradients_for_dv, last_keys_missing_in_dq,
                  last_queries_missing_in_dk, first_head_alone, last_head_overwrites, lse_in_base_2,
                  sums_in_16_bits>();
  expect_rejected<Plain, scores_in_16_bits>(kProblem, "climbing");
  expect_rejected<Causal, delta_dropped, last_keys_missing_in_dq, diagonal_not_masked,
                  diagonal_masked, top_left>();
  expect_rejected<Plain, unused_rows_left>("3x2:1x1..70x64");
}

}  // namespace
}  // namespace ladder
