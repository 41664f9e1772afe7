#include "cli/problems.hpp"

#include "cli/options.hpp"
#include "cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace ladder {
namespace {

constexpr std::size_t kMostProblems = 10'000;
constexpr const char* kTooMany =
    "these are more than 10,000 problems; take a larger step, or fewer of them";

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What a range stands for; `inside` is what stands in its brackets.
std::vector<std::string> values_of(std::string_view inside) {
  const auto mistake = [&](const char* what) {
    return std::runtime_error(fmt::format("[{}] {}", inside, what));
  };
  const auto number = [&](std::string_view text) {
    const auto value = whole_number<std::int64_t>(text);
    if (!value || *value < 0 || *value > std::int64_t{1} << 40) {
      throw mistake(
          "is no range; one is [first:last], [first:last:step], [first:last:*factor] or [a,b,c], "
          "of whole numbers up to 2^40; or a list of words");
    }
    return *value;
  };
  std::vector<std::string> values;
  const std::size_t colon = inside.find(':');
  if (colon == std::string_view::npos) {
    for (const std::string& part : split(inside)) {
      const bool is_word = !part.empty() && std::ranges::all_of(part, [](char c) {
        return (c >= 'a' && c <= 'z') || c == '_';
      });
      values.push_back(is_word ? part : std::to_string(number(part)));
    }
    return values;
  }
  std::string_view last_text = inside.substr(colon + 1), step_text = "1";
  if (const std::size_t second = last_text.find(':'); second != std::string_view::npos) {
    step_text = last_text.substr(second + 1);
    last_text = last_text.substr(0, second);
  }
  const bool factor = step_text.starts_with('*');
  const std::int64_t first = number(inside.substr(0, colon)), last = number(last_text),
                     step = number(step_text.substr(factor));
  if (last < first) throw mistake("ends before it begins");
  if (step < 1 + factor) {
    throw mistake(factor ? "does not grow; a factor is at least 2"
                         : "does not grow; a step is at least 1");
  }
  if (factor && first == 0) throw mistake("does not grow; with a factor it begins at 1 or more");
  for (std::int64_t at = first; at <= last; at = factor ? at * step : at + step) {
    if (values.size() == kMostProblems) throw std::runtime_error(kTooMany);
    values.push_back(std::to_string(at));
    if (factor && at > last / step) break;  // the next may be more than 64 bits hold
  }
  return values;
}

/// Log-uniform from 1 to the next power of two above `most`. By square roots and products, which
/// every machine rounds alike; not so std::exp2.
std::int64_t log_uniform(std::uint64_t bits, std::int64_t most) {
  const auto octaves = static_cast<std::uint64_t>(
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))));
  const auto octave = static_cast<int>(random_bits(bits, 0, 0) % octaves);
  double value = 1, root = 2;
  for (int bit = 63; bit >= 11; --bit) {  // as many as a double has
    root = std::sqrt(root);
    if (bits >> bit & 1) value *= root;
  }
  return static_cast<std::int64_t>(std::ldexp(value, octave));
}

/// How large a problem of an operation may be.
class Limits {
 public:
  Limits(const Family& family, Backend backend) : family_(&family) {
    for (const Problem& problem : family.bench_problems(backend)) {
      const Cost cost = family.cost(problem, DType::f32);
      most_.flops = std::max(most_.flops, cost.flops);
      most_.bytes = std::max(most_.bytes, cost.bytes());
      most_.memory = std::max(most_.memory, family.memory(problem, DType::f32));
      least_bytes_ = std::min(least_bytes_, cost.bytes() / 16);
    }
  }

  bool knows(const std::string& text) const { return family_->parse(text).has_value(); }

  /// Of a text that it knows.
  bool allow(const std::string& text) const {
    const auto problem = family_->parse(text);
    const Cost cost = family_->cost(*problem, DType::f32);
    return cost.flops > 0 && cost.flops <= most_.flops && cost.bytes() <= most_.bytes &&
           cost.bytes() >= least_bytes_ && family_->memory(*problem, DType::f32) <= most_.memory;
  }

 private:
  const Family* family_;
  struct {
    double flops = 0, bytes = 0, memory = 0;
  } most_;
  double least_bytes_ = std::numeric_limits<double>::infinity();
};

