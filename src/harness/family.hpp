// What a family of kernels tells the harness, and what the harness makes of it. Included by a
// family's family.cpp and by the programs, never by kernel files.
#pragma once

#include "harness/array.hpp"
#include "harness/device.hpp"
#include "harness/dtype.hpp"
#include "harness/fields.hpp"
#include "harness/mixed.hpp"
#include "harness/roof.hpp"
#include "support/large_array.hpp"
#include "support/out_of_memory.hpp"
#include "support/parallel.hpp"

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace ladder {

/// A way to fill the arrays that a kernel reads, but for those that say what is in them. value maps 64
/// random bits to an element.
struct InputSet {
  const char* name;
  double (*value)(std::uint64_t bits, const Array& array) = nullptr;
  bool exact = false;  ///< correct kernels give the exact result: the tolerance is zero
  /// What stands for value where elements are integers; without it they are values cut towards 0. What
  /// their type does not reach is the nearest that it does.
  double (*integer)(std::uint64_t bits, const Array& array) = nullptr;
  /// A version, by its label, that is not asked for these inputs on a GPU.
  const char* gpu_exception = nullptr;
  bool rounded = false;  ///< what is exact is then rounded to the result's type: that is tolerated
  /// What stands for value where an element's place in its array matters.
  double (*at)(std::uint64_t index, std::uint64_t bits, const Array& array) = nullptr;
};

/// Whether a kernel must be right on these inputs.
bool must_pass(const Kernel& kernel, const InputSet& set, Backend backend);

/// n, or if that is more than `most` the largest number up to it whose remainder is n's, divided by
/// 256 or by the power of two that is a quarter of `most` if not less: tiles and vectors end alike.
std::int64_t shortened(std::int64_t n, std::int64_t most);

/// The same of a number of rows, to as many as have 2^20 elements, or 8.
std::int64_t fewer_rows(std::int64_t rows, std::int64_t cols);

/// Uniform in [-1, 1].
double uniform(std::uint64_t bits);
double uniform_value(std::uint64_t bits, const Array&);

/// Levels from 0 to less than `most`, for whatever keeps a running maximum. From one run of 512 elements to
/// the next they climb or descend by a power of two, sixteen levels to a slope; gentle slopes, from 1/8
/// on, and steep ones, up to the largest, take turns.
double climbing(std::uint64_t index, const Array& array, double most);

/// Integers from -4 to 4: sums of fewer than 2^20 products of two are exact in fp32.
double small_integer_value(std::uint64_t bits, const Array&);

/// The random bits of a stream, by their number; the same on every machine (splitmix64).
class RandomBits {
 public:
  RandomBits(std::uint64_t seed, std::uint64_t stream) : key_(mix(mix(seed) + stream)) {}
  std::uint64_t operator[](std::uint64_t index) const { return mix(key_ + index); }

 private:
  static std::uint64_t mix(std::uint64_t z) { return mixed(z + 0x9E3779B97F4A7C15); }

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
Doubles filled(Extents size, double value = 0);

/// The right answer in fp64: all elements of an array, or the valid ones. magnitude is empty, or has
/// the size of values (see Tolerance).
struct Expected {
  Doubles values, magnitude;
};

/// All values and magnitudes 0, to be added to.
inline Expected zeros(Extents size) { return {filled(size), filled(size)}; }

/// What a reference returns, without a copy.
std::vector<Expected> answers(std::same_as<Expected> auto... of_arrays) {
  std::vector<Expected> all;
  (all.push_back(std::move(of_arrays)), ...);
  return all;
}

template <class C>
concept AnswersOrJudges = requires(const typename C::Problem& p, Operands operands) {
  { C::template reference<float>(p, operands) } -> std::same_as<std::vector<Expected>>;
}
|| requires(const typename C::Problem& p, Operands operands) {
  { C::template mistake<float>(p, operands, operands) } -> std::same_as<std::string>;
};

template <class C>
concept HasCost = requires(const typename C::Problem& p, DType dtype) {
  { C::cost(p, dtype) } -> std::same_as<Cost>;
};

/// What a family (or one op of it) must define. fields() are those of its Problem; their text is the last
/// part of a benchmark's name. For an element type T of its kernels, with the arrays where they lie as
/// operands:
///   arrays<T>(p)                              lists what they read and write, and where it lies
///   bind<T>(p, operands)                      makes their Args, which have a member `void* workspace`
///                                             where versions need scratch memory
///   reference<T>(p, operands)                 says what is right, for each array that is written, in
///                                             their order; or where that is not one answer (a
///                                             permutation, a sort)
///   mistake<T>(p, before, after)              looks at what was there before and after a kernel ran,
///                                             and says what is wrong, or nothing
/// And flops(p), the useful ones, or where not all bytes of the arrays move once, cost(p, dtype). Of an
/// array whose count only the data tells, the bytes of those elements move.
/// A family may add:
///   static bool valid(p)                      if not all values that the fields may have go together
///   demands(p, dtype, cost)                   what the work needs of the machine beside the cost's bytes,
///                                             a roof once; without it, cost.flops of "fma f32"
///   measures(dtype)                           the Measurement, if it is one of a limit of the machine
///   static constexpr bool gathers = true      if the data says where it reads or writes: tests then
///                                             don't ask for coalesced accesses
///   static Problem smaller(p)                 if its problems may be large, or some of its input
///                                             sets do for small ones only: what ./bench tries all
///                                             input sets on but the first. What decides which code
///                                             runs stays, what only adds more of the same is cut
///   static const char* best(p)                the version that the library takes, by the beginning of
///                                             its label, "v13_"; without it the last rung that can
///   arrange_inputs<T>(p, seed, operands)      if no generator makes some of the inputs, which then are
///                                             tied where their values depend on each other: makes them in
///                                             host memory, of what is there
///   derive_inputs<T>(p, operands)             if some are results of others: makes these. Where it
///                                             has a reference_on_gpu, with derive_inputs_on_gpu(args)
///   wants_gpu_reference(p)                    if problems may be too large for the CPU: then
///   reference_on_gpu(args, answers)           fills an AnswerOnGpu for each array that is written
template <class C>
concept Contract = AnswersOrJudges<C> &&
    requires(const typename C::Problem& p, Backend backend, Operands operands) {
  requires HasCost<C> || std::same_as<decltype(C::flops(p)), double>;
  { C::family } -> std::convertible_to<std::string_view>;
  { C::op } -> std::convertible_to<std::string_view>;
  { C::fields() } -> std::same_as<std::vector<Field>>;
  { C::test_problems() } -> std::same_as<std::vector<typename C::Problem>>;
  { C::bench_problems(backend) } -> std::same_as<std::vector<typename C::Problem>>;
  { C::input_sets() } -> std::same_as<std::vector<InputSet>>;
  { C::template arrays<float>(p) } -> std::same_as<std::vector<Array>>;
  { C::template bind<float>(p, operands) } -> std::same_as<typename C::template Args<float>>;
};

/// A version's plan while it is needed; null where the version has none.
using Plan = std::unique_ptr<const void, void (*)(const void*)>;

/// For args; see Kernel::plan.
Plan make_plan(const Kernel& kernel, const void* args, bool may_time);

/// A problem in one element type, with the Args that kernels of that type are launched with: made of
/// addresses that someone else owns, one for each of arrays().
class Binding {
 public:
  /// Throws std::logic_error where two arrays have one name, valid_by names none that is a count, a table
  /// one that is not there, or one lies on no device.
  explicit Binding(std::vector<Array> arrays);
  virtual ~Binding() = default;
  const std::vector<Array>& arrays() const { return arrays_; }
  int devices() const;  ///< that the arrays lie on, up to the last

  /// Of so many elements of each array.
  virtual Cost cost(std::span<const double> elements) const = 0;

  /// Makes args of the arrays' addresses; without a workspace.
  virtual void bind(std::span<void* const> addresses) = 0;
  virtual void set_workspace(void* workspace) = 0;
  virtual const void* args() const = 0;

  /// Makes of inputs in host memory, which a set has filled, what they must be; and where `derives`,
  /// those that are results of others.
  virtual void arrange_inputs(std::uint64_t seed, bool derives,
                              std::span<void* const> addresses) const = 0;

  /// The answers, of inputs in host memory: one for each array that is written. Not where
  /// judges_itself().
  virtual std::vector<Expected> reference(std::span<void* const> addresses) const = 0;

  /// What is wrong with results of which there is more than one that is right; in host memory, what
  /// was read before and all arrays after.
  virtual bool judges_itself() const = 0;
  virtual std::string mistake(std::span<void* const> before,
                              std::span<void* const> after) const = 0;

  /// Whether a reference on the GPU is there, and is quicker for this problem. It derives inputs and
  /// writes answers, one for each array that is written, of the arrays that are bound.
  virtual bool wants_gpu_reference() const = 0;
  virtual void derive_inputs_on_gpu() const = 0;
  virtual void reference_on_gpu(std::span<const AnswerOnGpu> answers) const = 0;

 private:
  std::vector<Array> arrays_;
};

/// One problem on a device, or on its peers too: its arrays, and the answers to compare with, each on its
/// array's device.
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
    const Result* count{};  ///< of one of which some elements are valid: where their number is

    const double* expected_values() const { return values_of(expected); }
    const double* magnitudes() const { return values_of(magnitude); }

   private:
    static const double* values_of(const std::optional<Buffer>& buffer) {
      return buffer ? static_cast<const double*>(buffer->data()) : nullptr;
    }
  };

  const std::vector<Array>& arrays() const { return binding_->arrays(); }
  const InputSet& input_set() const { return set_; }
  int devices() const { return binding_->devices(); }
  std::vector<Buffer>& buffers() { return buffers_; }  ///< one for each of arrays()
  std::vector<Result>& results() { return results_; }
  std::span<Buffer> workspaces() {
    return workspaces_;
  }  ///< of what has been prepared; one on each device
  bool inputs_are_intact() const;
  Cost cost() const;  ///< on these inputs: of arrays that have a count, the elements that are right

  /// Makes other inputs, in the same memory, and their answer.
  void refill(std::uint64_t seed);

  /// Makes the answer of the inputs as they are now.
  void answer_again();

  /// What is written becomes such bytes, or what it was before.
  void reset_results(unsigned char byte);

  bool judges_itself() const { return binding_->judges_itself(); }
  std::string mistake() const;  ///< where it does

  /// What a kernel is launched with: planned when it is first asked for, with state of its own and the
  /// scratch memory that all kernels share. Valid as long as this is.
  struct Prepared {
    Call call;
    std::span<Buffer> workspaces, states;  ///< one on each device; none: it needs none
    double plan_us;                        ///< that its plan took, on the CPU; 0 without one
  };
  Prepared prepare(const Kernel& kernel);

  /// The kernel is planned again when it is next prepared, and has new state: after a launch that failed,
  /// or where what its plan was made for is another now.
  void forget(const Kernel& kernel);

 private:
  bool answer_is_made_on_gpu() const;
  double host_memory() const;  ///< bytes of the inputs, and of answers that are made on the CPU
  OutOfMemory lack_of_host_memory() const;
  void expect_host_memory() const;
  auto in_host_memory(auto f) const;
  std::uint64_t checksum_of_inputs() const;
  void answer(std::span<void* const> addresses);
  Buffer& buffer_of(std::string_view name);

  /// What is a kernel's own, by its launch and its file.
  struct OfKernel {
    Plan plan;
    double plan_us = 0;
    std::vector<Buffer> states{};
    std::vector<Rank> ranks{};
  };

  std::vector<Buffer> on_each_device(std::size_t bytes) const;

  Device& device_;
  std::unique_ptr<Binding> binding_;
  InputSet set_;
  std::vector<Buffer> buffers_;
  std::vector<Result> results_;
  std::vector<Buffer> workspaces_;
  std::map<std::pair<decltype(Kernel::launch), std::string_view>, OfKernel> of_kernels_;
  std::uint64_t input_checksum_ = 0;
};

