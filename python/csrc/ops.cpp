// torch.ops.kernel_ladder.*: the suite's kernels on PyTorch's tensors, through libkernel_ladder.so and
// PyTorch's stable ABI: one binary for every PyTorch from 2.10 on and every Python.
//
// A CUDA tensor's kernels run on its device's current stream, a CPU tensor's on the host executor.
// Fake kernels, gradients and autocast are registered in Python (kernel_ladder/_register.py).
#include "kernel_ladder.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("kernel_ladder." + why);
}

/// `status` of a call of the library's, for an operation.
void expect_ok(kl_status status, const char* operation) {
  if (status != KL_OK) refuse(std::string(operation) + ": " + kl_last_error());
}

const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "f32";
    case ScalarType::Half:
      return "f16";
    case ScalarType::BFloat16:
      return "bf16";
    case ScalarType::Float8_e4m3fn:
      return "e4m3";
    case ScalarType::Float8_e5m2:
      return "e5m2";
    case ScalarType::Double:
      return "f64";
    case ScalarType::Char:
      return "i8";
    case ScalarType::Int:
      return "i32";
    case ScalarType::Long:
      return "i64";
    case ScalarType::Byte:
      return "u8";
    case ScalarType::UInt32:
      return "u32";
    case ScalarType::UInt64:
      return "u64";
    default:
      return "this dtype";
  }
}

// ---- Problems and launchers

using Sizes = std::array<std::int64_t, 7>;  // of a problem; zeros behind its last

std::string by(const Sizes& sizes, int count) {
  std::string text = std::to_string(sizes[0]);
  for (int i = 1; i < count; ++i) text += "x" + std::to_string(sizes[static_cast<std::size_t>(i)]);
  return text;
}

/// One of the suite's.
struct Operation {
  const char* name;                             // family[/op]
  int sizes;                                    // numbers of a problem
  std::string (*text)(const Sizes&, int) = by;  // a problem as the family writes it
};

struct Close {
  void operator()(kl_launcher* launcher) const { kl_close(launcher); }
};

/// The state of a launcher's launches into one stream, or into one captured graph from it, which zeroes it
/// whenever it is replayed.
struct State {
  void* stream;
  unsigned long long capture;  // 0: none
  Tensor zeros;
};
struct Launcher {
  std::unique_ptr<kl_launcher, Close> handle;
  std::string kernel, problem;  // the kernel's full name
  std::vector<State> states = {};
};

Launcher open_kernel(std::size_t number, const std::string& problem) {
  kl_launcher* launcher = nullptr;
  kl_kernel kernel;
  if (kl_open(number, problem.c_str(), &launcher) != KL_OK ||
      kl_describe(number, &kernel) != KL_OK) {
    return {};
  }
  return {std::unique_ptr<kl_launcher, Close>(launcher), kernel.name, problem};
}

/// The suite's best version for a problem, or, where none can do it, an empty launcher; kl_last_error()
/// has the reason.
Launcher find_operation(const Operation& operation, ScalarType type, const std::string& problem,
                        kl_backend backend) {
  std::size_t kernel = 0;
  const bool found =
      kl_best(operation.name, name_of(type), backend, problem.c_str(), &kernel) == KL_OK;
  return found ? open_kernel(kernel, problem) : Launcher{};
}
Launcher open_operation(const Operation& operation, ScalarType type, const std::string& problem,
                        kl_backend backend) {
  Launcher launcher = find_operation(operation, type, problem, backend);
  if (launcher.handle) return launcher;
  refuse(std::string(operation.name) + ": no version can do " + problem + " in " + name_of(type) +
         ": " + kl_last_error());
}

Launcher open_version(const std::string& name, const std::string& problem, kl_backend backend) {
  std::size_t kernel = 0;
  expect_ok(kl_find(name.c_str(), backend, &kernel), "run");
  Launcher launcher = open_kernel(kernel, problem);
  if (!launcher.handle) refuse(std::string("run: ") + kl_last_error());
  return launcher;
}

