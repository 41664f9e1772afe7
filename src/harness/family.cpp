#include "harness/family.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <new>
#include <stdexcept>
#include <tuple>

namespace ladder {
namespace {

std::vector<Family>& family_list() {
  static std::vector<Family> list;
  return list;
}

}  // namespace

double uniform(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0; }
double uniform_value(std::uint64_t bits, const Array&) { return uniform(bits); }

double small_integer_value(std::uint64_t bits, const Array&) {
  return static_cast<double>(bits % 9) - 4.0;
}

bool must_pass(const Kernel& kernel, const InputSet& set, Backend backend) {
  return backend == Backend::host || !set.gpu_exception || label(kernel) != set.gpu_exception;
}

std::int64_t shortened(std::int64_t n, std::int64_t most) {
  if (n <= most) return n;
  const auto quarter = static_cast<std::uint64_t>(std::max<std::int64_t>(most / 4, 1));
  const auto step =
      static_cast<std::int64_t>(std::bit_floor(std::min<std::uint64_t>(quarter, 256)));
  return most - (most - n % step) % step;
}

std::int64_t fewer_rows(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kElements = 1 << 20;
  return shortened(rows, std::max<std::int64_t>(8, kElements / std::max<std::int64_t>(cols, 1)));
}

Doubles filled(Extents size, double value) {
  Doubles all(size.elements);
  parallel_for(all.size(), 1 << 18, [&](std::size_t begin, std::size_t end) {
    std::fill(all.data() + begin, all.data() + end, value);
  });
  return all;
}

void Operands::throw_missing(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const Array& array : arrays_) names.push_back(array.name);
  throw std::logic_error(
      fmt::format("no array is called {}, there are {}", name, fmt::join(names, ", ")));
}

Binding::Binding(std::vector<Array> arrays) : arrays_(std::move(arrays)) {
  for (const Array& array : arrays_) {
    if (std::ranges::count(arrays_, array.name, &Array::name) > 1) {
      throw std::logic_error("two arrays are called " + array.name);
    }
    if (array.device < 0) {
      throw std::logic_error(fmt::format("{} is on device {}", array.name, array.device));
    }
    const auto count = std::ranges::find(arrays_, array.count, &Array::name);
    const bool is_counted = array.is_written() && count != arrays_.end() && count->is_written() &&
                            is_integer(count->dtype) && count->size == 1;
    if (!array.count.empty() && !is_counted) {
      throw std::logic_error(fmt::format("{} is valid by {}, which is no integer that is written",
                                         array.name, array.count));
    }
    for (const std::string& name : array.addresses_of) {
      const auto of = std::ranges::find(arrays_, name, &Array::name);
      if (of != arrays_.end() && of->dtype == array.dtype_there) continue;
      throw std::logic_error(fmt::format("{} has the address of {}, which is no array of {}",
                                         array.name, name, to_string(array.dtype_there)));
    }
  }
}

int Binding::devices() const {
  int most = 1;
  for (const Array& array : arrays_) most = std::max(most, array.device + 1);
  return most;
}

double memory_of(const Binding& binding) {
  std::vector<double> bytes(static_cast<std::size_t>(binding.devices()));
  for (const Array& array : binding.arrays()) {
    const double copies = array.role == Role::in_place ? 2 : 1;
    const double of_answer = array.is_written() ? 2 * sizeof(double) : 0;  // expected and magnitude
    const auto size = static_cast<double>(array.size);
    bytes[static_cast<std::size_t>(array.device)] +=
        copies * bytes_of(array.dtype, size) + size * of_answer;
  }
  return std::ranges::max(bytes);
}

std::vector<double> sizes_of(std::span<const Array> arrays) {
  std::vector<double> sizes;
  for (const Array& array : arrays) sizes.push_back(static_cast<double>(array.size));
  return sizes;
}

Cost cost_of(std::span<const Array> arrays, std::span<const double> elements, double flops) {
  Cost cost{flops, 0, 0};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const double bytes = bytes_of(arrays[i].dtype, elements[i]);
    if (arrays[i].is_read()) cost.bytes_read += bytes;
    if (arrays[i].is_written()) cost.bytes_written += bytes;
  }
  return cost;
}

