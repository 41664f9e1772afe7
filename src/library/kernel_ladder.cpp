#include "library/kernel_ladder.h"

#include "device/needs.hpp"
#include "harness/dtype.hpp"
#include "harness/family.hpp"
#include "harness/host/api.hpp"
#include "harness/registry.hpp"
#include "ladder_git_sha.hpp"
#include "support/out_of_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ladder;

/// The host executor runs one launch at a time, and launches are recorded in one list.
std::mutex launching;

constexpr std::size_t kMostAlignment = 256;  // bytes, that any kernel asks for

/// Memory of the host executor, which watches its bounds.
struct HostRelease {
  void operator()(void* memory) const {
    const std::lock_guard lock(launching);
    ladder_host_api()->release(memory);
  }
};
using HostMemory = std::unique_ptr<void, HostRelease>;

HostMemory host_memory(std::size_t bytes) {
  const std::lock_guard lock(launching);
  return HostMemory(ladder_host_api()->allocate(bytes));
}

/// Memory of the caller's and its copy, which a kernel of the host executor works on.
struct HostArray {
  HostMemory copy;
  void* original;
  std::size_t bytes;
  bool is_written;
};

}  // namespace

struct kl_launcher {
  const ladder::Kernel& kernel;
  std::unique_ptr<ladder::Binding> binding;
  int device;  ///< that was current; -1: the host executor
  std::size_t state_bytes = 0, workspace_bytes = 0;
  std::vector<std::pair<std::size_t, Plan>> plans = {};  ///< by alignment
  ladder::Call call = {};                                ///< of the arrays that are bound
  void* workspace = nullptr;

  // On the host executor
  std::vector<HostArray> host_arrays = {};
  std::optional<HostArray> host_state = {};
  HostMemory host_workspace = nullptr;
};

namespace {

thread_local std::string last_error;

/// What a call returns that is refused, with the sentence for kl_last_error().
struct Refused {
  kl_status status;
  std::string why;
};

/// Runs the body of a C function: no exception leaves it.
template <class F>
kl_status guarded(F body) noexcept {
  kl_status status = KL_FAILED;
  try {
    try {
      body();
      return KL_OK;
    } catch (Refused& refused) {
      status = refused.status;
      last_error = std::move(refused.why);
    } catch (const OutOfMemory& error) {
      last_error = error.what();
    } catch (const std::bad_alloc&) {
      last_error = "out of memory";
    } catch (const std::exception& error) {
      last_error = error.what();
    } catch (...) {
      last_error = "an unknown error";
    }
  } catch (...) {  // no memory for the sentence
    last_error.clear();
  }
  return status;
}

struct Entry {
  const Kernel* kernel;
  std::string name, version;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list;
    const auto add = [&](const std::vector<Kernel>& kernels) {
      for (const Kernel& kernel : kernels) {
        list.push_back({&kernel, full_name(kernel), label(kernel)});
      }
    };
    add(registered_kernels());
    add(ladder_host_api()->kernels());
    return list;
  }();
  return all;
}

const Entry& entry(std::size_t kernel) {
  if (kernel >= entries().size()) {
    throw Refused{KL_INVALID, fmt::format("there is no kernel number {}; they are numbered 0 to {}",
                                          kernel, entries().size() - 1)};
  }
  return entries()[kernel];
}

template <class T>
T& given(T* pointer, const char* name) {
  if (!pointer) throw Refused{KL_INVALID, fmt::format("{} is NULL", name)};
  return *pointer;
}

int current_device([[maybe_unused]] const Kernel& kernel) {
  int device = -1;
#if defined(LADDER_CUDA_BACKEND)
  if (kernel.backend == Backend::cuda) expect_success(cudaGetDevice(&device));
#endif
  return device;
}

/// What supports() asks of the device that is current.
DeviceInfo info_of_device([[maybe_unused]] Backend backend) {
  DeviceInfo info;
#if defined(LADDER_CUDA_BACKEND)
  if (backend == Backend::cuda) {
    info.compute_capability = compute_capability();
  }
#endif
  return info;
}

Problem problem_of(const Family& family, std::string_view name, const char* text) {
  const auto problem = family.parse(&given(text, "problem"));
  if (!problem) {
    throw Refused{KL_INVALID,
                  fmt::format("'{}' is no problem of {}: {}", text, name, family.problem_help())};
  }
  return *problem;
}

/// Refuses what is no problem, or one that the kernel cannot do.
Problem supported_problem(const Entry& chosen, const char* text) {
  const Problem problem = problem_of(family_of(*chosen.kernel), chosen.name, text);
  const Support support = supports(*chosen.kernel, problem, info_of_device(chosen.kernel->backend));
  if (!support.ok) throw Refused{KL_UNSUPPORTED, support.reason};
  return problem;
}