/// How many elements of a result are right or wrong, as the kernel says that wrote it: all of them, or
/// what is in its count, which may be any number.
double valid_elements(const Workload::Result& result);

/// A family (or one op of it) behind one type for the programs.
struct Family {
  std::string_view name, op;
  Measurement (*measures)(DType);  ///< null: it does work
  bool gathers;
  std::vector<Field> fields;
  std::optional<Problem> (*parse)(std::string_view);  ///< throws as parse_fields
  std::vector<Problem> (*test_problems)();
  std::vector<Problem> (*own_test_problems)(const Kernel&);
  std::vector<Problem> (*many_sms_test_problems)(const Kernel&);
  std::vector<Problem> (*bench_problems)(Backend);
  std::vector<InputSet> (*input_sets)();
  Problem (*smaller)(const Problem&);   ///< or the problem itself
  const char* (*best)(const Problem&);  ///< "" where the family doesn't say
  Cost (*cost)(const Problem&, DType);
  std::vector<Demand> (*demands)(const Problem&, DType, const Cost&);
  double (*memory)(const Problem&, DType);  ///< bytes a check needs on the device that holds most
  std::unique_ptr<Binding> (*bind)(const Problem&, DType);  ///< null: not of this type

  /// Throws std::invalid_argument where the text is no problem.
  Problem problem(std::string_view text) const;
  std::string problem_help() const;  ///< what a problem is, with an example