Workload::Workload(std::unique_ptr<Binding> binding, const InputSet& set, std::uint64_t seed,
                   Device& device)
    : device_(device), binding_(std::move(binding)), set_(set) {
  std::vector<void*> addresses;
  buffers_.reserve(arrays().size());
  for (const Array& array : arrays()) {
    Buffer& buffer =
        buffers_.emplace_back(device.peer(array.device), bytes_of(array.dtype, array.size));
    addresses.push_back(buffer.data());
    if (!array.is_written()) continue;
    Result& result = results_.emplace_back(Result{.array = array, .written = &buffer});
    if (set.exact) {
      result.array.tolerance = {.relative = set.rounded ? unit_roundoff(array.dtype) : 0};
    }
    if (array.role == Role::in_place) result.before.emplace(buffer.device(), buffer.bytes());
  }
  for (Result& result : results_) {
    for (const Result& other : results_) {
      if (other.array.name == result.array.count) result.count = &other;
    }
  }
  binding_->bind(addresses);
  refill(seed);
}

bool Workload::answer_is_made_on_gpu() const {
  return device_.backend() == Backend::cuda && binding_->wants_gpu_reference();
}

double Workload::host_memory() const {
  double bytes = 0;
  for (const Array& array : arrays()) {
    const auto size = static_cast<double>(array.size);
    if (array.is_read()) bytes += bytes_of(array.dtype, size);
    const bool is_answered = array.is_written() && !answer_is_made_on_gpu() && !judges_itself();
    if (is_answered) bytes += size * 2 * sizeof(double);  // expected and magnitude
  }
  return bytes;
}

OutOfMemory Workload::lack_of_host_memory() const {
  return {host_memory(), static_cast<double>(free_host_memory()), "the inputs and the answer"};
}

/// Where the system promises more memory than it has, a process that takes too much is killed.
void Workload::expect_host_memory() const {
  if (host_memory() > static_cast<double>(free_host_memory())) throw lack_of_host_memory();
}

/// What f makes. Throws OutOfMemory with what the whole problem needs.
auto Workload::in_host_memory(auto f) const {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw lack_of_host_memory();
  } catch (const std::length_error&) {  // more than a vector may ever hold
    throw lack_of_host_memory();
  }
}

Buffer& Workload::buffer_of(std::string_view name) {
  const auto at = std::ranges::find(arrays(), name, &Array::name);
  return buffers_.at(static_cast<std::size_t>(at - arrays().begin()));
}

void Workload::refill(std::uint64_t seed) {
  expect_host_memory();
  std::vector<LargeArray<std::byte>> values;
  std::vector<void*> addresses;
  for (const Array& array : arrays()) {
    const std::size_t bytes = array.is_read() ? bytes_of(array.dtype, array.size) : 0;
    values.push_back(in_host_memory([&] { return LargeArray<std::byte>(bytes); }));
    addresses.push_back(values.back().data());
    if (!array.is_read()) continue;
    if (!array.addresses_of.empty()) {
      auto* address = static_cast<void**>(addresses.back());
      for (const std::string& name : array.addresses_of) *address++ = buffer_of(name).data();
      continue;
    }
    const RandomBits bits(seed, addresses.size() - 1);
    in_host_memory([&] { make_input(array, addresses.back(), set_, bits); });
  }
  binding_->arrange_inputs(seed, !answer_is_made_on_gpu(), addresses);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!arrays()[i].is_read()) continue;
    buffers_[i].device().upload(buffers_[i].data(), values[i].data(), values[i].size());
  }
  if (answer_is_made_on_gpu()) binding_->derive_inputs_on_gpu();
  for (Result& result : results_) {
    if (!result.before) continue;
    result.written->device().copy(result.before->data(), result.written->data(),
                                  result.written->bytes());
  }
  answer(addresses);
}

void Workload::answer_again() {
  expect_host_memory();
  std::vector<LargeArray<std::byte>> values;
  std::vector<void*> addresses;
  auto result = results_.begin();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Array& array = arrays()[i];
    const Buffer& from = array.role == Role::in_place ? *result->before : buffers_[i];
    if (array.is_written()) ++result;
    const bool is_needed = array.is_read() && !answer_is_made_on_gpu() && !judges_itself();
    const std::size_t bytes = is_needed ? from.bytes() : 0;
    values.push_back(in_host_memory([&] { return LargeArray<std::byte>(bytes); }));
    addresses.push_back(values.back().data());
    from.device().download(addresses.back(), from.data(), bytes);
  }
  answer(addresses);
}