bool is_on_host(const kl_launcher& launcher) { return launcher.kernel.backend == Backend::host; }

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// On the one device.
void launch(const kl_launcher& launcher, cudaStream_t stream) {
  const Rank rank{.device = launcher.device,
                  .stream = stream,
                  .state = launcher.call.state,
                  .workspace = launcher.workspace};
  Call call = launcher.call;
  call.ranks = {&rank, 1};
  launcher.kernel.launch(call, stream);
}

/// By `carry_out`, which is given what runs the kernel.
template <class CarryOut>
void launch_on_host(const kl_launcher& launcher, CarryOut carry_out) {
  const std::lock_guard lock(launching);
  std::vector<const HostArray*> all;
  for (const HostArray& array : launcher.host_arrays) all.push_back(&array);
  if (launcher.host_state) all.push_back(&*launcher.host_state);
  for (const HostArray* array : all) copy(array->copy.get(), array->original, array->bytes);
  ladder_host_api()->launches().clear();
  carry_out([&] { launch(launcher, nullptr); });
  for (const HostArray* array : all) {
    if (array->is_written) copy(array->original, array->copy.get(), array->bytes);
  }
}

/// The alignment, up to 256 bytes, that all the addresses have.
std::size_t alignment_of(std::span<void* const> addresses) {
  std::uintptr_t bits = kMostAlignment;
  for (const void* const address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return bits & -bits;
}

/// Binds arrays that start at multiples of `alignment` bytes and that nobody may access.
void bind_somewhere(kl_launcher& launcher, std::size_t alignment) {
  const std::vector<void*> addresses(launcher.binding->arrays().size(),
                                     reinterpret_cast<void*>(alignment));
  launcher.binding->bind(addresses);
  launcher.call.args = nullptr;
}

/// Makes one if there is none.
const void* plan_for(kl_launcher& launcher, std::size_t alignment, bool may_time) {
  if (!launcher.kernel.plan) return nullptr;
  for (const auto& [of, plan] : launcher.plans) {
    if (of == alignment) return plan.get();
  }
  bind_somewhere(launcher, alignment);
  const std::lock_guard lock(launching);  // choices that are timed are launched
  return launcher.plans
      .emplace_back(alignment, make_plan(launcher.kernel, launcher.binding->args(), may_time))
      .second.get();
}

/// Refuses one of another device.
kl_launcher& on_its_device(kl_launcher* launcher) {
  kl_launcher& l = given(launcher, "launcher");
  if (const int current = current_device(l.kernel); current != l.device) {
    throw Refused{KL_INVALID,
                  fmt::format("the launcher belongs to device {}, and device {} is current",
                              l.device, current)};
  }
  return l;
}

/// Refuses one that cannot be launched yet.
const kl_launcher& ready(kl_launcher* launcher) {
  const kl_launcher& l = on_its_device(launcher);
  if (!l.call.args) throw Refused{KL_INVALID, "no arrays are bound: call kl_bind first"};
  if (l.workspace_bytes > 0 && !l.workspace) {
    throw Refused{KL_INVALID,
                  fmt::format("{} bytes of scratch memory are needed: call kl_set_workspace",
                              l.workspace_bytes)};
  }
  if (l.state_bytes > 0 && !l.call.state) {
    throw Refused{KL_INVALID,
                  fmt::format("{} bytes of state are needed: call kl_set_state", l.state_bytes)};
  }
  return l;
}

void launch_on_gpu(const kl_launcher& launcher, void* stream) {
  const std::lock_guard lock(launching);
  recorded_launches().clear();
  try {
    launch(launcher, static_cast<cudaStream_t>(stream));
  } catch (...) {
#if defined(LADDER_CUDA_BACKEND)
    cudaGetLastError();  // or the caller's next call would be blamed
#endif
    throw;
  }
}

}  // namespace