  int devices(const Problem& problem, DType dtype) const;  ///< as Binding

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

/// Whether a kernel can run a problem, by its own limits; on a device, by its file's suffix first, and last by
/// how many such devices there are.
Support supports(const Kernel& kernel, const Problem& problem);
Support supports(const Kernel& kernel, const Problem& problem, const DeviceInfo& device);
void add_family(Family family);

/// The version that the library and PyTorch take for a problem: the family's best, or where that can't
/// run there the last rung of `kernels` that can; never a vendor's. Null: none can, and `why` says why
/// the first of them can't.
const Kernel* best_version(const Family& family, const Problem& problem, DType dtype,
                           std::span<const Kernel> kernels, const DeviceInfo& device,
                           std::string* why = nullptr);

/// Bytes of the arrays and the answers, on the device that has most of them.
double memory_of(const Binding& binding);

/// With the bytes of so many elements of each array.
Cost cost_of(std::span<const Array> arrays, std::span<const double> elements, double flops);
std::vector<double> sizes_of(std::span<const Array> arrays);

/// Writes the elements of an array, in host memory.
void make_input(const Array& array, void* elements, const InputSet& set, const RandomBits& bits);

template <Contract C, class T>
class BindingOf final : public Binding {
  using Problem = typename C::Problem;
  using Args = typename C::template Args<T>;
  static constexpr bool kHasGpuReference = requires { &C::wants_gpu_reference; };
  static constexpr bool kJudges = requires { &C::template mistake<T>; };
  static constexpr bool kArranges = requires { &C::template arrange_inputs<T>; };
  static constexpr bool kDerives = requires { &C::template derive_inputs<T>; };

