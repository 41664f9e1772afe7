// What a family of kernels tells the harness, and what the harness makes of it. Included by a
// family's family.cpp and by the programs, never by kernel files.
#pragma once

#include "harness/array.hpp"
#include "harness/device.hpp"
#include "harness/dtype.hpp"
#include "support/large_array.hpp"
#include "support/out_of_memory.hpp"
#include "support/parallel.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace ladder {

/// The work a problem cannot do without: useful floating-point operations, and bytes when every
/// input is read once and every output written once.
struct Cost {
  double flops, bytes_read, bytes_written;
  double bytes() const { return bytes_read + bytes_written; }
};

/// The arithmetic that a family's work is held against, as the family `roofs` measures it: products
/// of `dtype` on the CUDA cores or on the tensor cores, `products` of them for each useful one.
struct ComputeRoof {
  enum class Unit { fma, tensor };
  Unit unit = Unit::fma;
  DType dtype = DType::f32;
  int products = 1;

  auto operator<=>(const ComputeRoof&) const = default;
};

/// Which limit of the machine a family measures, so that others can be held against it; most do work.
enum class Limit { none, dram, fma, tensor, other };

/// A way to fill the inputs. value maps 64 random bits to an element of input number `input`.
struct InputSet {
  const char* name;
  double (*value)(std::uint64_t bits, int input);
  bool exact = false;  ///< correct kernels give the exact result: the tolerance is zero
  /// What stands for value where elements are integers; without it they are values cut towards 0.
  double (*integer)(std::uint64_t bits, int input) = nullptr;
  /// A version, by its label, that is not asked for these inputs on a GPU.
  const char* gpu_exception = nullptr;
  bool rounded = false;  ///< what is exact is then rounded to the result's type: that is tolerated
};

/// Whether a kernel must be right on these inputs.
bool must_pass(const Kernel& kernel, const InputSet& set, Backend backend);

/// n, or if that is more than `most` the largest number up to it whose remainder is n's, divided by
/// 256 or by the power of two that is a quarter of `most` if not less: tiles and vectors end alike.
std::int64_t shortened(std::int64_t n, std::int64_t most);

/// The same of a number of rows, to as many as have 2^20 elements, or 8.
std::int64_t fewer_rows(std::int64_t rows, std::int64_t cols);

/// Uniform in [-1, 1].
double uniform_value(std::uint64_t bits, int input);

/// Integers from -4 to 4: sums of fewer than 2^20 products of two are exact in fp32.
double small_integer_value(std::uint64_t bits, int input);

/// The random bits of a stream, by their number; the same on every machine (splitmix64).
class RandomBits {
 public:
  RandomBits(std::uint64_t seed, std::uint64_t stream) : key_(mix(mix(seed) + stream)) {}
  std::uint64_t operator[](std::uint64_t index) const { return mix(key_ + index); }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  std::uint64_t key_;
};
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return RandomBits(seed, stream)[index];
}

/// A problem of any family, as a user wrote it once it was read: the family's own Problem, and its
/// text, the last part of a benchmark's name.
class Problem {
 public:
  Problem() = default;
  template <class Own>
  Problem(Own own, std::string text)
      : text_(std::move(text)), own_(std::make_shared<const Own>(std::move(own))) {}

  const std::string& text() const { return text_; }

  /// As its family defines it; only its family knows the type.
  template <class Own>
  const Own& as() const {
    return *static_cast<const Own*>(own_.get());
  }
  const void* own() const { return own_.get(); }

  /// Of problems of one family.
  friend bool operator==(const Problem& a, const Problem& b) { return a.text_ == b.text_; }

 private:
  std::string text_;
  std::shared_ptr<const void> own_;
};

/// So many times the value; set by all cores, since an answer may take gigabytes.
Doubles filled(std::size_t size, double value = 0);

/// The right answer in fp64. magnitude is empty, or has the size of values (see Tolerance).
struct Expected {
  Doubles values, magnitude;
};

/// The same in device memory, to be written.
struct AnswerOnGpu {
  double *values, *magnitude;
};

/// Parses "AxBxC" into `count` integers from `least` to 2^40: more than any memory holds, and little
/// enough for 64 bits to hold what a family makes of one.
std::optional<std::vector<std::int64_t>> parse_dimensions(std::string_view text, std::size_t count,
                                                          std::int64_t least);