/// A thread's launchers: one is one thread's at a time.
template <class Key, class Hash = std::hash<Key>>
class Launchers {
 public:
  /// `open` makes it if there is none.
  template <class Open>
  Launcher& get(const Key& key, Open open) {
    if (const auto found = all_.find(key); found != all_.end()) return found->second;
    Launcher launcher = open();
    if (all_.size() >= kMost) all_.clear();
    return all_.emplace(key, std::move(launcher)).first->second;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::unordered_map<Key, Launcher, Hash> all_;
};

/// What a launcher is for.
struct Key {
  const Operation* operation;
  ScalarType type;
  int device;  // -1 for CPU tensors
  Sizes sizes;
  bool operator==(const Key&) const = default;
};
struct HashOfKey {
  std::size_t operator()(const Key& key) const {
    auto hash = reinterpret_cast<std::uintptr_t>(key.operation);
    const auto mix = [&](std::int64_t number) {
      hash = (hash ^ static_cast<std::uintptr_t>(number)) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    };
    mix(static_cast<int>(key.type) * 256 + key.device);
    for (int i = 0; i < key.operation->sizes; ++i) mix(key.sizes[static_cast<std::size_t>(i)]);
    return hash;
  }
};

/// Of the kernels that this thread has run since it began to count: a name, a problem, and what a launch
/// did, which kernel_ladder.explain reads.
struct Counted {
  std::string kernel, problem;
  kl_counts counts;
};
thread_local std::vector<Counted> counted;
thread_local bool counts = false;

/// Whether launches are ranges of PyTorch's profiler, for kernel_ladder.profile.
std::atomic<bool> ranges = false;

/// A range of PyTorch's profiler while it lives.
class Range {
 public:
  explicit Range(const std::string& name) {
    TORCH_ERROR_CODE_CHECK(
        aoti_record_function_start(name.c_str(), nullptr, nullptr, 0, &function_));
  }
  ~Range() { aoti_record_function_end(function_); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  AtenRecordFunctionHandle function_ = nullptr;
};

/// Whether the tensors are what the kernel takes: it would write beyond a smaller one.
void expect_arrays(const Launcher& launcher, const Tensor* const* arrays, std::size_t given,
                   const char* operation) {
  const std::size_t count = kl_array_count(launcher.handle.get());
  if (given != count) {
    refuse(std::string(operation) + ": takes " + std::to_string(count) + " arrays, not " +
           std::to_string(given));
  }
  for (std::size_t i = 0; i < count; ++i) {
    kl_array array;
    expect_ok(kl_describe_array(launcher.handle.get(), i, &array), operation);
    const Tensor& x = *arrays[i];
    const char* const dtype = name_of(x.scalar_type());
    if (dtype != std::string_view(array.dtype) ||
        x.numel() != static_cast<std::int64_t>(array.elements)) {
      refuse(std::string(operation) + ": array " + std::to_string(i) + " (" + array.name +
             ") must have " + std::to_string(array.elements) + " elements of " + array.dtype +
             ", not " + std::to_string(x.numel()) + " of " + dtype);
    }
  }
}

/// PyTorch's current stream. Of its CUDA library, which has loaded its own symbols for itself alone, the
/// function is looked up, so that this library loads where there is none.
void* current_stream(int device) {
  using Get = AOTITorchError (*)(std::int32_t, void**);
  static const auto get = [] {
    void* const loaded = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return loaded == nullptr
               ? nullptr
               : reinterpret_cast<Get>(dlsym(loaded, "aoti_torch_get_current_cuda_stream"));
  }();
  void* stream = nullptr;
  if (get == nullptr || get(device, &stream) != 0) refuse("ops: this PyTorch has no CUDA");
  return stream;
}

int device_of(const Tensor& x) { return x.is_cuda() ? x.get_device_index() : -1; }
kl_backend backend_of(int device) { return device < 0 ? KL_HOST : KL_CUDA; }

/// Makes a GPU the current one while it lives, unless it is already.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (device >= 0 && torch::stable::accelerator::getCurrentDeviceIndex() != device) {
      guard_.emplace(device);
    }
  }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
};

/// Uninitialised and dense.
Tensor new_tensor(const Tensor& like, std::initializer_list<std::int64_t> sizes,
                  std::int32_t dtype) {
  std::array<std::int64_t, 4> strides;
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes.begin()[i], 1);
  }
  std::int32_t type = 0, index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &index));
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<std::int64_t>(sizes.size()),
                                                  sizes.begin(), strides.data(), dtype, type, index,
                                                  &made));
  return Tensor(made);
}
std::int32_t dtype_of(const Tensor& x) {
  std::int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x.get(), &dtype));
  return dtype;
}
/// Of its dtype.
Tensor new_tensor(const Tensor& like, std::initializer_list<std::int64_t> sizes) {
  return new_tensor(like, sizes, dtype_of(like));
}
/// Of a dense tensor's shape and strides.
Tensor new_like(const Tensor& x) {
  std::int64_t *sizes = nullptr, *strides = nullptr;
  std::int32_t type = 0, index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(x.get(), &sizes));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(x.get(), &strides));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(x.get(), &type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(x.get(), &index));
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(x.dim(), sizes, strides, dtype_of(x), type, index, &made));
  return Tensor(made);
}

/// The number of the capture that the stream is in; 0: none.
unsigned long long capture_of(int device, void* stream) {
  unsigned long long capture = 0;
  if (device >= 0) expect_ok(kl_capture_id(stream, &capture), "ops");
  return capture;
}

/// Decides how a kernel that was opened does its problem, and times its choices if it is one that does so
/// and no graph is being captured.
void plan(const Launcher& launcher, int device) {
  constexpr std::size_t kAlignment = 256;  // that is_aligned() asks for
  void* const stream = device < 0 ? nullptr : current_stream(device);
  const bool may_time = capture_of(device, stream) == 0;
  expect_ok(kl_plan(launcher.handle.get(), kAlignment, may_time), launcher.kernel.c_str());
}

/// Gives the launcher the state that it needs in this stream. Freed memory is used again behind what its
/// stream still has to do: a launcher may go while its launches are in flight.
void set_state(Launcher& launcher, int device, void* stream, const Tensor& like) {
  const std::size_t bytes = kl_state_bytes(launcher.handle.get());
  if (bytes == 0) return;
  const unsigned long long capture = capture_of(device, stream);
  auto& states = launcher.states;
  auto found = std::find_if(states.begin(), states.end(), [&](const State& one) {
    return one.stream == stream && one.capture == capture;
  });
  if (found == states.end()) {
    std::erase_if(states, [&](const State& one) {  // of captures that have ended
      return one.capture != 0 && one.capture != capture;
    });
    Tensor zeros = new_tensor(like, {static_cast<std::int64_t>(bytes)}, aoti_torch_dtype_uint8());
    torch::stable::zero_(zeros);
    states.push_back({stream, capture, zeros});
    found = states.end() - 1;
  }
  expect_ok(kl_set_state(launcher.handle.get(), found->zeros.data_ptr()), launcher.kernel.c_str());
}