 public:
  explicit BindingOf(const Problem& problem)
      : Binding(C::template arrays<T>(problem)), problem_(problem) {}

  Cost cost([[maybe_unused]] std::span<const double> elements) const override {
    if constexpr (HasCost<C>) {
      return C::cost(problem_, DTypeOf<T>::value);
    } else {
      return cost_of(arrays(), elements, C::flops(problem_));
    }
  }

  void bind(std::span<void* const> addresses) override {
    bound_ = C::template bind<T>(problem_, operands(addresses));
  }
  void set_workspace([[maybe_unused]] void* workspace) override {
    if constexpr (requires { bound_.workspace; }) bound_.workspace = workspace;
  }
  const void* args() const override { return &bound_; }

  void arrange_inputs([[maybe_unused]] std::uint64_t seed, [[maybe_unused]] bool derives,
                      [[maybe_unused]] std::span<void* const> addresses) const override {
    if constexpr (kArranges) C::template arrange_inputs<T>(problem_, seed, operands(addresses));
    if constexpr (kDerives) {
      if (derives) C::template derive_inputs<T>(problem_, operands(addresses));
    }
  }

  std::vector<Expected> reference(
      [[maybe_unused]] std::span<void* const> addresses) const override {
    if constexpr (!kJudges) return C::template reference<T>(problem_, operands(addresses));
    return {};
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
  void derive_inputs_on_gpu() const override {
    if constexpr (kDerives && kHasGpuReference) C::derive_inputs_on_gpu(bound_);
  }
  void reference_on_gpu([[maybe_unused]] std::span<const AnswerOnGpu> answers) const override {
    if constexpr (kHasGpuReference) C::reference_on_gpu(bound_, answers);
  }

 private:
  Operands operands(std::span<void* const> addresses) const { return {arrays(), addresses}; }

  Problem problem_;
  Args bound_{};
};

#if !defined(__CUDACC__)  // families are in .cpp files; nvcc 12.0 does not understand this

/// Registers a family (or one op of it) with the element types its kernels may have.
template <Contract C, class... Ts>
struct RegisterFamily {
  using Own = typename C::Problem;

