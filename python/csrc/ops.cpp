// torch.ops.kernel_ladder.*: the suite's kernels on PyTorch's tensors, through libkernel_ladder.so and
// PyTorch's stable ABI: one binary for every PyTorch from 2.10 on and every Python.
//
// A CUDA tensor's kernels run on its device's current stream, a CPU tensor's on the host executor.
// Fake kernels and gradients are registered in Python (kernel_ladder/_register.py).
#include "kernel_ladder.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <dlfcn.h>

#include <cstdint>
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
using Tensors = std::vector<Tensor>;
using Text = const std::string&;

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("kernel_ladder." + why);
}

/// `status` of a call of the library's, for an operation.
void expect_ok(kl_status status, Text operation) {
  if (status != KL_OK) refuse(operation + ": " + kl_last_error());
}

const char* dtype_of(const Tensor& x) {
  switch (x.scalar_type()) {
    case ScalarType::Float:
      return "f32";
    case ScalarType::Half:
      return "f16";
    case ScalarType::BFloat16:
      return "bf16";
    case ScalarType::Double:
      return "f64";
    case ScalarType::Int:
      return "i32";
    case ScalarType::Long:
      return "i64";
    default:
      return "this dtype";
  }
}

struct Close {
  void operator()(kl_launcher* launcher) const { kl_close(launcher); }
};
struct Launcher {
  std::unique_ptr<kl_launcher, Close> handle;
  std::string kernel;  // its full name
};