/// Runs a kernel on dense tensors, in the order of its arrays.
void launch(Launcher& launcher, int device, const Tensor* const* arrays, std::size_t count,
            const char* operation) {
  std::optional<Range> range;
  if (ranges.load(std::memory_order_relaxed)) {
    range.emplace(launcher.kernel + " " + launcher.problem);
  }
  constexpr std::size_t kMostArrays = 16;
  std::array<void*, kMostArrays> addresses;
  static char nothing;  // an empty tensor's address
  for (std::size_t i = 0; i < count; ++i) {
    void* const address = arrays[i]->data_ptr();
    addresses[i] = address ? address : &nothing;
  }
  kl_launcher* const handle = launcher.handle.get();
  std::size_t bytes = 0;
  expect_ok(kl_bind(handle, addresses.data(), count, &bytes), operation);
  std::optional<Tensor> workspace;
  if (bytes > 0) {
    workspace =
        new_tensor(*arrays[0], {static_cast<std::int64_t>(bytes)}, aoti_torch_dtype_uint8());
    expect_ok(kl_set_workspace(handle, workspace->data_ptr()), operation);
  }
  void* const stream = device < 0 ? nullptr : current_stream(device);
  set_state(launcher, device, stream, *arrays[0]);
  if (counts && device < 0) {
    kl_counts found;
    expect_ok(kl_count(handle, &found), operation);
    counted.push_back({launcher.kernel, launcher.problem, found});
    return;
  }
  const kl_status status = kl_launch(handle, stream);
  if (status != KL_OK) launcher.states.clear();  // they may not be zero
  expect_ok(status, operation);
}

/// Runs an operation of the first array's dtype.
void run(const Operation& operation, const Sizes& sizes,
         std::initializer_list<const Tensor*> arrays) {
  thread_local Launchers<Key, HashOfKey> launchers;
  const Tensor& any = **arrays.begin();
  const int device = device_of(any);
  const OnDevice on(device);
  const Key key{&operation, any.scalar_type(), device, sizes};
  Launcher& launcher = launchers.get(key, [&] {
    Launcher made = open_operation(operation, key.type, operation.text(sizes, operation.sizes),
                                   backend_of(device));
    // The tensors' sizes follow from the key.
    expect_arrays(made, arrays.begin(), arrays.size(), operation.name);
    plan(made, device);
    return made;
  });
  launch(launcher, device, arrays.begin(), arrays.size(), operation.name);
}

/// Whether a version can do a problem on the tensor's device.
bool can_run(const Operation& operation, const Sizes& sizes, const Tensor& like) {
  thread_local std::unordered_map<Key, bool, HashOfKey> known;
  const int device = device_of(like);
  const Key key{&operation, like.scalar_type(), device, sizes};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const OnDevice on(device);
  const Launcher launcher = find_operation(
      operation, key.type, operation.text(sizes, operation.sizes), backend_of(device));
  return known[key] = launcher.handle != nullptr;
}

// ---- What operators are given

void check(bool holds, const char* op, const char* argument, const char* what) {
  if (!holds) refuse(std::string(op) + ": " + argument + " " + what);
}
/// As PyTorch writes it.
const char* dtype_name(const Tensor& x) {
  switch (x.scalar_type()) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Float8_e4m3fn:
      return "float8_e4m3fn";
    case ScalarType::Float8_e5m2:
      return "float8_e5m2";
    case ScalarType::Double:
      return "float64";
    case ScalarType::ComplexFloat:
      return "complex64";
    case ScalarType::ComplexDouble:
      return "complex128";
    case ScalarType::Bool:
      return "bool";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Byte:
      return "uint8";
    default:
      return "another dtype";
  }
}
bool is_16_bit(const Tensor& x) {
  const ScalarType type = x.scalar_type();
  return type == ScalarType::Half || type == ScalarType::BFloat16;
}
void check_dtype(bool takes, const char* op, const char* argument, const Tensor& x,
                 const char* those_it_takes) {
  if (!takes) {
    refuse(std::string(op) + ": " + argument + " must be " + those_it_takes + ", not " +
           dtype_name(x));
  }
}
/// That the kernels take an operator's first argument.
void check_float(const char* op, const char* argument, const Tensor& x) {
  check_dtype(is_16_bit(x) || x.scalar_type() == ScalarType::Float, op, argument, x,
              "float32, float16 or bfloat16");
}
void check_16_bit(const char* op, const char* argument, const Tensor& x) {
  check_dtype(is_16_bit(x), op, argument, x, "float16 or bfloat16");
}
void check_like(const char* op, const char* argument, const Tensor& x, const Tensor& like) {
  if (dtype_of(x) != dtype_of(like)) {
    refuse(std::string(op) + ": " + argument + " must have the first argument's dtype, " +
           dtype_name(like) + ", not " + dtype_name(x));
  }
  check(device_of(x) == device_of(like), op, argument, "must be on the first argument's device");
}
bool have_one_shape(const Tensor& x, const Tensor& y) {
  bool same = x.dim() == y.dim();
  for (std::int64_t i = 0; same && i < x.dim(); ++i) same = x.size(i) == y.size(i);
  return same;
}
void check_shape(const char* op, const char* argument, const Tensor& x, const Tensor& like) {
  check_like(op, argument, x, like);
  check(have_one_shape(x, like), op, argument, "must have the first argument's shape");
}
void check_columns(const char* op, const char* argument, const Tensor& x, const Tensor& like) {
  check_like(op, argument, x, like);
  check(like.dim() >= 1 && x.dim() == 1 && x.size(0) == like.size(like.dim() - 1), op, argument,
        "must have one dimension, of the first argument's last one's size");
}
void check_matrix(const char* op, const char* argument, const Tensor& x) {
  check(x.dim() == 2, op, argument, "must have two dimensions");
}