  static const Own& own(const Problem& problem) { return problem.as<Own>(); }
  static Problem erased(const Own& own) {
    return Problem(own, text_of(field_texts(fields(), &own)));
  }
  static std::vector<Problem> erased(const std::vector<Own>& all) {
    std::vector<Problem> problems;
    for (const Own& one : all) problems.push_back(erased(one));
    return problems;
  }

  static std::vector<Problem> erased(const TestProblems& all) {
    const auto* first = static_cast<const Own*>(all.first);
    return erased(std::vector<Own>(first, first + all.count));
  }

  static constexpr bool gathers() {
    if constexpr (requires { C::gathers; }) return C::gathers;
    return false;
  }
  static constexpr auto measures() -> Measurement (*)(DType) {
    if constexpr (requires { &C::measures; }) return C::measures;
    return nullptr;
  }

  static const std::vector<Field>& fields() {
    static const std::vector<Field> all = C::fields();
    return all;
  }
  static std::optional<Problem> parse(std::string_view text) {
    Own own{};
    if (!parse_fields(fields(), text, &own)) return std::nullopt;
    if constexpr (requires { &C::valid; }) {
      if (!C::valid(own)) return std::nullopt;
    }
    return erased(own);
  }
  static std::vector<Problem> bench_problems(Backend backend) {
    std::vector<Own> all = C::bench_problems(backend);
    for (const Field& field : fields()) {
      for (std::size_t i = 0, before = all.size(); i < before * field.words.size(); ++i) {
        const std::size_t word = i / before;
        if (word > 0) field.set(&all.emplace_back(all[i % before]), static_cast<double>(word));
      }
    }
    return erased(all);
  }

  RegisterFamily() { add_family(made()); }
  static Family made() {
    return {
        .name = C::family,
        .op = C::op,
        .measures = measures(),
        .gathers = gathers(),
        .fields = fields(),
        .parse = &parse,
        .test_problems = [] { return erased(C::test_problems()); },
        .own_test_problems = [](const Kernel& kernel) { return erased(kernel.test_problems); },
        .many_sms_test_problems =
            [](const Kernel& kernel) { return erased(kernel.many_sms_test_problems); },
        .bench_problems = &bench_problems,
        .input_sets = [] { return C::input_sets(); },
        .smaller = [](const Problem& problem) -> Problem {
          if constexpr (requires { &C::smaller; }) {
            return erased(C::smaller(own(problem)));
          } else {
            return problem;
          }
        },
        .best = [](const Problem& problem) -> const char* {
          if constexpr (requires { &C::best; }) return C::best(own(problem));
          return "";
        },
        .cost = &cost,
        .demands = []([[maybe_unused]] const Problem& problem, [[maybe_unused]] DType dtype,
                      const Cost& work) -> std::vector<Demand> {
          std::vector<Demand> all{{"fma f32", work.flops}};
          if constexpr (requires { &C::demands; }) all = C::demands(own(problem), dtype, work);
          all.insert(all.begin(), {"dram", work.bytes()});
          return all;
        },
        .memory = [](const Problem& problem,
                     DType dtype) { return memory_of(*bound_or_first(problem, dtype)); },
        .bind = &bound,
    };
  }

 private:
  static Cost cost(const Problem& problem, DType dtype) {
    if constexpr (HasCost<C>) return C::cost(own(problem), dtype);
    const auto binding = bound_or_first(problem, dtype);
    return binding->cost(sizes_of(binding->arrays()));
  }
  static std::unique_ptr<Binding> bound(const Problem& problem, DType dtype) {
    std::unique_ptr<Binding> binding;
    ((DTypeOf<Ts>::value == dtype ? void(binding = std::make_unique<BindingOf<C, Ts>>(own(problem)))
                                  : void()),
     ...);
    return binding;
  }
  static std::unique_ptr<Binding> bound_or_first(const Problem& problem, DType dtype) {
    using First = std::tuple_element_t<0, std::tuple<Ts...>>;
    auto binding = bound(problem, dtype);
    return binding ? std::move(binding) : bound(problem, DTypeOf<First>::value);
  }
};

#endif

}  // namespace ladder