/// The element type of a family's output: C::Output<T> where the family defines it, else T.
template <class C, class T>
struct OutputOf {
  using type = T;
};
template <class C, class T>
requires requires { typename C::template Output<T>; }
struct OutputOf<C, T> {
  using type = typename C::template Output<T>;
};

/// A family whose inputs are of the kernels' element type, and which has one output: of that type,
/// or C::Output<T>.
template <class C>
concept OneOutput = requires(const typename C::Problem& p, DType dtype,
                             std::span<float* const> inputs, float* output,
                             std::span<const std::span<const float>> values) {
  { C::input_sizes(p) } -> std::same_as<std::vector<std::size_t>>;
  { C::output_size(p) } -> std::same_as<std::size_t>;
  { C::tolerance(p, dtype) } -> std::same_as<Tolerance>;
  { C::bind(p, inputs, output) } -> std::same_as<typename C::template Args<float>>;
  { C::reference(p, values) } -> std::same_as<Expected>;
};

/// Says what is right, for each array that is written, in their order; or where that is not one
/// answer, element by element (a permutation, a sort), looks at what was there before and after a
/// kernel ran, and says what is wrong, or nothing.
template <class C>
concept AnswersOrJudges = requires(const typename C::Problem& p, Operands operands) {
  { C::template reference<float>(p, operands) } -> std::same_as<std::vector<Expected>>;
}
|| requires(const typename C::Problem& p, Operands operands) {
  { C::template mistake<float>(p, operands, operands) } -> std::same_as<std::string>;
};

/// A family whose arrays are of any number, types and roles.
template <class C>
concept SeveralArrays = AnswersOrJudges<C> &&
    requires(const typename C::Problem& p, Operands operands) {
  { C::template arrays<float>(p) } -> std::same_as<std::vector<Array>>;
  { C::template bind<float>(p, operands) } -> std::same_as<typename C::template Args<float>>;
};

template <class C>
concept DescribesArrays = OneOutput<C> || SeveralArrays<C>;

/// What a family (or one op of it) must define. text is the last part of a benchmark's name, and parse
/// its inverse. bind makes the kernel's Args from device pointers; Args has a member
/// `void* workspace` where versions need scratch memory. A family may add:
///   static ComputeRoof compute_roof(DType)    if its arithmetic is not fp32 multiply-adds
///   static constexpr Limit limit              if it measures a limit of the machine
///   static Problem smaller(p)                 if its problems may be large, or some of its input
///                                             sets do for small ones only: what ./bench tries all
///                                             input sets on but the first. What decides which code
///                                             runs stays, what only adds more of the same is cut
///   template <class T> static void arrange_inputs(p, seed, operands)
///                                             if it has SeveralArrays and some are more than numbers
///                                             by chance: makes of what an input set has filled in
///                                             host memory lengths that add up, a permutation, …
///   template <class T> static void derive_inputs(p, operands)
///                                             if some are results of others: makes these. Where it
///                                             has a reference_on_gpu, with derive_inputs_on_gpu(args)
template <class C>
concept Contract = DescribesArrays<C> &&
    requires(const typename C::Problem& p, Backend backend, DType dtype, std::string_view text) {
  { C::family } -> std::convertible_to<std::string_view>;
  { C::op } -> std::convertible_to<std::string_view>;
  { C::problem_help } -> std::convertible_to<std::string_view>;
  { C::parse(text) } -> std::same_as<std::optional<typename C::Problem>>;
  { C::text(p) } -> std::same_as<std::string>;
  { C::test_problems() } -> std::same_as<std::vector<typename C::Problem>>;
  { C::bench_problems(backend) } -> std::same_as<std::vector<typename C::Problem>>;
  { C::input_sets() } -> std::same_as<std::vector<InputSet>>;
  { C::cost(p, dtype) } -> std::same_as<Cost>;
};

/// A problem in one element type, with the Args that kernels of that type are launched with: made of
/// addresses that someone else owns, one for each of arrays().
class Binding {
 public:
  virtual ~Binding() = default;
  const std::vector<Array>& arrays() const { return arrays_; }