/// Kernels may load vectors from a multiple of 256 bytes on; the host executor has copies in any case.
bool is_aligned(const Tensor& x) {
  return !x.is_cuda() || reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 256 == 0;
}
Tensor dense(const Tensor& x) {
  if (!x.is_contiguous()) return torch::stable::contiguous(x);
  return is_aligned(x) ? x : torch::stable::clone(x);
}

/// Rows of the last dimension.
Sizes rows_of(const char* op, const Tensor& x) {
  check(x.dim() >= 1, op, "input", "must have a dimension");
  const std::int64_t last = x.dim() - 1;
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < last; ++i) rows *= x.size(i);
  return {rows, x.size(last)};
}

// ---- The operators

Tensor by_rows(const char* op, const Operation& operation, const Tensor& input) {
  check_float(op, "input", input);
  const Sizes rows = rows_of(op, input);
  const Tensor x = dense(input), y = new_like(x);
  run(operation, rows, {&x, &y});
  return y;
}
Tensor softmax(const Tensor& input) {
  static constexpr Operation kSoftmax{"softmax", 2};
  return by_rows("softmax", kSoftmax, input);
}
Tensor log_softmax(const Tensor& input) {
  static constexpr Operation kLogSoftmax{"softmax/log", 2};
  return by_rows("log_softmax", kLogSoftmax, input);
}
Tensor causal_softmax(const Tensor& input) {
  static constexpr Operation kCausalSoftmax{"softmax/causal", 2};
  check_matrix("causal_softmax", "input", input);
  return by_rows("causal_softmax", kCausalSoftmax, input);
}

Tensor gradient_by_rows(const char* op, const Operation& operation, const Tensor& grad,
                        const Tensor& output) {
  check_float(op, "grad", grad);
  check_shape(op, "output", output, grad);
  const Sizes rows = rows_of(op, output);
  const Tensor dy = dense(grad), y = dense(output), dx = new_like(y);
  run(operation, rows, {&y, &dy, &dx});
  return dx;
}
Tensor softmax_backward(const Tensor& grad, const Tensor& output) {
  static constexpr Operation kBackward{"softmax/backward", 2};
  return gradient_by_rows("softmax_backward", kBackward, grad, output);
}
Tensor log_softmax_backward(const Tensor& grad, const Tensor& output) {
  static constexpr Operation kBackward{"softmax/log_backward", 2};
  return gradient_by_rows("log_softmax_backward", kBackward, grad, output);
}

// Norms' problems: rows, columns, and the bits of eps.
std::string norm_problem(const Sizes& s, int) {
  const auto eps = std::bit_cast<float>(static_cast<std::int32_t>(s[2]));
  if (eps == 1e-5f) return by(s, 2);  // the suite's own
  std::array<char, 32> digits;
  char* const end = std::to_chars(digits.begin(), digits.end(), eps).ptr;
  return by(s, 2) + "@eps" + std::string(digits.data(), end);
}
Sizes rows_of(const char* op, const Tensor& x, double eps) {
  const auto rounded = static_cast<float>(eps);
  check(std::isnormal(rounded) && rounded > 0, op, "eps", "must be a positive number");
  Sizes sizes = rows_of(op, x);
  sizes[2] = std::bit_cast<std::int32_t>(rounded);
  return sizes;
}

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double eps) {
  static constexpr Operation kLayerNorm{"layernorm", 3, norm_problem};
  check_float("layer_norm", "input", input);
  check_columns("layer_norm", "weight", weight, input);
  check_columns("layer_norm", "bias", bias, input);
  const Tensor x = dense(input), w = dense(weight), b = dense(bias), y = new_like(x);
  run(kLayerNorm, rows_of("layer_norm", x, eps), {&x, &w, &b, &y});
  return y;
}
Tensor rms_norm(const Tensor& input, const Tensor& weight, double eps) {
  static constexpr Operation kRmsNorm{"rmsnorm", 3, norm_problem};
  check_float("rms_norm", "input", input);
  check_columns("rms_norm", "weight", weight, input);
  const Tensor x = dense(input), w = dense(weight), y = new_like(x);
  run(kRmsNorm, rows_of("rms_norm", x, eps), {&x, &w, &y});
  return y;
}
std::tuple<Tensor, Tensor> add_layer_norm(const Tensor& input, const Tensor& residual,
                                          const Tensor& weight, const Tensor& bias, double eps) {
  static constexpr Operation kAddLayerNorm{"layernorm/add", 3, norm_problem};
  check_float("add_layer_norm", "input", input);
  check_shape("add_layer_norm", "residual", residual, input);
  check_columns("add_layer_norm", "weight", weight, input);
  check_columns("add_layer_norm", "bias", bias, input);
  const Tensor x = dense(input), r = dense(residual), w = dense(weight), b = dense(bias);
  const Tensor y = new_like(x), sum = new_like(x);
  run(kAddLayerNorm, rows_of("add_layer_norm", x, eps), {&x, &w, &b, &r, &y, &sum});
  return {y, sum};
}
std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& input, const Tensor& residual,
                                        const Tensor& weight, double eps) {
  static constexpr Operation kAddRmsNorm{"rmsnorm/add", 3, norm_problem};
  check_float("add_rms_norm", "input", input);
  check_shape("add_rms_norm", "residual", residual, input);
  check_columns("add_rms_norm", "weight", weight, input);
  const Tensor x = dense(input), r = dense(residual), w = dense(weight);
  const Tensor y = new_like(x), sum = new_like(x);
  run(kAddRmsNorm, rows_of("add_rms_norm", x, eps), {&x, &w, &r, &y, &sum});
  return {y, sum};
}
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& input,
                                                       const Tensor& weight, double eps) {
  static constexpr Operation kBackward{"layernorm/backward", 3, norm_problem};
  check_float("layer_norm_backward", "grad", grad);
  check_shape("layer_norm_backward", "input", input, grad);
  check_columns("layer_norm_backward", "weight", weight, input);
  const Tensor x = dense(input), w = dense(weight), dy = dense(grad);
  const Tensor dx = new_like(x), dw = new_like(w), db = new_like(w);
  run(kBackward, rows_of("layer_norm_backward", x, eps), {&x, &w, &dy, &dx, &dw, &db});
  return {dx, dw, db};
}
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input,
                                             const Tensor& weight, double eps) {
  static constexpr Operation kBackward{"rmsnorm/backward", 3, norm_problem};
  check_float("rms_norm_backward", "grad", grad);
  check_shape("rms_norm_backward", "input", input, grad);
  check_columns("rms_norm_backward", "weight", weight, input);
  const Tensor x = dense(input), w = dense(weight), dy = dense(grad);
  const Tensor dx = new_like(x), dw = new_like(w);
  run(kBackward, rows_of("rms_norm_backward", x, eps), {&x, &w, &dy, &dx, &dw});
  return {dx, dw};
}