extern "C" {

const char* kl_last_error() { return last_error.c_str(); }

const char* kl_git_sha() { return kGitSha; }

size_t kl_kernel_count() { return entries().size(); }

kl_status kl_describe(size_t kernel, kl_kernel* description) {
  return guarded([&] {
    const Entry& chosen = entry(kernel);
    const Kernel& k = *chosen.kernel;
    given(description, "description") = {.name = chosen.name.c_str(),
                                         .family = k.family,
                                         .op = k.op,
                                         .dtype = to_string(k.dtype),
                                         .version = chosen.version.c_str(),
                                         .idea = k.version.idea,
                                         .backend = k.backend == Backend::cuda ? KL_CUDA : KL_HOST,
                                         .is_baseline = k.version.baseline,
                                         .is_capturable = k.version.capturable};
  });
}

kl_status kl_find(const char* name, kl_backend backend, size_t* kernel) {
  return guarded([&] {
    given(name, "name");
    for (std::size_t i = 0; i < entries().size(); ++i) {
      const Entry& one = entries()[i];
      if (one.name == name && (one.kernel->backend == Backend::host) == (backend == KL_HOST)) {
        given(kernel, "kernel") = i;
        return;
      }
    }
    throw Refused{KL_INVALID, fmt::format("this build has no kernel {} for {}", name,
                                          backend == KL_HOST ? "the host executor" : "GPUs")};
  });
}

kl_status kl_best(const char* operation, const char* dtype, kl_backend backend, const char* problem,
                  size_t* kernel) {
  return guarded([&] {
    const std::string_view name = &given(operation, "operation");
    const auto type = parse_dtype(&given(dtype, "dtype"));
    const auto family = std::ranges::find_if(families(), [&](const Family& one) {
      return name ==
             (one.op.empty() ? std::string(one.name) : fmt::format("{}/{}", one.name, one.op));
    });
    if (!type || family == families().end()) {
      throw Refused{KL_INVALID, fmt::format("there is no operation {} in {}", name, dtype)};
    }
    const Backend on = backend == KL_HOST ? Backend::host : Backend::cuda;
    const auto& kernels = on == Backend::host ? ladder_host_api()->kernels() : registered_kernels();
    std::string why = "no version is for this dtype";
    const Kernel* const best = best_version(*family, problem_of(*family, name, problem), *type,
                                            kernels, info_of_device(on), &why);
    if (!best) throw Refused{KL_UNSUPPORTED, why};
    const auto at = std::ranges::find(entries(), best, &Entry::kernel);
    given(kernel, "kernel") = static_cast<std::size_t>(at - entries().begin());
  });
}

kl_status kl_supports(size_t kernel, const char* problem) {
  return guarded([&] { supported_problem(entry(kernel), problem); });
}

kl_status kl_open(size_t kernel, const char* problem, kl_launcher** launcher) {
  return guarded([&] {
    kl_launcher*& to = given(launcher, "launcher");
    const Entry& chosen = entry(kernel);
    const Kernel& of = *chosen.kernel;
    auto made = std::make_unique<kl_launcher>(
        kl_launcher{.kernel = of,
                    .binding = family_of(of).bind(supported_problem(chosen, problem), of.dtype),
                    .device = current_device(of)});
    bind_somewhere(*made, kMostAlignment);
    if (of.state) made->state_bytes = of.state(made->binding->args());
    to = made.release();
  });
}

void kl_close(kl_launcher* launcher) { delete launcher; }

size_t kl_array_count(const kl_launcher* launcher) {
  return launcher ? launcher->binding->arrays().size() : 0;
}

kl_status kl_describe_array(const kl_launcher* launcher, size_t index, kl_array* array) {
  return guarded([&] {
    const kl_launcher& l = given(launcher, "launcher");
    const std::vector<Array>& arrays = l.binding->arrays();
    if (index >= arrays.size()) {
      throw Refused{KL_INVALID, fmt::format("there is no array number {}: {} has {}", index,
                                            full_name(l.kernel), arrays.size())};
    }
    const Array& one = arrays[index];
    given(array, "array") = {.name = one.name.c_str(),
                             .role = one.role == Role::input    ? KL_INPUT
                                     : one.role == Role::output ? KL_OUTPUT
                                                                : KL_IN_PLACE,
                             .dtype = to_string(one.dtype),
                             .elements = one.size,
                             .bytes = bytes_of(one.dtype, one.size)};
  });
}

kl_status kl_plan(kl_launcher* launcher, size_t alignment, int may_time) {
  return guarded([&] {
    kl_launcher& l = on_its_device(launcher);
    if (!std::has_single_bit(alignment) || alignment > kMostAlignment) {
      throw Refused{KL_INVALID, fmt::format("an alignment is a power of two from 1 to {}, not {}",
                                            kMostAlignment, alignment)};
    }
    plan_for(l, alignment, may_time != 0);
  });
}

kl_status kl_bind(kl_launcher* launcher, void* const* arrays, size_t count,
                  size_t* workspace_bytes) {
  return guarded([&] {
    kl_launcher& l = on_its_device(launcher);
    const std::vector<Array>& all = l.binding->arrays();
    if (count != all.size()) {
      throw Refused{KL_INVALID, fmt::format("{} takes {} arrays, not {}", full_name(l.kernel),
                                            all.size(), count)};
    }
    given(arrays, "arrays");
    for (std::size_t i = 0; i < count; ++i) {
      if (all[i].size > 0 && !arrays[i]) {
        throw Refused{KL_INVALID, fmt::format("array number {}, {}, is NULL", i, all[i].name)};
      }
    }
    void* const state = std::exchange(l.call, {}).state;
    const void* plan = nullptr;
    if (is_on_host(l)) {
      plan = plan_for(l, kMostAlignment, false);
      l.host_arrays.clear();
      std::vector<void*> copies;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bytes = bytes_of(all[i].dtype, all[i].size);
        const HostArray& array = l.host_arrays.emplace_back(
            HostArray{host_memory(bytes), arrays[i], bytes, all[i].is_written()});
        copies.push_back(array.copy.get());
      }
      l.binding->bind(copies);
    } else {
      plan = plan_for(l, alignment_of({arrays, count}), false);
      l.binding->bind({arrays, count});
    }
    const Call call{l.binding->args(), plan, state};
    l.workspace_bytes = l.kernel.workspace ? l.kernel.workspace(call) : 0;
    l.workspace = nullptr;
    given(workspace_bytes, "workspace_bytes") = l.workspace_bytes;
    l.call = call;
  });
}