/// Of the first operation that knows it and has something to do for it: not all of a family need have
/// the same problems.
std::optional<Problem> problem_of(std::span<const Family> operations, const std::string& text) {
  for (const Family& operation : operations) {
    auto problem = operation.parse(text);
    if (problem && operation.cost(*problem, DType::f32).flops > 0) return problem;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> expand_ranges(std::string_view text) {
  std::vector<std::string> problems{""};
  while (true) {
    const std::size_t open = text.find('[');
    for (std::string& problem : problems) problem += text.substr(0, open);
    if (open == std::string_view::npos) return problems;
    const std::size_t close = text.find(']', open);
    if (close == std::string_view::npos) throw std::runtime_error("a bracket is not closed");
    const auto values = values_of(text.substr(open + 1, close - open - 1));
    if (problems.size() * values.size() > kMostProblems) throw std::runtime_error(kTooMany);
    std::vector<std::string> longer;
    for (const std::string& problem : problems) {
      for (const std::string& value : values) longer.push_back(problem + value);
    }
    problems = std::move(longer);
    text.remove_prefix(close + 1);
  }
}

Problems parse_problems(const std::string& flag, const std::string& text) {
  const auto operations = operations_of(std::string_view(flag).substr(2));
  const Family& family = operations.front();
  Problems problems;
  std::set<std::string> seen;
  const auto expect_few = [&] {
    if (problems.named.size() + problems.random > kMostProblems) {
      throw UsageError(fmt::format("{}: {}.", flag, kTooMany));
    }
  };
  for (const std::string& part : split(text)) {
    const std::string_view random = "random:";
    if (part.starts_with(random)) {
      const auto count = whole_number<std::size_t>(std::string_view(part).substr(random.size()));
      if (!count || *count == 0 || *count > kMostProblems) {
        throw UsageError(
            fmt::format("{}={}: random:N with N from 1 to 10,000 is expected.", flag, part));
      }
      problems.random += *count;
      expect_few();
      continue;
    }
    const auto refusing = [&](auto f) {
      try {
        return f();
      } catch (const std::runtime_error& error) {
        throw UsageError(fmt::format("{}={}: {}.", flag, part, error.what()));
      }
    };
    for (const std::string& one : refusing([&] { return expand_ranges(part); })) {
      const auto problem = refusing([&] { return problem_of(operations, one); });
      const auto reads = [&](const Family& operation) { return operation.parse(one).has_value(); };
      if (!problem && std::ranges::any_of(operations, reads)) {
        throw UsageError(fmt::format(
            "{}={}: there is nothing to compute, and so nothing to time; the least size is 1.",
            flag, one));
      }
      if (!problem) {
        throw UsageError(fmt::format("{}={}: a problem of {} is {}.", flag, one, family.name,
                                     family.problem_help()));
      }
      if (seen.insert(problem->text()).second) problems.named.push_back(problem->text());
    }
    expect_few();
  }
  return problems;
}

std::span<const Family> operations_of(std::string_view family) {
  const auto is_of = [&](const Family& operation) { return operation.name == family; };
  const auto& all = families();  // in the order of their names
  const auto begin = std::find_if(all.begin(), all.end(), is_of);
  return {begin, std::find_if_not(begin, all.end(), is_of)};
}

std::vector<std::string> draw_problems(std::span<const Family> operations, const Problems& problems,
                                       Backend backend, std::uint64_t seed) {
  std::vector<Limits> limits;
  std::map<std::vector<std::string>, std::vector<std::int64_t>> largest;  // by what is between them
  for (const Family& operation : operations) {
    limits.emplace_back(operation, backend);
    for (const Problem& problem : operation.bench_problems(backend)) {
      std::vector<std::string> between{""};
      std::vector<std::int64_t> numbers;
      for (const FieldText& one : field_texts(operation.fields, problem.own())) {
        between.back() += one.before;
        if (one.is_drawn) {
          numbers.push_back(whole_number<std::int64_t>(one.value).value());
          between.emplace_back();
        } else {
          between.back() += one.value;
        }
      }
      auto& most = largest[between];
      most.resize(numbers.size());
      for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], numbers[i]);
    }
  }

  constexpr std::uint64_t kMostFruitless = 20'000;  // draws in a row
  std::vector<std::string> drawn = problems.named;
  std::set<std::string> seen(drawn.begin(), drawn.end());
  for (std::uint64_t draw = 0, last = 0; drawn.size() < problems.named.size() + problems.random;
       ++draw) {
    if (largest.empty() || draw - last > kMostFruitless) {
      throw UsageError(fmt::format(
          "--{}=random:{}: there are hardly more than {} problems as large as the "
          "built-in ones; ask for fewer.",
          operations.front().name, problems.random, drawn.size() - problems.named.size()));
    }
    const auto shape = random_bits(seed, draw, 0) % largest.size();
    const auto& [between, most] = *std::next(largest.begin(), static_cast<std::ptrdiff_t>(shape));
    bool small = true;
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < most.size(); ++i) {
      values.push_back(log_uniform(random_bits(seed, draw, i + 1), most[i]));
      small = small && values.back() <= most[i];
    }
    if (!small) continue;
    std::string text = between.front();
    for (std::size_t i = 0; i < most.size(); ++i)
      text += std::to_string(values[i]) + between[i + 1];
    const auto allows = [&](const Limits& limit) {
      return !limit.knows(text) || limit.allow(text);
    };
    if (!std::all_of(limits.begin(), limits.end(), allows)) continue;
    const auto problem = problem_of(operations, text);
    if (problem && seen.insert(problem->text()).second) {
      drawn.push_back(problem->text());
      last = draw;
    }
  }
  return drawn;
}

}  // namespace ladder
