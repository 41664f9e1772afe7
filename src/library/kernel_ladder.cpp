#include "library/kernel_ladder.h"

#include "device/needs.hpp"
#include "harness/family.hpp"
#include "harness/host/api.hpp"
#include "harness/registry.hpp"
#include "ladder_git_sha.hpp"
#include "support/out_of_memory.hpp"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ladder;

/// The host executor runs one launch at a time, and launches are recorded in one list.
std::mutex launching;

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

/// An array of the caller's and its copy, which a kernel of the host executor works on.
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
  std::size_t workspace_bytes = 0;
  bool is_bound = false, has_workspace = false;

  // On the host executor
  std::vector<HostArray> host_arrays = {};
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

/// What supports() asks of the device that a kernel would run on.
DeviceInfo current_device([[maybe_unused]] const Kernel& kernel) {
  DeviceInfo info;
#if defined(LADDER_CUDA_BACKEND)
  if (kernel.backend == Backend::cuda) {
    info.compute_capability = 10 * attribute_of_device(cudaDevAttrComputeCapabilityMajor) +
                              attribute_of_device(cudaDevAttrComputeCapabilityMinor);
  }
#endif
  return info;
}

/// Refuses what is no problem, or one that the kernel cannot do.
Problem supported_problem(const Entry& chosen, const char* text) {
  const Family& family = family_of(*chosen.kernel);
  const auto problem = family.parse(&given(text, "problem"));
  if (!problem) {
    throw Refused{KL_INVALID, fmt::format("'{}' is no problem of {}: {}", text, chosen.name,
                                          family.problem_help)};
  }
  const Support support = supports(*chosen.kernel, *problem, current_device(*chosen.kernel));
  if (!support.ok) throw Refused{KL_UNSUPPORTED, support.reason};
  return *problem;
}

bool is_on_host(const kl_launcher& launcher) { return launcher.kernel.backend == Backend::host; }

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// By `launch`, which is given what runs the kernel.
template <class Launch>
void launch_on_host(const kl_launcher& launcher, Launch launch) {
  const std::lock_guard lock(launching);
  for (const HostArray& array : launcher.host_arrays) {
    copy(array.copy.get(), array.original, array.bytes);
  }
  ladder_host_api()->launches().clear();
  launch([&] { launcher.kernel.launch(launcher.binding->args(), nullptr); });
  for (const HostArray& array : launcher.host_arrays) {
    if (array.is_written) copy(array.original, array.copy.get(), array.bytes);
  }
}

/// Refuses one that cannot be launched yet.
const kl_launcher& ready(kl_launcher* launcher) {
  const kl_launcher& l = given(launcher, "launcher");
  if (!l.is_bound) throw Refused{KL_INVALID, "no arrays are bound: call kl_bind first"};
  if (l.workspace_bytes > 0 && !l.has_workspace) {
    throw Refused{KL_INVALID,
                  fmt::format("{} bytes of scratch memory are needed: call kl_set_workspace",
                              l.workspace_bytes)};
  }
  return l;
}

void launch_on_gpu(const kl_launcher& launcher, void* stream) {
  const std::lock_guard lock(launching);
  recorded_launches().clear();
  try {
    launcher.kernel.launch(launcher.binding->args(), static_cast<cudaStream_t>(stream));
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

kl_status kl_supports(size_t kernel, const char* problem) {
  return guarded([&] { supported_problem(entry(kernel), problem); });
}

kl_status kl_open(size_t kernel, const char* problem, kl_launcher** launcher) {
  return guarded([&] {
    kl_launcher*& to = given(launcher, "launcher");
    const Entry& chosen = entry(kernel);
    const Kernel& of = *chosen.kernel;
    to = new kl_launcher{
        .kernel = of, .binding = family_of(of).bind(supported_problem(chosen, problem), of.dtype)};
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
                             .bytes = one.size * size_of(one.dtype)};
  });
}

kl_status kl_bind(kl_launcher* launcher, void* const* arrays, size_t count,
                  size_t* workspace_bytes) {
  return guarded([&] {
    kl_launcher& l = given(launcher, "launcher");
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
    l.is_bound = false;
    if (is_on_host(l)) {
      l.host_arrays.clear();
      std::vector<void*> copies;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bytes = all[i].size * size_of(all[i].dtype);
        const HostArray& array = l.host_arrays.emplace_back(
            HostArray{host_memory(bytes), arrays[i], bytes, all[i].is_written()});
        copies.push_back(array.copy.get());
      }
      l.binding->bind(copies);
    } else {
      l.binding->bind({arrays, count});
    }
    l.workspace_bytes = l.kernel.workspace ? l.kernel.workspace(l.binding->args()) : 0;
    l.has_workspace = false;
    given(workspace_bytes, "workspace_bytes") = l.workspace_bytes;
    l.is_bound = true;
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
    l.has_workspace = true;
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