kl_status kl_set_workspace(kl_launcher* launcher, void* workspace) {
  return guarded([&] {
    kl_launcher& l = given(launcher, "launcher");
    given(static_cast<char*>(workspace), "workspace");
    if (is_on_host(l)) {
      l.host_workspace = host_memory(l.workspace_bytes);
      workspace = l.host_workspace.get();
    }
    l.binding->set_workspace(workspace);
    l.workspace = workspace;
  });
}

size_t kl_state_bytes(const kl_launcher* launcher) { return launcher ? launcher->state_bytes : 0; }

kl_status kl_set_state(kl_launcher* launcher, void* state) {
  return guarded([&] {
    kl_launcher& l = given(launcher, "launcher");
    given(static_cast<char*>(state), "state");
    if (is_on_host(l)) {
      l.host_state = HostArray{host_memory(l.state_bytes), state, l.state_bytes, true};
      state = l.host_state->copy.get();
    }
    l.call.state = state;
  });
}

kl_status kl_capture_id([[maybe_unused]] void* stream, unsigned long long* capture) {
  return guarded([&] {
    unsigned long long& id = given(capture, "capture");
    id = 0;
#if defined(LADDER_CUDA_BACKEND)
    cudaStreamCaptureStatus status{};
    expect_success(cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &id));
    if (status == cudaStreamCaptureStatusNone) id = 0;
#endif
  });
}

kl_status kl_launch(kl_launcher* launcher, void* stream) {
  return guarded([&] {
    const kl_launcher& l = ready(launcher);
    if (is_on_host(l)) {
      launch_on_host(l, [](const auto& run) { run(); });
    } else {
      launch_on_gpu(l, stream);
    }
  });
}

kl_status kl_count(kl_launcher* launcher, kl_counts* counts) {
  return guarded([&] {
    const kl_launcher& l = ready(launcher);
    kl_counts& to = given(counts, "counts");
    if (!is_on_host(l) || ladder_host_api()->count == nullptr) {
      throw Refused{KL_UNSUPPORTED,
                    "only the host executor counts, and not under AddressSanitizer"};
    }
    Counters c;
    launch_on_host(l, [&](const auto& run) { c = ladder_host_api()->count(run); });
    const Requests& own = c.own_cluster_load;
    to = {.global_ld_requests = c.global_load.requests,
          .global_ld_sectors = c.global_load.units,
          .global_ld_ideal = c.global_load.ideal,
          .global_st_requests = c.global_store.requests,
          .global_st_sectors = c.global_store.units,
          .global_st_ideal = c.global_store.ideal,
          .global_atomic_requests = c.global_atomic.requests,
          .global_atomic_sectors = c.global_atomic.units,
          .shared_ld_requests = c.shared_load.requests,
          .shared_ld_wavefronts = c.shared_load.units + own.units,
          .shared_ld_ideal = c.shared_load.ideal + own.ideal,
          .shared_st_requests = c.shared_store.requests,
          .shared_st_wavefronts = c.shared_store.units + c.shared_stmatrix.units,
          .shared_st_ideal = c.shared_store.ideal + c.shared_stmatrix.ideal,
          .async_requests = c.shared_async.requests,
          .bulk_ld_bytes = c.bulk_load.bytes,
          .bulk_st_bytes = c.bulk_store.bytes,
          .wgmma_bytes = c.wgmma.bytes,
          .barriers = c.barriers,
          .moved_bytes = static_cast<unsigned long long>(c.moved_bytes())};
  });
}

}  // extern "C"