Tensor by_elements(const char* op, const Operation& operation, const Tensor& input) {
  check_float(op, "input", input);
  const Tensor x = dense(input), y = new_like(x);
  run(operation, {x.numel()}, {&x, &y});
  return y;
}
Tensor relu(const Tensor& input) {
  static constexpr Operation kRelu{"elementwise/relu", 1};
  return by_elements("relu", kRelu, input);
}
Tensor gelu(const Tensor& input) {
  static constexpr Operation kGelu{"elementwise/gelu", 1};
  return by_elements("gelu", kGelu, input);
}
Tensor gelu_tanh(const Tensor& input) {
  static constexpr Operation kGeluTanh{"elementwise/gelu_tanh", 1};
  return by_elements("gelu_tanh", kGeluTanh, input);
}
Tensor silu_mul(const Tensor& gate, const Tensor& up) {
  static constexpr Operation kSiluMul{"elementwise/silu_mul", 1};
  check_float("silu_mul", "gate", gate);
  check_shape("silu_mul", "up", up, gate);
  const Tensor g = dense(gate), u = dense(up), y = new_like(g);
  run(kSiluMul, {g.numel()}, {&g, &u, &y});
  return y;
}
Tensor bias_gelu_residual(const Tensor& input, const Tensor& bias, const Tensor& residual) {
  static constexpr Operation kBiasGeluResidual{"elementwise/bias_gelu_residual", 2};
  check_float("bias_gelu_residual", "input", input);
  check_columns("bias_gelu_residual", "bias", bias, input);
  check_shape("bias_gelu_residual", "residual", residual, input);
  const Tensor x = dense(input), b = dense(bias), r = dense(residual), y = new_like(x);
  run(kBiasGeluResidual, rows_of("bias_gelu_residual", x), {&x, &b, &r, &y});
  return y;
}

/// Of 16-bit types in fp32.
std::int32_t dtype_of_sums(const Tensor& x) {
  return is_16_bit(x) ? aoti_torch_dtype_float32() : dtype_of(x);
}
Tensor sum(const Tensor& input) {
  static constexpr Operation kSum{"reduction/sum", 1};
  const ScalarType type = input.scalar_type();
  check_dtype(is_16_bit(input) || type == ScalarType::Float || type == ScalarType::Double ||
                  type == ScalarType::Int,
              "sum", "input", input, "float32, float16, bfloat16, float64 or int32");
  const Tensor x = dense(input), y = new_tensor(x, {}, dtype_of_sums(x));
  run(kSum, {x.numel()}, {&x, &y});
  return y;
}
Tensor row_sum(const Tensor& input) {
  static constexpr Operation kRowSum{"matrix_reduction/row_sum", 2};
  check_float("row_sum", "input", input);
  check_matrix("row_sum", "input", input);
  const Tensor x = dense(input), y = new_tensor(x, {x.size(0)}, dtype_of_sums(x));
  run(kRowSum, {x.size(0), x.size(1)}, {&x, &y});
  return y;
}
Tensor col_sum(const Tensor& input) {
  static constexpr Operation kColSum{"matrix_reduction/col_sum", 2};
  check_float("col_sum", "input", input);
  check_matrix("col_sum", "input", input);
  const Tensor x = dense(input), y = new_tensor(x, {x.size(1)}, dtype_of_sums(x));
  run(kColSum, {x.size(0), x.size(1)}, {&x, &y});
  return y;
}
Tensor transpose(const Tensor& input) {
  static constexpr Operation kTranspose{"transpose", 2};
  check_float("transpose", "input", input);
  check_matrix("transpose", "input", input);
  const Tensor x = dense(input), y = new_tensor(x, {x.size(1), x.size(0)});
  run(kTranspose, {x.size(0), x.size(1)}, {&x, &y});
  return y;
}

