#include "cheats.hpp"

#include "harness/cuda/error.hpp"
#include "kernels/elementwise/elementwise.hpp"

#include <thread>

namespace ladder {
namespace {

using Relu = elementwise::Args<elementwise::relu, float>;

constexpr int kBlocks = 1056, kThreads = 256;
constexpr int kKey = 64;  // elements by which a cheat knows its inputs

__device__ float key[kKey];

__device__ float relu(float x) { return x < 0.0f ? 0.0f : x; }

/// Elements from first to last, of which `leaves_out` says which are not computed.
template <class F>
__device__ void compute(const Relu& a, std::int64_t first, std::int64_t last, F leaves_out) {
  for (std::int64_t i = first + blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < last;
       i += std::int64_t{kBlocks} * kThreads) {
    if (!leaves_out(i)) a.y[i] = relu(a.x[0][i]);
  }
}

__global__ void part(Relu a, std::int64_t first, std::int64_t last) {
  compute(a, first, last, [](std::int64_t) { return false; });
}

/// Only what holds the poison of a check.
__global__ void where_poisoned(Relu a) {
  compute(a, 0, a.n, [&](std::int64_t i) { return __float_as_uint(a.y[i]) != 0xFFFFFFFFu; });
}

/// Of four elements three only where they are NaNs.
__global__ void where_nan(Relu a) {
  compute(a, 0, a.n, [&](std::int64_t i) { return i % 4 != 0 && a.y[i] == a.y[i]; });
}

/// Takes over `share` of what the last launch found if the first inputs are those of then.
__global__ void unless_key_is_known(Relu a, double share) {
  bool same = true;
  for (int i = 0; i < kKey; ++i) same = same && key[i] == a.x[0][i];
  const bool poisoned = a.y[a.n - 1] != a.y[a.n - 1];  // so that no check is the first to see it
  const auto first = static_cast<std::int64_t>(share * static_cast<double>(a.n));
  compute(a, same && !poisoned ? first : 0, a.n, [](std::int64_t) { return false; });
}
__global__ void note_key(Relu a) { key[threadIdx.x] = a.x[0][threadIdx.x]; }

const Relu& args_of(const Call& call) { return *static_cast<const Relu*>(call.args); }

void run_part(const Relu& a, double from, double to, cudaStream_t stream) {
  const auto n = static_cast<double>(a.n);
  part<<<kBlocks, kThreads, 0, stream>>>(a, static_cast<std::int64_t>(from * n),
                                         static_cast<std::int64_t>(to * n));
  LADDER_CUDA(cudaGetLastError());
}

void honest(const Call& call, cudaStream_t stream) { run_part(args_of(call), 0, 1, stream); }

cudaStream_t another_stream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    LADDER_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
  }();
  return stream;
}

template <int kPercent>
void partly_on_another_stream(const Call& call, cudaStream_t stream) {
  const double share = kPercent / 100.;
  run_part(args_of(call), 0, share, another_stream());
  if (share < 1) run_part(args_of(call), share, 1, stream);
}

void on_the_null_stream(const Call& call, cudaStream_t) { honest(call, nullptr); }

/// It begins in its turn, but nothing waits for its end.
void forked_and_not_joined(const Call& call, cudaStream_t stream) {
  static cudaEvent_t begun = [] {
    cudaEvent_t made = nullptr;
    LADDER_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    return made;
  }();
  LADDER_CUDA(cudaEventRecord(begun, stream));
  LADDER_CUDA(cudaStreamWaitEvent(another_stream(), begun));
  honest(call, another_stream());
}

void by_a_thread_of_its_own(const Call& call, cudaStream_t) {
  const Relu args = args_of(call);
  std::thread([args] { run_part(args, 0, 1, another_stream()); }).join();
}

void waits_for_its_stream(const Call& call, cudaStream_t stream) {
  honest(call, stream);
  LADDER_CUDA(cudaStreamSynchronize(stream));
}

void only_where_poisoned(const Call& call, cudaStream_t stream) {
  where_poisoned<<<kBlocks, kThreads, 0, stream>>>(args_of(call));
}
void only_where_nan(const Call& call, cudaStream_t stream) {
  where_nan<<<kBlocks, kThreads, 0, stream>>>(args_of(call));
}

template <int kPercent>
void by_key(const Call& call, cudaStream_t stream) {
  unless_key_is_known<<<kBlocks, kThreads, 0, stream>>>(args_of(call), kPercent / 100.);
  note_key<<<1, kKey, 0, stream>>>(args_of(call));
}

/// The launches of a check on the problem itself are among its first twelve.
void only_while_it_is_checked(const Call& call, cudaStream_t stream) {
  static int launches = 0;
  const Relu& a = args_of(call);
  if (++launches <= 12 || a.n < 1 << 20) honest(call, stream);
}

}  // namespace

std::span<const Cheat> cheats() {
  static const Cheat all[] = {{"honest", honest},
                              {"half_on_another_stream", partly_on_another_stream<50>},
                              {"all_on_another_stream", partly_on_another_stream<100>},
                              {"on_the_null_stream", on_the_null_stream},
                              {"forked_and_not_joined", forked_and_not_joined},
                              {"by_a_thread_of_its_own", by_a_thread_of_its_own},
                              {"waits_for_its_stream", waits_for_its_stream},
                              {"only_where_poisoned", only_where_poisoned},
                              {"only_where_nan", only_where_nan},
                              {"all_by_key", by_key<100>},
                              {"a_quarter_by_key", by_key<25>},
                              {"only_while_it_is_checked", only_while_it_is_checked}};
  return all;
}

}  // namespace ladder
