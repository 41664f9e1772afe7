#include "harness/family.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
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

double uniform_value(std::uint64_t bits, int) {
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
}

double small_integer_value(std::uint64_t bits, int) { return static_cast<double>(bits % 9) - 4.0; }

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

Doubles filled(std::size_t size, double value) {
  Doubles all(size);
  parallel_for(size, 1 << 18, [&](std::size_t begin, std::size_t end) {
    std::fill(all.data() + begin, all.data() + end, value);
  });
  return all;
}

std::optional<std::vector<std::int64_t>> parse_dimensions(std::string_view text, std::size_t count,
                                                          std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::vector<std::int64_t> values;
  const char* at = text.data();
  const char* end = at + text.size();
  while (values.size() < count) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value < least || value > kMost) return std::nullopt;
    values.push_back(value);
    at = next;
    if (values.size() < count) {
      if (at == end || *at != 'x') return std::nullopt;
      ++at;
    }
  }
  return at == end ? std::optional(values) : std::nullopt;
}

Workload::Workload(std::unique_ptr<Binding> binding, const InputSet& set, std::uint64_t seed,
                   Device& device)
    : device_(device), binding_(std::move(binding)), set_(set) {
  std::vector<const void*> pointers;
  for (const std::size_t size : binding_->input_sizes()) {
    pointers.push_back(inputs_.emplace_back(device, size * size_of(binding_->dtype())).data());
  }
  output_.emplace(device, output_size() * size_of(output_dtype()));
  binding_->bind(pointers, output_->data());
  refill(seed);
}

bool Workload::answer_is_made_on_gpu() const {
  return device_.backend() == Backend::cuda && binding_->wants_gpu_reference();
}

double Workload::host_memory() const {
  const double doubles = answer_is_made_on_gpu() ? 0 : 2;  // expected and magnitude
  double bytes = doubles * sizeof(double) * static_cast<double>(output_size());
  for (const Buffer& buffer : inputs_) bytes += static_cast<double>(buffer.bytes());
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

void Workload::refill(std::uint64_t seed) {
  expect_host_memory();
  std::vector<LargeArray<std::byte>> values;
  std::vector<const void*> pointers;
  for (Buffer& buffer : inputs_) {
    const std::size_t input = values.size();
    values.push_back(in_host_memory([&] { return LargeArray<std::byte>(buffer.bytes()); }));
    pointers.push_back(values.back().data());
    make_input(binding_->dtype(), values.back().data(), binding_->input_sizes()[input], set_, seed,
               static_cast<int>(input));
    device_.upload(buffer.data(), values.back().data(), buffer.bytes());
  }
  input_checksum_ = checksum(device_, inputs_);
  if (answer_is_made_on_gpu()) {
    expected_.emplace(device_, output_size() * sizeof(double));
    magnitude_.emplace(device_, output_size() * sizeof(double));
    binding_->reference_on_gpu(static_cast<double*>(expected_->data()),
                               static_cast<double*>(magnitude_->data()));
    return;
  }
  const Expected expected = in_host_memory([&] { return binding_->reference(pointers); });
  const auto put = [&](std::optional<Buffer>& to, const Doubles& from) {
    to.emplace(device_, from.size() * sizeof(double));
    device_.upload(to->data(), from.data(), from.size() * sizeof(double));
  };
  put(expected_, expected.values);
  if (!expected.magnitude.empty()) put(magnitude_, expected.magnitude);
}

Buffer* Workload::prepare(const Kernel& kernel) {
  const std::size_t bytes = kernel.workspace ? kernel.workspace(args()) : 0;
  if (bytes == 0) return nullptr;
  if (!workspace_ || workspace_->bytes() < bytes) workspace_.emplace(device_, bytes);
  binding_->set_workspace(workspace_->data());
  return &*workspace_;
}

std::uint64_t checksum(Device& device, std::span<const Buffer> buffers) {
  std::uint64_t sum = 0;
  for (const Buffer& buffer : buffers) {
    sum = random_bits(sum, 0, device.checksum(buffer.data(), buffer.bytes()));
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

Problem Family::problem(std::string_view text) const {
  if (auto parsed = parse(text)) return *std::move(parsed);
  throw std::invalid_argument(std::string(text) + " is no problem of " + std::string(name));
}

Support supports(const Kernel& kernel, const Problem& problem) {
  return kernel.supports(problem.own());
}

Support supports(const Kernel& kernel, const Problem& problem, const DeviceInfo& device) {
  const Support architecture = architecture_supports(kernel.file, device);
  return architecture.ok ? supports(kernel, problem) : architecture;
}

}  // namespace ladder
