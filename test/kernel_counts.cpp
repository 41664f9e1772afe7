#include "kernel_counts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace ladder {
namespace {

// How many times the ideal a kernel's sectors and wavefronts are.
struct Excess {
  double global_load = 1, global_store = 1, shared_load = 1, shared_store = 1;
};

struct Exception {
  const char* kernels;  ///< a regular expression for full names
  Excess excess;
};

// f32: 32 lanes that are 32 floats or more apart touch 32 sectors where 4 hold as many bytes; 16-bit
// types 32 where 2 do.
const Exception kExceptions[] = {
    // 128 keys and head size 64. Scores: of Q all lanes read the same, of K each another row, 64
    // times in each of 4 warps. Values: weights are the same for all, 128 times in each of 2 warps.
    // Softmax: three passes.
    {"attention/.*v01_.*",
     {.global_load =
          (4 * 64 * 33 + 2 * 128 * 3 + 3 * 4 * 4) / (4 * 64 * 3 + 2 * 128 * 3 + 3 * 4 * 4.)}},
    // Of 16 queries: scores, weights, lse one by one; a row of a fragment of o is half a sector.
    {"attention/.*v02_.*",
     {.global_store = (32 * 8 + 64 * 2 + 16 + 16 * 8) / (32 * 8 + 64 * 2 + 16 + 16 * 4.)}},
    // Of 16 queries and two K-tiles: o in fp32, then as above; a maximum and a sum each time, lse.
    // Scores and weights in shared memory are two wavefronts for one, where 160 are ldmatrix's, 4 of
    // two factors, and stores of Q, K, V 64 each; under a causal mask not all scores are read.
    {"attention/bf16/v03_.*",
     {.global_store = (16 * 8 + 16 * 8 + 2 * 4 + 2) / (16 * 8 + 16 * 4 + 2 * 4 + 2.),
      .shared_load = (160 + 2 * 64 + 4) / (160 + 64 + 4.),
      .shared_store = (128 + 2 * (64 + 2 * 256 + 8)) / (128 + 2 * (64 + 2 * 128 + 8.))}},
    {"attention/causal/bf16/v03_.*",
     {.global_store = (16 * 8 + 16 * 8 + 2 * 4 + 2) / (16 * 8 + 16 * 4 + 2 * 4 + 2.),
      .shared_load = 29 / 25.,
      .shared_store = (128 + 2 * (64 + 2 * 256 + 8)) / (128 + 2 * (64 + 2 * 128 + 8.))}},
    {"attention/bf16/v04_.*",
     {.global_store = (16 * 8 + 2) / (16 * 4 + 2.),
      .shared_load = (2 * (160 + 2 * 64 + 2) + 2) / (2 * (160 + 64 + 2) + 2.),
      .shared_store = (64 + 2 * (128 + 2 * 256 + 4) + 4) / (64 + 2 * (128 + 2 * 128 + 4) + 4.)}},
    {"attention/causal/bf16/v04_.*",
     {.global_store = (16 * 8 + 2) / (16 * 4 + 2.),
      .shared_load = 231 / 199.,
      .shared_store = (64 + 2 * (128 + 2 * 256 + 4) + 4) / (64 + 2 * (128 + 2 * 128 + 4) + 4.)}},
    {"attention/.*v(0[5-9]|1[0-7])_.*", {.global_store = (16 * 8 + 2) / (16 * 4 + 2.)}},
    // 128 queries and keys again, for each query. Weights: 4 warps read one of Q and dO and 32 rows of K
    // and V 64 times, and lse, under a causal mask 2.5 of them. Two passes of two rows of fp32. dq: 2
    // warps a word and 32 elements for each key; dk and dv twice that.
    {"attention/backward/.*v30_.*",
     {.global_load = (4 * (2 * 64 * 33 + 1) + 64 + 128 * (2 * 3 + 2 * 6)) /
                     (4 * (2 * 64 * 3 + 1) + 64 + 128 * (2 * 3 + 2 * 6.))}},
    {"attention/causal_backward/.*v30_.*",
     {.global_load = (4 * 2 * 64 * 33 + 2.5 + 64 + 128 * (2 * 3 + 2 * 6)) /
                     (4 * 2 * 64 * 3 + 2.5 + 64 + 128 * (2 * 3 + 2 * 6))}},
    // Of 16 queries and 16 keys a row of a fragment of dq, dk and dv is half a sector; delta one by one.
    {"attention/.*v31_.*", {.global_store = (3 * 16 * 8 + 16) / (3 * 16 * 4 + 16.)}},
    // The same, but dq in whole rows. v34 stores its sums in fp32
    // before, and one counter of 64 queries.
    {"attention/.*v3[23]b?_.*",
     {.global_store = (2 * 16 * 8 + 16 * 4 + 16) / (2 * 16 * 4 + 16 * 4 + 16.)}},
    {"attention/.*v34_.*",
     {.global_store = (2 * 16 * 8 + 3 * 16 * 4 + 16.25) / (2 * 16 * 4 + 3 * 16 * 4 + 16.25)}},
    // Decoding 320 keys of head size 128, four heads in a group. A warp reads 16 keys and values at a
    // time, 256 sectors, five times; once how many keys there are; of Q by one instruction 16 bytes
    // of each of four rows, half a sector, 16 times.
    {"attention/decode/bf16/v52_.*",
     {.global_load = (5 * 256 + 1 + 16 * 4) / (5 * 256 + 1 + 16 * 2.)}},
    // Five parts, of 4 warps. Then a row reads how many keys there are, of five parts twice a maximum
    // and a sum, and two times 256 bytes.
    {"attention/decode/bf16/v5[34]_.*",
     {.global_load = (5 * 4 * (256 + 1 + 16 * 4) + 4 * (1 + 5 * (2 + 16))) /
                     (5 * 4 * (256 + 1 + 16 * 2) + 4 * (1 + 5 * (2 + 16.)))}},
    // Ten tiles, cut into three, three, three and one: four blocks of 4 warps, of which one has to do
    // with two heads of keys. The first four rows are two pieces, the others three.
    {"attention/decode/b?f16/v55_.*",
     {.global_load = (10 * 4 * 256 + 5 * 4 * 16 * 4 + 4 * 4 * 2 + 8 * 2 + 4 * (2 + 3) * 18) /
                     (10 * 4 * 256 + 5 * 4 * 16 * 2 + 4 * 4 * 2 + 8 * 2 + 4 * (2 + 3) * 18.)}},
    // The same parts. Of Q a block reads whole rows. How many keys there are each warp reads twice, and
    // those of one block once more. The maxima and sums of two or three pieces are two or three sectors.
    {"attention/decode/b?f16/v56_.*",
     {.global_load = (10 * 4 * 256 + 5 * 4 * 8 + 4 * 4 * 2 + 4 + 4 * (2 + 3) * 17) /
                     (10 * 4 * 256 + 5 * 4 * 8 + 4 * 4 * 2 + 4 + 4 * (2 + (2 + 3) * 16.))}},
    {"elementwise/relu/f32/v1[02]_.*", {.global_load = 8, .global_store = 8}},
    {"elementwise/relu/f32/v11_.*", {.global_load = 5. / 4, .global_store = 5. / 4}},
    // Of A each lane reads another row, of B all read the same: 32 + 1 sectors for 4 + 1.
    {"gemm/f32/v01_.*", {.global_load = 33. / 5, .global_store = 8}},
    // A thread's 8 x 8 results: its 8 columns are stored one float at a time, or 4. Of B 16 lanes
    // want 16 vectors 32 bytes apart, 8 wavefronts for 4; of A all want two, 2 for 2.
    {"gemm/f32/v05_.*", {.global_store = 8, .shared_load = (8 + 2.) / (4 + 2)}},
    {"gemm/f32/v05b_.*", {.global_store = 2, .shared_load = (8 + 2.) / (4 + 2)}},
    {"gemm/f32/v06_.*",
     {.global_store = 2, .shared_load = (8 + 2.) / (4 + 2), .shared_store = 1.5}},
    // With 4 rows of B, 16 whole sectors each, come half sectors of 16 rows of A.
    {"gemm/f32/v16_.*", {.global_load = (4 * 16 + 16.) / (4 * 16 + 8)}},
    // A row of a fragment of 16-bit C is 16 bytes, half a sector.
    {"gemm_tensor/(nn|nt|tn)/.*/v(02|10|11|12)_.*", {.global_store = 2}},
    // A thread splits 32 bytes of A or B, which it loads as two vectors.
    {"gemm_tensor/nn/f32/v17_.*", {.global_load = 2}},
    // A thread per row: 3 of 5 reads are of x, the others of weight and bias, the same for all.
    {"layernorm/f32/v01_.*", {.global_load = (3 * 16 + 2.) / (3 * 2 + 2), .global_store = 8}},
    {"layernorm/b?f16/v01_.*", {.global_load = (3 * 16 + 2.) / (3 * 1 + 2), .global_store = 16}},
    // The same with 2 of 3, and without bias.
    {"rmsnorm/f32/v01_.*", {.global_load = (2 * 16 + 1.) / (2 * 2 + 1), .global_store = 8}},
    {"rmsnorm/b?f16/v01_.*", {.global_load = (2 * 16 + 1.) / (2 * 1 + 1), .global_store = 16}},
    {"matrix_reduction/row_sum/f32/v01_.*", {.global_load = 8}},
    {"matrix_reduction/row_sum/b?f16/v01_.*", {.global_load = 16}},
    // 16 rows of 1024 columns: a lane per row reads x and dy 6 times (RMSNorm 5), and the weights,
    // which are the same for all, twice; then 32 warps, a lane per column, read 16 rows of both,
    // and the same mean and scale (RMSNorm: only the scale) for all lanes. dx is stored like x, mean
    // and scale 4 bytes each of 8, RMSNorm's scale, dweight and dbias (RMSNorm: only the first) side
    // by side.
    {"layernorm/backward/f32/v30_.*",
     {.global_load = (1024 * (6 * 16 + 2) + 32 * 16 * (4 + 4 + 2)) /
                     (1024 * (6 * 2 + 2) + 32 * 16 * (4 + 4 + 2.)),
      .global_store = (1024 * 16 + 2 * 4 + 32 * 2 * 4) / (1024 * 2 + 2 * 2 + 32 * 2 * 4.)}},
    {"layernorm/backward/b?f16/v30_.*",
     {.global_load = (1024 * (6 * 16 + 2) + 32 * 16 * (2 + 2 + 2)) /
                     (1024 * (6 * 1 + 2) + 32 * 16 * (2 + 2 + 2.)),
      .global_store = (1024 * 16 + 2 * 4 + 32 * 2 * 2) / (1024 * 1 + 2 * 2 + 32 * 2 * 2.)}},
    {"rmsnorm/backward/f32/v30_.*",
     {.global_load = (1024 * (5 * 16 + 2) + 32 * 16 * (4 + 4 + 1)) /
                     (1024 * (5 * 2 + 2) + 32 * 16 * (4 + 4 + 1.)),
      .global_store = (1024 * 16 + 2 + 32 * 4) / (1024 * 2 + 2 + 32 * 4.)}},
    {"rmsnorm/backward/b?f16/v30_.*",
     {.global_load = (1024 * (5 * 16 + 2) + 32 * 16 * (2 + 2 + 1)) /
                     (1024 * (5 * 1 + 2) + 32 * 16 * (2 + 2 + 1.)),
      .global_store = (1024 * 16 + 2 + 32 * 2) / (1024 * 1 + 2 + 32 * 2.)}},
    {"softmax/f32/v01_.*", {.global_load = 8, .global_store = 8}},
    {"softmax/b?f16/v01_.*", {.global_load = 16, .global_store = 16}},
    // Conflicts of 2, 4, 8, 16, 8, 4, 2 ways as the stride doubles and the threads become fewer.
    {"reduction/.*/v02_.*", {.shared_load = 3.8, .shared_store = 2.75}},
    {"transpose/f32/v01_.*", {.global_store = 8}},
    {"transpose/b?f16/v01_.*", {.global_store = 16}},
    {"transpose/f32/v02_.*", {.shared_load = 32}},
    {"transpose/b?f16/v02_.*", {.shared_load = 16}},  // two elements to a bank's word
    // Two accumulators side by side are two stores, also of nvcc.
    {"roofs/wgmma.*/v01_.*", {.global_store = 2}},
    // After a vector of indices four loads, each of 32 sectors.
    {"roofs/gather/f32/v01_.*", {.global_load = (16 + 4 * 32) / (16 + 4 * 4.)}},
    // The chain of pointers is laid out before it is followed.
    {"roofs/latency_l[12]/f32/v01_.*", {.global_store = 513. / 129}},
    {"roofs/latency_shared/f32/v01_.*", {.shared_store = 32}},
};

// The versions of the suite, whose counts are pinned: but for the exceptions they are ideal.
const std::regex kPinned(
    "attention/.*v(0[1-9]|1[0-7]|3[0-9]|33b|39b|40|5[0-6])_.*|"
    "elementwise/.*v(0[1-9]|1[0-3]|2[0-4]|30)_.*|"
    "gemm/.*v(0[1-9]|05b|09[bc]|1[0-8]|20)_.*|"
    "gemm_tensor/.*v(0[2-4]|1[0-9]|2[0-7]|27[bc])_.*|"
    "layernorm/.*v(0[1-9]|1[0-3]|2[0-2]|3[0-6]|35b)_.*|"
    "matrix_reduction/.*v(0[1-6]|1[1-4])_.*|"
    "reduction/.*v(0[1-9]|1[0-6]|20|30|40)_.*|"
    "rmsnorm/.*v(0[1468]|1[14]|2[12]|3[026])_.*|"
    "roofs/.*v0[1-4]_.*|"
    "softmax/.*v(0[1-9]|04[bc]|08[bcd]|1[0-3]|10[bcd]|2[0-2]|3[0-5])_.*|"
    "transpose/.*v(0[1-9]|1[01])_.*");

bool is_pinned(const Kernel& kernel) { return std::regex_match(full_name(kernel), kPinned); }

Excess expected_excess(const std::string& name) {
  for (const Exception& exception : kExceptions) {
    if (std::regex_match(name, std::regex(exception.kernels))) return exception.excess;
  }
  return {};
}

TEST(Counts, OfAllVersionsArePinned) {
  std::set<std::string> versions;
  for (const Kernel& kernel : open_host_device()->kernels()) {
    if (!is_pinned(kernel)) versions.insert(fmt::format("{} {}", kernel.family, label(kernel)));
  }
  if (!versions.empty()) {
    GTEST_SKIP() << "counts that test/kernel_counts.cpp does not pin: "
                 << fmt::to_string(fmt::join(versions, ", "));
  }
}

TEST(Exceptions, AreOfKernelsThatExist) {
  const auto device = open_host_device();
  for (const Exception& exception : kExceptions) {
    const std::string_view all = exception.kernels, name = all.substr(0, all.find('/'));
    if (!std::ranges::count(families(), name, &Family::name)) continue;  // this build lacks it
    const std::regex pattern(exception.kernels);
    EXPECT_TRUE(std::any_of(
        device->kernels().begin(), device->kernels().end(),
        [&](const Kernel& kernel) { return std::regex_match(full_name(kernel), pattern); }))
        << exception.kernels;
  }
}

/// Their blocks wait for others: how often one looks depends on the order of the blocks.
const std::regex kWaiting("(reduction/.*/v1[56]|gemm_tensor/.*/v2[056])_.*|.*split_rows");

void print(const Kernel& kernel, const Problem& problem, const Counters& counters) {
  fmt::print(
      "{} {}, against the ideal: global loads {:.3g}x, global stores {:.3g}x, "
      "shared loads {:.3g}x, shared stores {:.3g}x\n",
      full_name(kernel), problem.text(), counters.global_load.excess(),
      counters.global_store.excess(), counters.shared_load.excess(),
      counters.shared_store.excess());
}

}  // namespace