  /// Makes args of the arrays' addresses; without a workspace.
  virtual void bind(std::span<void* const> addresses) = 0;
  virtual void set_workspace(void* workspace) = 0;
  virtual const void* args() const = 0;

  /// Makes of inputs in host memory, which a set has filled, what they must be.
  virtual void arrange_inputs(std::uint64_t /*seed*/, std::span<void* const> /*addresses*/) const {}

  /// Makes of these those that are results of others; or where the answers are made on the GPU, of
  /// the arrays that are bound.
  virtual void derive_inputs(std::span<void* const> /*addresses*/) const {}
  virtual void derive_inputs_on_gpu() const {}

  /// The answers, of inputs in host memory: one for each array that is written. Not where
  /// judges_itself().
  virtual std::vector<Expected> reference(std::span<void* const> addresses) const = 0;

  /// What is wrong with results of which there is more than one that is right; in host memory, what
  /// was read before and all arrays after.
  virtual bool judges_itself() const { return false; }
  virtual std::string mistake(std::span<void* const> /*before*/,
                              std::span<void* const> /*after*/) const {
    return "";
  }

  /// Whether reference_on_gpu is there, and is quicker for this problem.
  virtual bool wants_gpu_reference() const { return false; }

  /// Writes the answers, of the arrays that are bound: one for each array that is written.
  virtual void reference_on_gpu(std::span<const AnswerOnGpu> /*answers*/) const {}

 protected:
  std::vector<Array> arrays_;
};

/// One problem on a device: its arrays, and the answers to compare with.
class Workload {
 public:
  Workload(std::unique_ptr<Binding> binding, const InputSet& set, std::uint64_t seed,
           Device& device);

  /// An array that kernels write, and what should be in it.
  struct Result {
    Array array;                     ///< with the tolerance that these inputs ask for
    Buffer* written;                 ///< where kernels write it
    std::optional<Buffer> before{};  ///< what it was, of one that is in place
    std::optional<Buffer> expected{}, magnitude{};  ///< of fp64; see Tolerance

    const double* expected_values() const { return values_of(expected); }
    const double* magnitudes() const { return values_of(magnitude); }

   private:
    static const double* values_of(const std::optional<Buffer>& buffer) {
      return buffer ? static_cast<const double*>(buffer->data()) : nullptr;
    }
  };

  const void* args() const { return binding_->args(); }
  const std::vector<Array>& arrays() const { return binding_->arrays(); }
  std::vector<Buffer>& buffers() { return buffers_; }  ///< one for each of arrays()
  std::vector<Result>& results() { return results_; }
  bool inputs_are_intact() const;

  /// Makes other inputs, in the same memory, and their answer.
  void refill(std::uint64_t seed);

  /// What is written becomes such bytes, or what it was before.
  void reset_results(unsigned char byte);

  bool judges_itself() const { return binding_->judges_itself(); }
  std::string mistake() const;  ///< where it does

  /// Points args at scratch memory for the kernel; null if it needs none.
  Buffer* prepare(const Kernel& kernel);

 private:
  bool answer_is_made_on_gpu() const;
  double host_memory() const;  ///< bytes of the inputs, and of answers that are made on the CPU
  OutOfMemory lack_of_host_memory() const;
  void expect_host_memory() const;
  auto in_host_memory(auto f) const;
  std::uint64_t checksum_of_inputs() const;

  Device& device_;
  std::unique_ptr<Binding> binding_;
  InputSet set_;
  std::vector<Buffer> buffers_;
  std::vector<Result> results_;
  std::optional<Buffer> workspace_;
  std::uint64_t input_checksum_ = 0;
};

/// A family (or one op of it) behind one type for the programs.
struct Family {
  std::string_view name, op, problem_help;
  Limit limit;
  std::optional<Problem> (*parse)(std::string_view);
  std::vector<Problem> (*test_problems)();
  std::vector<Problem> (*own_test_problems)(const Kernel&);
  std::vector<Problem> (*bench_problems)(Backend);
  std::vector<InputSet> (*input_sets)();
  Problem (*smaller)(const Problem&);  ///< or the problem itself
  Cost (*cost)(const Problem&, DType);
  ComputeRoof (*compute_roof)(DType);
  double (*memory)(const Problem&, DType);                  ///< device bytes a check needs
  std::unique_ptr<Binding> (*bind)(const Problem&, DType);  ///< null: not of this type