/// Versions of an operation, whose name begins with `prefix`: first the one whose label begins with
/// `preferred`, which ./bench found fastest, and behind it all others from the last rung down.
std::vector<std::size_t> versions(const std::string& prefix, kl_backend backend, Text preferred) {
  std::vector<std::size_t> first, others;
  for (std::size_t i = kl_kernel_count(); i-- > 0;) {
    kl_kernel kernel;
    if (kl_describe(i, &kernel) != KL_OK || kernel.backend != backend || kernel.is_baseline)
      continue;
    const std::string name = kernel.name;
    if (!name.starts_with(prefix) || name.find('/', prefix.size()) != name.npos) continue;
    const bool is_preferred = name.compare(prefix.size(), preferred.size(), preferred) == 0;
    (is_preferred ? first : others).push_back(i);
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

Launcher open_kernel(std::size_t number, Text problem) {
  kl_launcher* launcher = nullptr;
  kl_kernel kernel;
  if (kl_open(number, problem.c_str(), &launcher) != KL_OK ||
      kl_describe(number, &kernel) != KL_OK) {
    return {};
  }
  return {std::unique_ptr<kl_launcher, Close>(launcher), kernel.name};
}

/// Of a version's full name, or of an operation's: family[/op], of whose versions the first is taken
/// that can do the problem.
Launcher open(Text operation, Text preferred, bool is_version, const char* dtype, Text problem,
              kl_backend backend) {
  if (is_version) {
    std::size_t kernel = 0;
    expect_ok(kl_find(operation.c_str(), backend, &kernel), "run");
    Launcher launcher = open_kernel(kernel, problem);
    if (!launcher.handle) refuse(std::string("run: ") + kl_last_error());
    return launcher;
  }
  std::string why = "the operation is not for this dtype";
  for (const std::size_t kernel : versions(operation + "/" + dtype + "/", backend, preferred)) {
    Launcher launcher = open_kernel(kernel, problem);
    if (launcher.handle) return launcher;
    why = kl_last_error();
  }
  refuse(operation + ": no version can do " + problem + " in " + dtype + ": " + why);
}

/// Of the kernels that this thread has run since it began to count: a name, a problem, and what a launch
/// did, which kernel_ladder.explain reads.
struct Counted {
  std::string kernel, problem;
  kl_counts counts;
};
thread_local std::vector<Counted> counted;
thread_local bool counts = false;

/// Whether the tensors are what the kernel takes: it would write beyond a smaller one.
void expect_arrays(const kl_launcher& launcher, const Tensors& arrays, Text operation) {
  const std::size_t count = kl_array_count(&launcher);
  if (arrays.size() != count) {
    refuse(operation + ": takes " + std::to_string(count) + " arrays, not " +
           std::to_string(arrays.size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    kl_array array;
    expect_ok(kl_describe_array(&launcher, i, &array), operation);
    const Tensor& x = arrays[i];
    if (dtype_of(x) != std::string_view(array.dtype) ||
        x.numel() != static_cast<std::int64_t>(array.elements)) {
      refuse(operation + ": array " + std::to_string(i) + " (" + array.name + ") must have " +
             std::to_string(array.elements) + " elements of " + array.dtype + ", not " +
             std::to_string(x.numel()) + " of " + dtype_of(x));
    }
  }
}

/// PyTorch's current stream; its CUDA library is looked up, so that this one loads without.
void* current_stream(int device) {
  using Get = AOTITorchError (*)(std::int32_t, void**);
  static const auto get =
      reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream"));
  void* stream = nullptr;
  if (get == nullptr || get(device, &stream) != 0) refuse("ops: this PyTorch has no CUDA");
  return stream;
}

/// Runs a kernel on dense tensors, in the order of its arrays.
void launch(Text operation, Text preferred, bool is_version, const char* dtype, Text problem,
            const Tensors& arrays) {
  const Tensor& any = arrays.front();
  const bool on_gpu = any.is_cuda();
  const int device = on_gpu ? any.get_device_index() : -1;
  std::optional<torch::stable::accelerator::DeviceGuard> guard;
  if (on_gpu) guard.emplace(device);

  // A launcher is one thread's at a time. So many problems are not forgotten at once.
  constexpr std::size_t kMostLaunchers = 4096;
  thread_local std::unordered_map<std::string, Launcher> launchers;
  if (launchers.size() >= kMostLaunchers) launchers.clear();
  const std::string key = operation + "/" + dtype + "@" + problem + "@" + std::to_string(device);
  Launcher& launcher = launchers[key];
  if (!launcher.handle) {
    try {
      launcher = open(operation, preferred, is_version, dtype, problem, on_gpu ? KL_CUDA : KL_HOST);
    } catch (...) {
      launchers.erase(key);
      throw;
    }
  }

  kl_launcher* const handle = launcher.handle.get();
  expect_arrays(*handle, arrays, operation);
  std::vector<void*> pointers;
  for (const Tensor& array : arrays) pointers.push_back(array.data_ptr());
  static char nothing;  // an empty tensor's address
  for (void*& pointer : pointers) pointer = pointer ? pointer : &nothing;
  std::size_t bytes = 0;
  expect_ok(kl_bind(handle, pointers.data(), pointers.size(), &bytes), operation);
  Tensor workspace;
  if (bytes > 0) {
    workspace = torch::stable::new_empty(any, {static_cast<std::int64_t>(bytes)}, ScalarType::Byte);
    expect_ok(kl_set_workspace(handle, workspace.data_ptr()), operation);
  }
  if (counts && !on_gpu) {
    kl_counts found;
    expect_ok(kl_count(handle, &found), operation);
    counted.push_back({launcher.kernel, problem, found});
    return;
  }
  expect_ok(kl_launch(handle, on_gpu ? current_stream(device) : nullptr), operation);
}

// ---- What operators are given

void check(bool holds, const char* op, const char* argument, const char* what) {
  if (!holds) refuse(std::string(op) + ": " + argument + " " + what);
}
void check_like(const char* op, const char* argument, const Tensor& x, const Tensor& like) {
  check(x.scalar_type() == like.scalar_type(), op, argument,
        "must have the first argument's dtype");
  check(x.is_cuda() == like.is_cuda() && x.get_device_index() == like.get_device_index(), op,
        argument, "must be on the first argument's device");
}
void check_shape(const char* op, const char* argument, const Tensor& x, const Tensor& like) {
  check_like(op, argument, x, like);
  bool same = x.dim() == like.dim();
  for (std::int64_t i = 0; same && i < x.dim(); ++i) same = x.size(i) == like.size(i);
  check(same, op, argument, "must have the first argument's shape");
}
void check_columns(const char* op, const char* argument, const Tensor& x, const Tensor& like) {
  check_like(op, argument, x, like);
  check(like.dim() >= 1 && x.dim() == 1 && x.size(0) == like.size(like.dim() - 1), op, argument,
        "must have one dimension, of the first argument's last one's size");
}

/// Kernels may load vectors from a multiple of 256 bytes on; the host executor has copies in any case.
bool is_aligned(const Tensor& x) {
  return !x.is_cuda() || reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 256 == 0;
}
Tensor dense(const Tensor& x) {
  if (!x.is_contiguous()) return torch::stable::contiguous(x);
  return is_aligned(x) ? x : torch::stable::clone(x);
}

std::string by(std::initializer_list<std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}
/// Rows of the last dimension.
std::string rows_of(const char* op, const Tensor& x) {
  check(x.dim() >= 1, op, "input", "must have a dimension");
  const std::int64_t cols = x.size(x.dim() - 1);
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
  return by({rows, cols});
}

void run(Text operation, Text preferred, Text problem, const Tensors& arrays) {
  launch(operation, preferred, false, dtype_of(arrays.front()), problem, arrays);
}

// ---- The operators

Tensor by_rows(const char* op, const char* operation, const char* preferred, Tensor x) {
  x = dense(x);
  Tensor y = torch::stable::empty_like(x);
  run(operation, preferred, rows_of(op, x), {x, y});
  return y;
}
Tensor softmax(Tensor x) { return by_rows("softmax", "softmax", "v10_", x); }
Tensor log_softmax(Tensor x) { return by_rows("log_softmax", "softmax/log", "v13_", x); }
Tensor causal_softmax(Tensor x) {
  check(x.dim() == 2, "causal_softmax", "input", "must have two dimensions");
  return by_rows("causal_softmax", "softmax/causal", "v22_", x);
}

Tensor gradient_by_rows(const char* op, const char* operation, Tensor dy, Tensor y) {
  check_shape(op, "output", y, dy);
  dy = dense(dy), y = dense(y);
  Tensor dx = torch::stable::empty_like(y);
  run(operation, "v31_", rows_of(op, y), {y, dy, dx});
  return dx;
}
Tensor softmax_backward(Tensor dy, Tensor y) {
  return gradient_by_rows("softmax_backward", "softmax/backward", dy, y);
}
Tensor log_softmax_backward(Tensor dy, Tensor y) {
  return gradient_by_rows("log_softmax_backward", "softmax/log_backward", dy, y);
}

Tensor layer_norm(Tensor x, Tensor weight, Tensor bias) {
  check_columns("layer_norm", "weight", weight, x);
  check_columns("layer_norm", "bias", bias, x);
  x = dense(x);
  Tensor y = torch::stable::empty_like(x);
  run("layernorm", "v10_", rows_of("layer_norm", x), {x, dense(weight), dense(bias), y});
  return y;
}
Tensor rms_norm(Tensor x, Tensor weight) {
  check_columns("rms_norm", "weight", weight, x);
  x = dense(x);
  Tensor y = torch::stable::empty_like(x);
  run("rmsnorm", "v10_", rows_of("rms_norm", x), {x, dense(weight), y});
  return y;
}
std::tuple<Tensor, Tensor> add_rms_norm(Tensor x, Tensor residual, Tensor weight) {
  check_shape("add_rms_norm", "residual", residual, x);
  check_columns("add_rms_norm", "weight", weight, x);
  x = dense(x);
  Tensor y = torch::stable::empty_like(x), sum = torch::stable::empty_like(x);
  run("rmsnorm/add", "v22_", rows_of("add_rms_norm", x),
      {x, dense(weight), dense(residual), y, sum});
  return {y, sum};
}
std::tuple<Tensor, Tensor, Tensor> norm_backward(const char* op, const char* operation, Tensor dy,
                                                 Tensor x, Tensor weight, bool has_bias) {
  check_shape(op, "input", x, dy);
  check_columns(op, "weight", weight, x);
  x = dense(x), weight = dense(weight);
  Tensor dx = torch::stable::empty_like(x), dw = torch::stable::empty_like(weight);
  Tensor db = torch::stable::empty_like(weight);
  Tensors arrays{x, weight, dense(dy), dx, dw};
  if (has_bias) arrays.push_back(db);
  run(operation, "v34_", rows_of(op, x), arrays);
  return {dx, dw, db};
}
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(Tensor dy, Tensor x, Tensor weight) {
  return norm_backward("layer_norm_backward", "layernorm/backward", dy, x, weight, true);
}
std::tuple<Tensor, Tensor> rms_norm_backward(Tensor dy, Tensor x, Tensor weight) {
  const auto [dx, dw, none] =
      norm_backward("rms_norm_backward", "rmsnorm/backward", dy, x, weight, false);
  return {dx, dw};
}

Tensor by_elements(const char* operation, const char* preferred, Tensor x) {
  x = dense(x);
  Tensor y = torch::stable::empty_like(x);
  run(operation, preferred, by({x.numel()}), {x, y});
  return y;
}
Tensor relu(Tensor x) { return by_elements("elementwise/relu", "v07_", x); }
Tensor gelu(Tensor x) { return by_elements("elementwise/gelu", "v07_", x); }
Tensor gelu_tanh(Tensor x) { return by_elements("elementwise/gelu_tanh", "v06_", x); }
Tensor silu_mul(Tensor gate, Tensor up) {
  check_shape("silu_mul", "up", up, gate);
  gate = dense(gate);
  Tensor y = torch::stable::empty_like(gate);
  run("elementwise/silu_mul", "v09_", by({gate.numel()}), {gate, dense(up), y});
  return y;
}
Tensor bias_gelu_residual(Tensor x, Tensor bias, Tensor residual) {
  check_columns("bias_gelu_residual", "bias", bias, x);
  check_shape("bias_gelu_residual", "residual", residual, x);
  x = dense(x);
  Tensor y = torch::stable::empty_like(x);
  run("elementwise/bias_gelu_residual", "v24_", rows_of("bias_gelu_residual", x),
      {x, dense(bias), dense(residual), y});
  return y;
}

/// Of 16-bit types in fp32.
ScalarType of_sums(const Tensor& x) {
  const ScalarType type = x.scalar_type();
  return type == ScalarType::Half || type == ScalarType::BFloat16 ? ScalarType::Float : type;
}
Tensor sum(Tensor x) {
  x = dense(x);
  Tensor y = torch::stable::new_empty(x, {}, of_sums(x));
  run("reduction/sum", "v16_", by({x.numel()}), {x, y});
  return y;
}
void check_matrix(const char* op, const char* argument, const Tensor& x) {
  check(x.dim() == 2, op, argument, "must have two dimensions");
}
Tensor sums_of_matrix(const char* op, const char* preferred, Tensor x, int kept) {
  check_matrix(op, "input", x);
  x = dense(x);
  Tensor y = torch::stable::new_empty(x, {x.size(kept)}, of_sums(x));
  run(std::string("matrix_reduction/") + op, preferred, by({x.size(0), x.size(1)}), {x, y});
  return y;
}
Tensor row_sum(Tensor x) { return sums_of_matrix("row_sum", "v04_", x, 0); }
Tensor col_sum(Tensor x) { return sums_of_matrix("col_sum", "v13_", x, 1); }
Tensor transpose(Tensor x) {
  check_matrix("transpose", "input", x);
  x = dense(x);
  Tensor y = torch::stable::new_empty(x, {x.size(1), x.size(0)});
  run("transpose", "v06_", by({x.size(0), x.size(1)}), {x, y});
  return y;
}
Tensor mm(Tensor a, Tensor b) {
  check_matrix("mm", "a", a);
  check_matrix("mm", "b", b);
  check_like("mm", "b", b, a);
  check(a.size(1) == b.size(0), "mm", "b", "must have as many rows as a has columns");
  const std::int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  const bool is_16_bit = a.scalar_type() != ScalarType::Float;
  // Rows of 16-bit operands have to begin at multiples of 16 bytes: zeros behind them change nothing.
  const std::int64_t more_n = is_16_bit ? -n & 7 : 0, more_k = is_16_bit ? -k & 7 : 0;
  if (more_k > 0) a = torch::stable::pad(a, {0, more_k});
  if (more_n + more_k > 0) b = torch::stable::pad(b, {0, more_n, 0, more_k});
  a = dense(a), b = dense(b);
  Tensor c = torch::stable::new_empty(a, {m, n + more_n});
  run(is_16_bit ? "gemm_tensor/nn" : "gemm", is_16_bit ? "v13_" : "v20_",
      by({m, n + more_n, k + more_k}), {a, b, c});
  return more_n > 0 ? torch::stable::contiguous(torch::stable::narrow(c, 1, 0, n)) : c;
}

/// BATCHxHEADSxLENGTHxD of what attention is given.
std::string attention_problem(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.dim() == 4, op, "q", "must have the dimensions [batch, heads, length, head size]");
  check(k.dim() == 4 && k.size(0) == q.size(0) && k.size(3) == q.size(3), op, "k",
        "must have q's dimensions but for heads and length");
  check(q.size(3) == 64 || q.size(3) == 128, op, "q", "must have head size 64 or 128");
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0, op, "k", "must have heads that divide q's");
  check_like(op, "k", k, q);
  check_shape(op, "v", v, k);
  check_like(op, "v", v, q);
  const auto two = [](std::int64_t x, std::int64_t y) {
    return std::to_string(x) + (x == y ? "" : ":" + std::to_string(y));
  };
  return std::to_string(q.size(0)) + "x" + two(q.size(1), k.size(1)) + "x" +
         two(q.size(2), k.size(2)) + "x" + std::to_string(q.size(3));
}
std::tuple<Tensor, Tensor> attention(Tensor q, Tensor k, Tensor v, bool is_causal) {
  const std::string problem = attention_problem("attention", q, k, v);
  q = dense(q);
  Tensor o = torch::stable::empty_like(q);
  Tensor lse = torch::stable::new_empty(q, {q.size(0), q.size(1), q.size(2)}, ScalarType::Float);
  const bool few = q.size(1) / k.size(1) * q.size(2) <= 16;  // rows that share a head of keys
  run(is_causal ? "attention/causal" : "attention",
      few               ? "v56_"
      : q.size(3) == 64 ? "v17_"
                        : "v16_",
      problem, {q, dense(k), dense(v), o, lse});
  return {o, lse};
}
std::tuple<Tensor, Tensor, Tensor> attention_backward(Tensor d_o, Tensor q, Tensor k, Tensor v,
                                                      Tensor o, Tensor lse, bool is_causal) {
  const std::string problem = attention_problem("attention_backward", q, k, v);
  check_shape("attention_backward", "grad", d_o, q);
  q = dense(q), k = dense(k), v = dense(v);
  Tensor dq = torch::stable::empty_like(q), dk = torch::stable::empty_like(k);
  Tensor dv = torch::stable::empty_like(v);
  run(is_causal ? "attention/causal_backward" : "attention/backward", "v39b", problem,
      {q, k, v, dense(o), dense(lse), dense(d_o), dq, dk, dv});
  return {dq, dk, dv};
}

/// Any version by its name, on dense tensors as its arrays say.
void run_version(std::string name, std::string problem, std::vector<Tensor> arrays) {
  check(!arrays.empty(), "run", "arrays", "must not be empty");
  for (const Tensor& array : arrays) {
    check(array.is_contiguous() && is_aligned(array), "run", "arrays",
          "must be contiguous and begin at multiples of 256 bytes");
  }
  launch(name, "", true, "", problem, arrays);
}

}  // namespace

STABLE_TORCH_LIBRARY(kernel_ladder, m) {
  m.def("softmax(Tensor input) -> Tensor");
  m.def("log_softmax(Tensor input) -> Tensor");
  m.def("causal_softmax(Tensor input) -> Tensor");
  m.def("softmax_backward(Tensor grad, Tensor output) -> Tensor");
  m.def("log_softmax_backward(Tensor grad, Tensor output) -> Tensor");
  m.def("layer_norm(Tensor input, Tensor weight, Tensor bias) -> Tensor");
  m.def(
      "layer_norm_backward(Tensor grad, Tensor input, Tensor weight) -> (Tensor, Tensor, Tensor)");
  m.def("rms_norm(Tensor input, Tensor weight) -> Tensor");
  m.def("rms_norm_backward(Tensor grad, Tensor input, Tensor weight) -> (Tensor, Tensor)");
  m.def("add_rms_norm(Tensor input, Tensor residual, Tensor weight) -> (Tensor, Tensor)");
  m.def("relu(Tensor input) -> Tensor");
  m.def("gelu(Tensor input) -> Tensor");
  m.def("gelu_tanh(Tensor input) -> Tensor");
  m.def("silu_mul(Tensor gate, Tensor up) -> Tensor");
  m.def("bias_gelu_residual(Tensor input, Tensor bias, Tensor residual) -> Tensor");
  m.def("sum(Tensor input) -> Tensor");
  m.def("row_sum(Tensor input) -> Tensor");
  m.def("col_sum(Tensor input) -> Tensor");
  m.def("transpose(Tensor input) -> Tensor");
  m.def("mm(Tensor a, Tensor b) -> Tensor");
  m.def("attention(Tensor q, Tensor k, Tensor v, bool is_causal=False) -> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
      "bool is_causal) -> (Tensor, Tensor, Tensor)");
  m.def("run(str name, str problem, Tensor(a!)[] arrays) -> ()");
}

#define LADDER_OPERATORS(m)                                         \
  m.impl("softmax", TORCH_BOX(&softmax));                           \
  m.impl("log_softmax", TORCH_BOX(&log_softmax));                   \
  m.impl("causal_softmax", TORCH_BOX(&causal_softmax));             \
  m.impl("softmax_backward", TORCH_BOX(&softmax_backward));         \
  m.impl("log_softmax_backward", TORCH_BOX(&log_softmax_backward)); \
  m.impl("layer_norm", TORCH_BOX(&layer_norm));                     \
  m.impl("layer_norm_backward", TORCH_BOX(&layer_norm_backward));   \
  m.impl("rms_norm", TORCH_BOX(&rms_norm));                         \
  m.impl("rms_norm_backward", TORCH_BOX(&rms_norm_backward));       \
  m.impl("add_rms_norm", TORCH_BOX(&add_rms_norm));                 \
  m.impl("relu", TORCH_BOX(&relu));                                 \
  m.impl("gelu", TORCH_BOX(&gelu));                                 \
  m.impl("gelu_tanh", TORCH_BOX(&gelu_tanh));                       \
  m.impl("silu_mul", TORCH_BOX(&silu_mul));                         \
  m.impl("bias_gelu_residual", TORCH_BOX(&bias_gelu_residual));     \
  m.impl("sum", TORCH_BOX(&sum));                                   \
  m.impl("row_sum", TORCH_BOX(&row_sum));                           \
  m.impl("col_sum", TORCH_BOX(&col_sum));                           \
  m.impl("transpose", TORCH_BOX(&transpose));                       \
  m.impl("mm", TORCH_BOX(&mm));                                     \
  m.impl("attention", TORCH_BOX(&attention));                       \
  m.impl("attention_backward", TORCH_BOX(&attention_backward));     \
  m.impl("run", TORCH_BOX(&run_version))

STABLE_TORCH_LIBRARY_IMPL(kernel_ladder, CPU, m) { LADDER_OPERATORS(m); }
STABLE_TORCH_LIBRARY_IMPL(kernel_ladder, CUDA, m) { LADDER_OPERATORS(m); }

// For kernel_ladder.explain, by ctypes.
extern "C" {
__attribute__((visibility("default"))) void kernel_ladder_count(int on) {
  counts = on != 0;
  counted.clear();
}
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