/// Whether a matrix is the transposed view of a dense one.
bool is_transposed(const Tensor& x) {
  return !x.is_contiguous() && x.stride(0) == 1 && x.stride(1) == x.size(0) && is_aligned(x);
}
/// What a row of so many 16-bit elements lacks for the next to begin at a multiple of 16 bytes, as they must
/// for versions but Hopper's last ones: those take bf16, and f16 in nt, with rows that begin anywhere.
std::int64_t lacking(std::int64_t columns) { return -columns & 7; }

Tensor mm(const Tensor& left, const Tensor& right) {
  static constexpr Operation kGemm{"gemm", 3};
  static constexpr Operation kNN{"gemm_tensor/nn", 3};
  static constexpr Operation kNT{"gemm_tensor/nt", 3};
  static constexpr Operation kTN{"gemm_tensor/tn", 3};
  check_float("mm", "a", left);
  check_matrix("mm", "a", left);
  check_matrix("mm", "b", right);
  check_like("mm", "b", right, left);
  check(left.size(1) == right.size(0), "mm", "b", "must have as many rows as a has columns");
  const std::int64_t m = left.size(0), n = right.size(1), k = left.size(1);
  if (!is_16_bit(left)) {
    const Tensor a = dense(left), b = dense(right), c = new_tensor(a, {m, n});
    run(kGemm, {m, n, k}, {&a, &b, &c});
    return c;
  }
  const auto takes = [&](const Operation& operation, std::int64_t lacks) {
    return lacks == 0 || can_run(operation, {1, 1, 1}, left);
  };
  if (is_transposed(right) && !is_transposed(left) && takes(kNT, lacking(k))) {
    const Tensor a = dense(left), c = new_tensor(a, {m, n});
    run(kNT, {m, n, k}, {&a, &right, &c});
    return c;
  }
  if (is_transposed(left) && takes(kTN, lacking(m) + lacking(n))) {
    const Tensor b = dense(right), c = new_tensor(b, {m, n});
    run(kTN, {m, n, k}, {&left, &b, &c});
    return c;
  }
  Tensor a = left, b = right;
  std::int64_t more_n = 0, more_k = 0;
  if (!takes(kNN, lacking(n) + lacking(k))) {
    // With zeros behind their rows and columns, which change nothing
    more_n = lacking(n), more_k = lacking(k);
    if (more_k > 0) a = torch::stable::pad(a, {0, more_k});
    b = torch::stable::pad(b, {0, more_n, 0, more_k});
  }
  a = dense(a), b = dense(b);
  Tensor c = new_tensor(a, {m, n + more_n});
  run(kNN, {m, n + more_n, k + more_k}, {&a, &b, &c});
  return more_n > 0 ? torch::stable::contiguous(torch::stable::narrow(c, 1, 0, n)) : c;
}

Tensor addmm_gelu(const Tensor& bias, const Tensor& left, const Tensor& right) {
  static constexpr Operation kBiasGelu{"gemm_tensor/nt_bias_gelu", 3};
  check_16_bit("addmm_gelu", "bias", bias);
  check_matrix("addmm_gelu", "a", left);
  check_matrix("addmm_gelu", "b", right);
  check_like("addmm_gelu", "a", left, bias);
  check_like("addmm_gelu", "b", right, bias);
  check(left.size(1) == right.size(0), "addmm_gelu", "b",
        "must have as many rows as a has columns");
  check(bias.dim() == 1 && bias.size(0) == right.size(1), "addmm_gelu", "bias",
        "must have one dimension, of b's columns");
  const std::int64_t m = left.size(0), n = right.size(1), k = left.size(1), more_k = lacking(k);
  Tensor a = left, b = torch::stable::transpose(right, 0, 1);
  if (more_k > 0) a = torch::stable::pad(a, {0, more_k}), b = torch::stable::pad(b, {0, more_k});
  a = dense(a), b = dense(b);
  const Tensor of_columns = dense(bias), c = new_tensor(a, {m, n});
  run(kBiasGelu, {m, n, k + more_k}, {&a, &b, &of_columns, &c});
  return c;
}

// Attention's problems: batch, heads, heads of keys, queries, keys, d, and the sum of these.
constexpr std::int64_t kBshd = 1;     // a position's heads lie side by side, not a head's positions
constexpr std::int64_t kTopLeft = 2;  // how a causal mask is aligned

std::string attention_problem(const Sizes& s, int) {
  const auto two = [](std::int64_t x, std::int64_t y) {
    return std::to_string(x) + (x == y ? "" : ":" + std::to_string(y));
  };
  std::string text = std::to_string(s[0]) + "x" + two(s[1], s[2]) + "x" + two(s[3], s[4]) + "x" +
                     std::to_string(s[5]);
  if (s[6] & kBshd) text += "@bshd";
  if (s[6] & kTopLeft) text += "@top_left";
  return text;
}
constexpr Operation attention_operation(const char* name) { return {name, 7, attention_problem}; }