/// Of the inputs that are in device memory, and at these addresses in host memory where that is needed.
void Workload::answer(std::span<void* const> addresses) {
  input_checksum_ = checksum_of_inputs();
  if (judges_itself()) return;
  if (answer_is_made_on_gpu()) {
    std::vector<AnswerOnGpu> answers;
    for (Result& result : results_) {
      const auto make = [&](std::optional<Buffer>& buffer) {
        buffer.emplace(result.written->device(), result.array.size * sizeof(double));
        return static_cast<double*>(buffer->data());
      };
      answers.push_back({make(result.expected), make(result.magnitude)});
    }
    binding_->reference_on_gpu(answers);
    return;
  }
  const auto answers = in_host_memory([&] { return binding_->reference(addresses); });
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const auto put = [&](std::optional<Buffer>& to, const Doubles& from) {
      Device& device = results_[i].written->device();
      to.emplace(device, from.size() * sizeof(double));
      device.upload(to->data(), from.data(), from.size() * sizeof(double));
    };
    const Result& of = results_[i];
    const double size =
        of.count ? answers.at(static_cast<std::size_t>(of.count - &results_[0])).values.at(0)
                 : static_cast<double>(of.array.size);
    if (static_cast<double>(answers.at(i).values.size()) != size) {
      throw std::logic_error(fmt::format("the reference has {} of {:.0f} elements of {}",
                                         answers[i].values.size(), size, of.array.name));
    }
    put(results_[i].expected, answers[i].values);
    if (!answers[i].magnitude.empty()) put(results_[i].magnitude, answers[i].magnitude);
  }
}

Cost Workload::cost() const {
  std::vector<double> elements = sizes_of(arrays());
  auto result = results_.begin();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!arrays()[i].is_written()) continue;
    if (result->count && result->count->expected) {
      result->count->written->device().download(&elements[i], result->count->expected_values(),
                                                sizeof elements[i]);
    }
    ++result;
  }
  return binding_->cost(elements);
}

void Workload::reset_results(unsigned char byte) {
  for (Result& result : results_) {
    if (result.before) {
      result.written->device().copy(result.written->data(), result.before->data(),
                                    result.written->bytes());
    } else {
      result.written->poison(byte);
    }
  }
}

std::string Workload::mistake() const {
  std::vector<LargeArray<std::byte>> values;
  const auto on_host = [&](const Buffer& buffer) -> void* {
    values.push_back(in_host_memory([&] { return LargeArray<std::byte>(buffer.bytes()); }));
    buffer.device().download(values.back().data(), buffer.data(), buffer.bytes());
    return values.back().data();
  };
  std::vector<void*> before, after;
  for (const Buffer& buffer : buffers_) before.push_back(after.emplace_back(on_host(buffer)));
  auto result = results_.begin();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!arrays()[i].is_written()) continue;
    before[i] = result->before ? on_host(*result->before) : nullptr;
    ++result;
  }
  return binding_->mistake(before, after);
}

Plan make_plan(const Kernel& kernel, const void* args, bool may_time) {
  if (!kernel.plan) return Plan(nullptr, nullptr);
  return Plan(kernel.plan(args, may_time), kernel.forget);
}

std::vector<Buffer> Workload::on_each_device(std::size_t bytes) const {
  std::vector<Buffer> buffers;
  for (int i = 0; i < binding_->devices(); ++i) buffers.emplace_back(device_.peer(i), bytes);
  return buffers;
}