  /// Throws std::invalid_argument where the text is no problem.
  Problem problem(std::string_view text) const;

  /// Null as bind.
  std::unique_ptr<Workload> open(const Problem& problem, DType dtype, const InputSet& set,
                                 std::uint64_t seed, Device& device) const {
    auto binding = bind(problem, dtype);
    return binding ? std::make_unique<Workload>(std::move(binding), set, seed, device) : nullptr;
  }
};

/// Every family, by name and op.
const std::vector<Family>& families();
const Family& family_of(const Kernel& kernel);

/// Whether a kernel can run a problem, by its own limits; on a device, by its file's suffix first.
Support supports(const Kernel& kernel, const Problem& problem);
Support supports(const Kernel& kernel, const Problem& problem, const DeviceInfo& device);
void add_family(Family family);

/// Device bytes of the arrays and the answers.
double memory_of(const Binding& binding);

/// Writes input number `input`, of `size` elements of one of kDTypes.
void make_input(DType dtype, void* elements, std::size_t size, const InputSet& set,
                std::uint64_t seed, int input);

template <Contract C, class T>
class BindingOf final : public Binding {
  using Args = typename C::template Args<T>;
  using Output = typename OutputOf<C, T>::type;
  static constexpr bool kHasGpuReference = requires(const Args& args) {
    C::reference_on_gpu(args, nullptr, nullptr);
  }
  || requires(const Args& args) { C::reference_on_gpu(args, std::span<const AnswerOnGpu>{}); };
  static constexpr bool kJudges = requires(const typename C::Problem& p, Operands operands) {
    C::template mistake<T>(p, operands, operands);
  };
  static constexpr bool kArranges = requires(const typename C::Problem& p, Operands operands) {
    C::template arrange_inputs<T>(p, std::uint64_t{}, operands);
  };
  static constexpr bool kDerives = requires(const typename C::Problem& p, Operands operands) {
    C::template derive_inputs<T>(p, operands);
  };

 public:
  explicit BindingOf(const typename C::Problem& problem) : problem_(problem) {
    if constexpr (SeveralArrays<C>) {
      arrays_ = C::template arrays<T>(problem);
    } else {
      for (const std::size_t size : C::input_sizes(problem)) {
        arrays_.push_back(input<T>("input " + std::to_string(arrays_.size()), size));
      }
      arrays_.push_back(ladder::output<Output>("output", C::output_size(problem),
                                               C::tolerance(problem, DTypeOf<T>::value)));
    }
  }

  void bind(std::span<void* const> addresses) override {
    if constexpr (SeveralArrays<C>) {
      bound_ = C::template bind<T>(problem_, operands(addresses));
    } else {
      std::vector<T*> inputs;
      for (void* const address : addresses.first(addresses.size() - 1)) {
        inputs.push_back(static_cast<T*>(address));
      }
      bound_ =
          C::bind(problem_, std::span<T* const>(inputs), static_cast<Output*>(addresses.back()));
    }
  }
  void set_workspace([[maybe_unused]] void* workspace) override {
    if constexpr (requires { bound_.workspace; }) bound_.workspace = workspace;
  }
  const void* args() const override { return &bound_; }

  void arrange_inputs([[maybe_unused]] std::uint64_t seed,
                      [[maybe_unused]] std::span<void* const> addresses) const override {
    if constexpr (kArranges) {
      C::template arrange_inputs<T>(problem_, seed, operands(addresses));
    }
  }

  void derive_inputs([[maybe_unused]] std::span<void* const> addresses) const override {
    if constexpr (kDerives) C::template derive_inputs<T>(problem_, operands(addresses));
  }
  void derive_inputs_on_gpu() const override {
    if constexpr (kDerives && kHasGpuReference) C::derive_inputs_on_gpu(bound_);
  }