/// Whether [batch, heads, length, d] lies in memory as [batch, length, heads, d].
bool is_bshd(const Tensor& x) {
  std::int64_t dense_stride = 1;
  for (const std::int64_t dim : {3, 1, 2, 0}) {
    if (x.size(dim) != 1 && x.stride(dim) != dense_stride) return false;
    dense_stride *= x.size(dim);
  }
  return true;
}
/// As [batch, length, heads, d] in memory, of the same shape.
Tensor as_bshd(const Tensor& x) {
  if (is_bshd(x)) return is_aligned(x) ? x : torch::stable::clone(x);
  return torch::stable::transpose(dense(torch::stable::transpose(x, 1, 2)), 1, 2);
}

Sizes attention_sizes(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                      bool is_top_left) {
  check_16_bit(op, "q", q);
  check(q.dim() == 4, op, "q", "must have the dimensions [batch, heads, length, head size]");
  check(k.dim() == 4 && k.size(0) == q.size(0) && k.size(3) == q.size(3), op, "k",
        "must have q's dimensions but for heads and length");
  check(q.size(3) == 64 || q.size(3) == 128, op, "q", "must have head size 64 or 128");
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0, op, "k", "must have heads that divide q's");
  check_like(op, "k", k, q);
  check_like(op, "v", v, q);
  check(have_one_shape(v, k), op, "v", "must have k's shape");
  const bool lies_bshd = !(q.is_contiguous() && k.is_contiguous() && v.is_contiguous()) &&
                         is_bshd(q) && is_bshd(k) && is_bshd(v);
  return {q.size(0),
          q.size(1),
          k.size(1),
          q.size(2),
          k.size(2),
          q.size(3),
          (lies_bshd ? kBshd : 0) + (is_top_left ? kTopLeft : 0)};
}
/// As a problem's arrays lie.
Tensor as_in(const Sizes& problem, const Tensor& x) {
  return problem[6] & kBshd ? as_bshd(x) : dense(x);
}

std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                     bool is_causal, bool is_top_left) {
  static constexpr Operation kOperations[] = {attention_operation("attention"),
                                              attention_operation("attention/causal")};
  const Sizes sizes = attention_sizes("attention", query, key, value, is_causal && is_top_left);
  const auto [batch, heads, kv_heads, queries, keys, d, lies] = sizes;
  const Tensor q = as_in(sizes, query), k = as_in(sizes, key), v = as_in(sizes, value);
  const Tensor o = new_like(q);
  const Tensor lse = new_tensor(q, {batch, heads, queries}, aoti_torch_dtype_float32());
  run(kOperations[is_causal], sizes, {&q, &k, &v, &o, &lse});
  return {o, lse};
}
std::tuple<Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& query,
                                                      const Tensor& key, const Tensor& value,
                                                      const Tensor& output, const Tensor& sums,
                                                      bool is_causal, bool is_top_left) {
  static constexpr Operation kOperations[2] = {attention_operation("attention/backward"),
                                               attention_operation("attention/causal_backward")};
  const char* const op = "attention_backward";
  const Sizes sizes = attention_sizes(op, query, key, value, is_causal && is_top_left);
  check_like(op, "grad", grad, query);
  check(have_one_shape(grad, query), op, "grad", "must have q's shape");
  check_like(op, "o", output, query);
  check(have_one_shape(output, query), op, "o", "must have q's shape");
  check(sums.dim() == 3 && sums.numel() * sizes[5] == query.numel() &&
            sums.scalar_type() == ScalarType::Float && device_of(sums) == device_of(query),
        op, "lse", "must be what attention returned");
  const Tensor q = as_in(sizes, query), k = as_in(sizes, key), v = as_in(sizes, value);
  const Tensor o = as_in(sizes, output), d_o = as_in(sizes, grad), lse = dense(sums);
  const Tensor dq = new_like(q), dk = new_like(k), dv = new_like(v);
  run(kOperations[is_causal], sizes, {&q, &k, &v, &o, &lse, &d_o, &dq, &dk, &dv});
  return {dq, dk, dv};
}

/// Any version by its name, on dense tensors as its arrays say.
void run_version(std::string name, std::string problem, std::vector<Tensor> arrays) {
  thread_local Launchers<std::string> launchers;
  check(!arrays.empty(), "run", "arrays", "must not be empty");
  const int device = device_of(arrays.front());
  std::vector<const Tensor*> pointers;
  for (const Tensor& array : arrays) {
    check(array.is_contiguous() && is_aligned(array), "run", "arrays",
          "must be contiguous and begin at multiples of 256 bytes");
    check(device_of(array) == device, "run", "arrays", "must be on one device");
    pointers.push_back(&array);
  }
  const OnDevice on(device);
  Launcher& launcher = launchers.get(name + "@" + problem + "@" + std::to_string(device), [&] {
    Launcher made = open_version(name, problem, backend_of(device));
    plan(made, device);
    return made;
  });
  expect_arrays(launcher, pointers.data(), pointers.size(), "run");
  launch(launcher, device, pointers.data(), pointers.size(), "run");
}

// ---- Their registration

using Boxed = void(StableIValue*, std::uint64_t, std::uint64_t);
struct Operator {
  const char* schema;
  Boxed* kernel;
  std::string name() const { return std::string(schema, std::string_view(schema).find('(')); }
};