void expect_counts(const Kernel& kernel, Device& device, unsigned another_order) {
  const Family& family = family_of(kernel);
  std::vector<Problem> problems = family.bench_problems(Backend::host);
  std::ranges::move(family.test_problems(), std::back_inserter(problems));
  const auto problem =
      std::ranges::find_if(problems, [&](const Problem& one) { return supports(kernel, one).ok; });
  ASSERT_NE(problem, problems.end());
  const auto workload = family.open(*problem, kernel.dtype, family.input_sets().front(), 1, device);
  const auto counted = [&](unsigned order) {
    device.set_lane_order(order);
    return device.count(kernel, workload->prepare(kernel).call);
  };
  const std::optional<Counters> found = counted(0);
  if (!found) return;  // under AddressSanitizer
  const Counters& counters = *found;
  if (!is_pinned(kernel)) {
    print(kernel, *problem, counters);
    return;
  }
  EXPECT_GT(
      counters.global_store.requests + counters.global_atomic.requests + counters.bulk_store.copies,
      0u);

  if (!family.gathers) {
    const Excess expected = expected_excess(full_name(kernel));
    EXPECT_NEAR(counters.global_load.excess(), expected.global_load, 1e-6);
    EXPECT_NEAR(counters.global_store.excess(), expected.global_store, 1e-6);
    EXPECT_NEAR(counters.shared_load.excess(), expected.shared_load, 1e-6);
    EXPECT_NEAR(counters.shared_store.excess(), expected.shared_store, 1e-6);
    EXPECT_NEAR(counters.shared_atomic.excess(), 1, 1e-6);
  }
  if (std::regex_match(full_name(kernel), kWaiting)) return;
  EXPECT_TRUE(counted(another_order) == counters) << "other counts in lane order " << another_order;
}

}  // namespace ladder