  std::vector<Expected> reference(std::span<void* const> addresses) const override {
    std::vector<Expected> all;
    if constexpr (kJudges) {
      static_cast<void>(addresses);
    } else if constexpr (SeveralArrays<C>) {
      all = C::template reference<T>(problem_, operands(addresses));
    } else {
      std::vector<std::span<const T>> values;
      for (const Array& array : arrays_) {
        if (!array.is_read()) continue;
        values.emplace_back(static_cast<const T*>(addresses[values.size()]), array.size);
      }
      all.push_back(C::reference(problem_, std::span<const std::span<const T>>(values)));
    }
    return all;
  }

  bool judges_itself() const override { return kJudges; }
  std::string mistake([[maybe_unused]] std::span<void* const> before,
                      [[maybe_unused]] std::span<void* const> after) const override {
    if constexpr (kJudges) {
      return C::template mistake<T>(problem_, operands(before), operands(after));
    }
    return "";
  }

  bool wants_gpu_reference() const override {
    if constexpr (kHasGpuReference) return C::wants_gpu_reference(problem_);
    return false;
  }
  void reference_on_gpu([[maybe_unused]] std::span<const AnswerOnGpu> answers) const override {
    if constexpr (kHasGpuReference && SeveralArrays<C>) {
      C::reference_on_gpu(bound_, answers);
    } else if constexpr (kHasGpuReference) {
      C::reference_on_gpu(bound_, answers.front().values, answers.front().magnitude);
    }
  }

 private:
  std::vector<Operand> operands(std::span<void* const> addresses) const {
    std::vector<Operand> all;
    for (std::size_t i = 0; i < arrays_.size(); ++i) all.emplace_back(arrays_[i], addresses[i]);
    return all;
  }

  typename C::Problem problem_;
  Args bound_{};
};

#if !defined(__CUDACC__)  // families are in .cpp files; nvcc 12.0 does not understand this

/// Registers a family (or one op of it) with the element types its kernels may have.
template <Contract C, class... Ts>
struct RegisterFamily {
  using Own = typename C::Problem;

  static const Own& own(const Problem& problem) { return problem.as<Own>(); }
  static Problem erased(const Own& own) { return Problem(own, C::text(own)); }
  static std::vector<Problem> erased(const std::vector<Own>& all) {
    std::vector<Problem> problems;
    for (const Own& one : all) problems.push_back(erased(one));
    return problems;
  }

  static constexpr Limit limit() {
    if constexpr (requires { C::limit; }) return C::limit;
    return Limit::none;
  }

  RegisterFamily() {
    add_family({
        .name = C::family,
        .op = C::op,
        .problem_help = C::problem_help,
        .limit = limit(),
        .parse = [](std::string_view text) -> std::optional<Problem> {
          const auto problem = C::parse(text);
          return problem ? std::optional(erased(*problem)) : std::nullopt;
        },
        .test_problems = [] { return erased(C::test_problems()); },
        .own_test_problems =
            [](const Kernel& kernel) {
              const auto* first = static_cast<const Own*>(kernel.test_problems);
              return erased({first, first + kernel.test_problem_count});
            },
        .bench_problems = [](Backend backend) { return erased(C::bench_problems(backend)); },
        .input_sets = [] { return C::input_sets(); },
        .smaller = [](const Problem& problem) -> Problem {
          if constexpr (requires(const Own& p) { C::smaller(p); }) {
            return erased(C::smaller(own(problem)));
          } else {
            return problem;
          }
        },
        .cost = [](const Problem& problem, DType dtype) { return C::cost(own(problem), dtype); },
        .compute_roof = [](DType dtype) -> ComputeRoof {
          if constexpr (requires { C::compute_roof(dtype); }) return C::compute_roof(dtype);
          return {};
        },
        .memory =
            [](const Problem& problem, DType dtype) {
              const auto binding = bound(problem, dtype);
              return binding ? memory_of(*binding) : memory_of(First(own(problem)));
            },
        .bind = &bound,
    });
  }

 private:
  using First = BindingOf<C, std::tuple_element_t<0, std::tuple<Ts...>>>;

  static std::unique_ptr<Binding> bound(const Problem& problem, DType dtype) {
    std::unique_ptr<Binding> binding;
    ((DTypeOf<Ts>::value == dtype ? void(binding = std::make_unique<BindingOf<C, Ts>>(own(problem)))
                                  : void()),
     ...);
    return binding;
  }
};

#endif

}  // namespace ladder