Workload::Prepared Workload::prepare(const Kernel& kernel) {
  const auto key = std::make_pair(kernel.launch, std::string_view(kernel.file));
  auto known = of_kernels_.find(key);
  if (known == of_kernels_.end()) {
    const auto begin = std::chrono::steady_clock::now();
    OfKernel made{.plan = make_plan(kernel, binding_->args(), true)};
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begin;
    if (made.plan) made.plan_us = us.count();
    const std::size_t bytes = kernel.state ? kernel.state(binding_->args()) : 0;
    if (bytes > 0) made.states = on_each_device(bytes);
    for (int i = 0; i < binding_->devices(); ++i) {
      Rank& rank = made.ranks.emplace_back(device_.peer(i).rank());
      rank.index = i;
      if (bytes == 0) continue;
      Buffer& state = made.states[static_cast<std::size_t>(i)];
      state.poison(0);
      rank.state = state.data();
    }
    known = of_kernels_.emplace(key, std::move(made)).first;
  }
  OfKernel& own = known->second;
  const Ranks ranks{own.ranks.data(), binding_->devices()};
  Prepared prepared{
      {binding_->args(), own.plan.get(), ranks[0].state, ranks}, {}, own.states, own.plan_us};
  if (const std::size_t bytes = kernel.workspace ? kernel.workspace(prepared.call) : 0; bytes > 0) {
    if (workspaces_.empty() || workspaces_.front().bytes() < bytes) {
      workspaces_.clear();
      workspaces_ = on_each_device(bytes);
    }
    binding_->set_workspace(workspaces_.front().data());
    prepared.workspaces = workspaces_;
    for (auto& [launch, of] : of_kernels_) {
      for (Rank& rank : of.ranks) {
        rank.workspace = workspaces_[static_cast<std::size_t>(rank.index)].data();
      }
    }
  }
  return prepared;
}

void Workload::forget(const Kernel& kernel) { of_kernels_.erase({kernel.launch, kernel.file}); }

bool Workload::inputs_are_intact() const { return checksum_of_inputs() == input_checksum_; }

std::uint64_t Workload::checksum_of_inputs() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (arrays()[i].role != Role::input) continue;
    const Buffer& buffer = buffers_[i];
    sum = random_bits(sum, 0, buffer.device().checksum(buffer.data(), buffer.bytes()));
  }
  return sum;
}

const std::vector<Family>& families() { return family_list(); }

void add_family(Family family) {
  auto key = [](const Family& f) { return std::tie(f.name, f.op); };
  auto& list = family_list();
  const auto at =
      std::lower_bound(list.begin(), list.end(), family,
                       [&](const Family& a, const Family& b) { return key(a) < key(b); });
  list.insert(at, std::move(family));
}

const Family& family_of(const Kernel& kernel) {
  for (const Family& family : families()) {
    if (family.name == kernel.family && family.op == kernel.op) return family;
  }
  throw std::logic_error(std::string("no family is registered for the kernels in ") + kernel.file);
}

const Kernel* best_version(const Family& family, const Problem& problem, DType dtype,
                           std::span<const Kernel> kernels, const DeviceInfo& device,
                           std::string* why) {
  const std::string_view best = family.best(problem);
  std::vector<std::pair<std::string, const Kernel*>> rungs;
  for (const Kernel& kernel : kernels) {
    const bool is_rung = kernel.family == family.name && kernel.op == family.op &&
                         kernel.dtype == dtype && !kernel.version.baseline;
    if (is_rung) rungs.emplace_back(label(kernel), &kernel);
  }
  const auto is_before = [&](const auto& a, const auto& b) {
    const bool a_is_best = a.first.starts_with(best), b_is_best = b.first.starts_with(best);
    return a_is_best != b_is_best ? a_is_best : a.first > b.first;
  };
  std::ranges::sort(rungs, is_before);
  for (const auto& [name, kernel] : rungs) {
    const Support support = supports(*kernel, problem, device);
    if (support.ok) return kernel;
    if (why && why->empty()) *why = support.reason;
  }
  return nullptr;
}

std::string Family::problem_help() const {
  return help_of(fields) + ", e.g. " + bench_problems(Backend::cuda).front().text();
}

Problem Family::problem(std::string_view text) const {
  if (auto parsed = parse(text)) return *std::move(parsed);
  throw std::invalid_argument(std::string(text) + " is no problem of " + std::string(name));
}

int Family::devices(const Problem& problem, DType dtype) const {
  const auto binding = bind(problem, dtype);
  return binding ? binding->devices() : 1;
}

Support supports(const Kernel& kernel, const Problem& problem) {
  return kernel.supports(problem.own());
}

Support supports(const Kernel& kernel, const Problem& problem, const DeviceInfo& device) {
  const Support architecture = architecture_supports(kernel.file, device);
  const Support own = architecture.ok ? supports(kernel, problem) : architecture;
  if (!own.ok) return own;
  const int needed = family_of(kernel).devices(problem, kernel.dtype);
  if (needed <= device.count) return own;
  return unsupported("needs %d GPUs, there %s %d", needed, device.count == 1 ? "is" : "are",
                     device.count);
}

}  // namespace ladder