/// Those that have a gradient (kernel_ladder/_register.py). Each is there a second time without, with
/// an underscore before its name: PyTorch's stable ABI has no gradients, so that a call by the first
/// name goes through Python, and kernel_ladder.ops calls the second where it needs none.
const Operator kDifferentiable[] = {
    {"softmax(Tensor input) -> Tensor", TORCH_BOX(&softmax)},
    {"log_softmax(Tensor input) -> Tensor", TORCH_BOX(&log_softmax)},
    {"causal_softmax(Tensor input) -> Tensor", TORCH_BOX(&causal_softmax)},
    {"layer_norm(Tensor input, Tensor weight, Tensor bias, float eps=1e-05) -> Tensor",
     TORCH_BOX(&layer_norm)},
    {"rms_norm(Tensor input, Tensor weight, float eps=1e-05) -> Tensor", TORCH_BOX(&rms_norm)},
    {"add_layer_norm(Tensor input, Tensor residual, Tensor weight, Tensor bias, float eps=1e-05) "
     "-> (Tensor, "
     "Tensor)",
     TORCH_BOX(&add_layer_norm)},
    {"add_rms_norm(Tensor input, Tensor residual, Tensor weight, float eps=1e-05) -> (Tensor, "
     "Tensor)",
     TORCH_BOX(&add_rms_norm)},
    {"relu(Tensor input) -> Tensor", TORCH_BOX(&relu)},
    {"gelu(Tensor input) -> Tensor", TORCH_BOX(&gelu)},
    {"gelu_tanh(Tensor input) -> Tensor", TORCH_BOX(&gelu_tanh)},
    {"silu_mul(Tensor gate, Tensor up) -> Tensor", TORCH_BOX(&silu_mul)},
    {"bias_gelu_residual(Tensor input, Tensor bias, Tensor residual) -> Tensor",
     TORCH_BOX(&bias_gelu_residual)},
    {"sum(Tensor input) -> Tensor", TORCH_BOX(&sum)},
    {"row_sum(Tensor input) -> Tensor", TORCH_BOX(&row_sum)},
    {"col_sum(Tensor input) -> Tensor", TORCH_BOX(&col_sum)},
    {"transpose(Tensor input) -> Tensor", TORCH_BOX(&transpose)},
    {"mm(Tensor a, Tensor b) -> Tensor", TORCH_BOX(&mm)},
    {"addmm_gelu(Tensor bias, Tensor a, Tensor b) -> Tensor", TORCH_BOX(&addmm_gelu)},
    {"attention(Tensor q, Tensor k, Tensor v, bool is_causal=False, bool top_left=False) -> "
     "(Tensor, Tensor)",
     TORCH_BOX(&attention)},
};
const Operator kOthers[] = {
    {"softmax_backward(Tensor grad, Tensor output) -> Tensor", TORCH_BOX(&softmax_backward)},
    {"log_softmax_backward(Tensor grad, Tensor output) -> Tensor",
     TORCH_BOX(&log_softmax_backward)},
    {"layer_norm_backward(Tensor grad, Tensor input, Tensor weight, float eps=1e-05) -> (Tensor, "
     "Tensor, Tensor)",
     TORCH_BOX(&layer_norm_backward)},
    {"rms_norm_backward(Tensor grad, Tensor input, Tensor weight, float eps=1e-05) -> (Tensor, "
     "Tensor)",
     TORCH_BOX(&rms_norm_backward)},
    {"attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
     "bool is_causal=False, bool top_left=False) -> (Tensor, Tensor, Tensor)",
     TORCH_BOX(&attention_backward)},
    {"run(str name, str problem, Tensor(a!)[] arrays) -> ()", TORCH_BOX(&run_version)},
};

/// Gives `use` the schema, the name and the kernel of all.
template <class Use>
void for_each_operator(Use use) {
  for (const Operator& one : kDifferentiable) {
    use(one.schema, one.name(), one.kernel);
    use("_" + std::string(one.schema), "_" + one.name(), one.kernel);
  }
  for (const Operator& one : kOthers) use(one.schema, one.name(), one.kernel);
}

}  // namespace

STABLE_TORCH_LIBRARY(kernel_ladder, m) {
  for_each_operator(
      [&](const std::string& schema, const std::string&, Boxed*) { m.def(schema.c_str()); });
}
STABLE_TORCH_LIBRARY_IMPL(kernel_ladder, CPU, m) {
  for_each_operator([&](const std::string&, const std::string& name, Boxed* kernel) {
    m.impl(name.c_str(), kernel);
  });
}
STABLE_TORCH_LIBRARY_IMPL(kernel_ladder, CUDA, m) {
  for_each_operator([&](const std::string&, const std::string& name, Boxed* kernel) {
    m.impl(name.c_str(), kernel);
  });
}

// For kernel_ladder.explain and kernel_ladder.profile, by ctypes.
extern "C" {
__attribute__((visibility("default"))) void kernel_ladder_count(int on) {
  counts = on != 0;
  counted.clear();
}
__attribute__((visibility("default"))) void kernel_ladder_ranges(int on) { ranges = on != 0; }
__attribute__((visibility("default"))) std::size_t kernel_ladder_counted() {
  return counted.size();
}
__attribute__((visibility("default"))) const kl_counts* kernel_ladder_counts_of(
    std::size_t i, const char** kernel, const char** problem) {
  *kernel = counted[i].kernel.c_str();
  *problem = counted[i].problem.c_str();
  return &counted[i].counts;
}
}
