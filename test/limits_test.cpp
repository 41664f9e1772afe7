// Every kernel of the host executor on problems whose numbers do not fit 32 bits: more than 2^31 and
// 2^32 elements, more tiles than a grid has along y. What `supports` allows must run.
//
// Such arrays are address space: of the inputs a few megabytes repeat, the outputs' pages exist where
// something was written. Of each launch the blocks at the edges of the grid run, and those around
// element and byte 2^31 and 2^32, with every access checked. An index that overflows is out of
// bounds, or it writes what another of these blocks writes, or the results are wrong: some of them
// are compared with the ladder's first version on the same rows and columns of the inputs, attention's
// with what they are by definition.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "harness/family.hpp"
#include "harness/host/api.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/attention/decode.hpp"

namespace ladder {
namespace {

constexpr std::size_t kPage = 4096;
/// Of an input of so many bytes, in bytes; 2^32 is no multiple. A process has 65530 mappings.
constexpr std::size_t period_of(std::size_t bytes) {
  constexpr std::size_t kPeriod = 6 << 20, kMostMappings = 8192;
  return bytes / kPeriod < kMostMappings ? kPeriod : 24 * kPeriod;
}
constexpr unsigned kSeconds = 300;  // for a problem

/// The more blocks, the less work each of them has. Hopper's versions are persistent: on so many
/// SMs a block has one tile or row, and those at the edges of the grid have the matrix's. Of a norm's
/// backward operation the blocks' sums have to be added, so there can't be as many.
int sm_count_for(const Kernel& kernel, std::size_t elements) {
  if (std::string_view(kernel.file).ends_with(".sm90a.cu")) {
    return std::string_view(kernel.family).ends_with("norm") &&
                   kernel.op == std::string_view("backward")
               ? 1 << 16
               : 1 << 30;
  }
  return elements >> 35 ? 1 << 16 : 1 << 12;
}

// --- Problems ------------------------------------------------------------------------------------

using Value = double (*)(std::uint64_t bits, const Array&);

/// So that results are not 0; no integers, as the first versions add millions one after the other, and
/// an odd square is rounded down each time once the sum is 2^24.
double one_to_eight(std::uint64_t bits, const Array&) {
  return 1 + 7 * 0x1p-32 * static_cast<double>(bits >> 32);
}

/// So small that a product with the sum of a row of 2^20 is finite in fp16
double small(std::uint64_t bits, const Array& array) { return 0x1p-10 * one_to_eight(bits, array); }

/// Of attention: scores whose weights differ. The rest of a backward operation is 0, as it is where a
/// launch before has not made of it what it makes.
double of_attention(std::uint64_t bits, const Array& array) {
  if (array.name == "o" || array.name == "lse") return 0;
  return (array.name == "q" ? 6 : 1) * uniform(bits);
}

/// An operation's arrays, by their dimensions: rows and columns of the output are r and c, k is what
/// a result needs all of.
struct Operation {
  const char *family, *op;
  const char* problem;  ///< the dimensions in a problem's text
  std::vector<const char*> inputs, outputs;
  std::vector<const char*> problems;
  Value value = one_to_eight;
};

const std::vector<const char*> kVectors = {"2147483661", "4294967301", "137438953505"};
const std::vector<const char*> kProducts = {"65544x65640x16",  "65541x65557x9",  "8388480x8x520",
                                            "8388479x9x515",   "8388481x16x8",   "8x67108872x72",
                                            "520x67108869x65", "7x67108869x65",  "1073741824x5x3",
                                            "1073741824x8x16", "5x1073741824x3", "8x1073741824x72"};
const std::vector<const char*> kRows = {"67108869x65",  "67108868x64",  "524301x8192",
                                        "131075x32776", "4099x1048583", "1073741824x5"};
// Many sequences; rows that are far from each other; many queries or keys of one head. Of a backward
// operation either queries or keys are in one tile, so that a block has the whole of their sums.
const std::vector<const char*> kAttention = {"65535x8x130x64", "65535x16x5:64x64",
                                             "1x65535x1030x64@bshd", "1x1x67108869:40x64@top_left"};
const std::vector<const char*> kGradients = {"65535x32x33x64", "1x65535x1030:33x64@bshd@top_left",
                                             "1x65535x33:1030x64@bshd", "1x1x40:67108869x64"};
const std::vector<const char*> kDecode = {"65535x16x1:64x64", "65535x16x1:64x64@page16",
                                          "65535x1040:1x1:1x64", "1x65535x1:1100x64@bshd"};
const Operation kOperations[] = {
    {"attention", "", "", {}, {}, kAttention, of_attention},
    {"attention", "causal", "", {}, {}, kAttention, of_attention},
    {"attention", "backward", "", {}, {}, kGradients, of_attention},
    {"attention", "causal_backward", "", {}, {}, kGradients, of_attention},
    {"attention", "decode", "", {}, {}, kDecode, of_attention},
    {"elementwise", "", "c", {}, {"c"}, kVectors},
    {"elementwise",
     "bias_gelu_residual",
     "rc",
     {"rc", "c", "rc"},
     {"rc"},
     {"65541x65557", "65544x65600", "2147483648x3", "3x2147483648"}},
    {"reduction", "", "k", {}, {}, kVectors},
    {"matrix_reduction",
     "row_sum",
     "rk",
     {"rk"},
     {"r"},
     {"67108869x65", "131075x32776", "4099x1048583", "2147483647x3"}},
    {"matrix_reduction",
     "col_sum",
     "kc",
     {"kc"},
     {"c"},
     {"65541x65557", "65x67108869", "3x2147483647", "8x536870920"}},
    {"transpose",
     "",
     "rc",
     {"rc"},
     {"cr"},
     {"65541x65557", "65544x65600", "2097120x2056", "2097121x2056", "4194240x1032", "5x1073741824",
      "64x1073741824", "1073741824x5"}},
    {"gemm", "", "rck", {"rk", "kc"}, {"rc"}, kProducts},
    {"gemm_tensor", "nn", "rck", {"rk", "kc"}, {"rc"}, kProducts},
    {"gemm_tensor", "nt", "rck", {"rk", "ck"}, {"rc"}, kProducts},
    {"gemm_tensor", "tn", "rck", {"kr", "kc"}, {"rc"}, kProducts},
    {"gemm_tensor", "tn_f32", "rck", {"kr", "kc"}, {"rc"}, kProducts},
    {"gemm_tensor", "nt_bias_gelu", "rck", {"rk", "ck", "c"}, {"rc"}, kProducts},
    {"softmax", "", "rk", {"rk"}, {"rk"}, kRows},
    {"softmax", "log", "rk", {"rk"}, {"rk"}, kRows},
    {"softmax", "causal", "rk", {"rk"}, {}, kRows},
    {"softmax", "backward", "rk", {"rk", "rk"}, {"rk"}, kRows, small},
    {"softmax", "log_backward", "rk", {"rk", "rk"}, {"rk"}, kRows, small},
    {"layernorm", "", "rk", {"rk", "k", "k"}, {"rk"}, kRows},
    {"layernorm", "add", "rk", {"rk", "k", "k", "rk"}, {"rk", "rk"}, kRows},
    {"layernorm", "backward", "rk", {"rk", "k", "rk"}, {"rk"}, kRows},
    {"rmsnorm", "", "rk", {"rk", "k"}, {"rk"}, kRows},
    {"rmsnorm", "add", "rk", {"rk", "k", "rk"}, {"rk", "rk"}, kRows},
    {"rmsnorm", "backward", "rk", {"rk", "k", "rk"}, {"rk"}, kRows},
};

/// What is not asked of a version.
struct Exception {
  const char *kernels, *problems;  ///< regular expressions
  bool runs;                       ///< though its results are not looked at
};

const Exception kExceptions[] = {
    // A block goes through all queries, or all keys.
    {"attention/.*/v03_.*", "1x1x67108869.*", false},
    {"attention/.*backward/.*/v3[01]_.*", "1x1x40:67108869x64", false},
    // They clear sums in fp32, gigabytes of memory.
    {"attention/.*backward/.*/v(3[2-9]b?|40)_.*", "65535x32x33x64|1x65535x1030:33x64.*", false},
    // Blocks add to dq in the order of the keys, and wait for those before them.
    {"attention/.*backward/.*/v(34|40)_.*", ".*:(1030|67108869)x64.*", false},
    // Launches before make scores and weights, of which here a few blocks run.
    {"attention/.*/v(01|02|30)_.*", ".*", true},
    // The few blocks that run draw all tiles.
    {"attention/.*backward/.*/v39b_.*", ".*", false},
    // Other blocks have parts of the same keys, or add them up.
    {"attention/decode/.*/v5[3-6]_.*", ".*1100x64@bshd", true},
    {"attention/decode/.*/v5[34]_.*", "65535x1040.*", true},
    // Each of its blocks has four thousand tiles.
    {"attention/decode/.*/v56_.*", "65535x1040.*", false},
    // A thread reads a whole row, for half a minute; 131075x32776 has as many elements.
    {"(softmax|layernorm|rmsnorm|matrix_reduction)/.*/v(01|30)_naive.*", "4099x1048583", false},
    // A thread reads a whole column, for ten seconds; 65x67108869 has as many elements.
    {"matrix_reduction/col_sum/.*/v01_.*", "65541x65557", false},
    // A few threads stride over the elements, for ten seconds and more.
    {"elementwise/.*/v0[23]_.*|reduction/(argmax|dot)/.*", "137438953505", false},
    // Its threads stride over the elements: the last is not one of an edge's.
    {"elementwise/relu/f32/v10_.*", ".*", true},
    // Their warps or clusters take ten thousand rows each and more, for a minute.
    {"(layernorm|rmsnorm)/backward/.*/v3[2-46]_.*", "1073741824x5", false},
    {"(layernorm|rmsnorm)/backward/.*/v3[346]_.*", "6710886.*|524301x8192", false},
    // Their blocks take every so many rows: the last is not one of an edge's.
    {"(layernorm|rmsnorm)/backward/.*/v3[2-46]_.*", ".*", true},
    // Tiles of the last wave are two blocks' work.
    {"gemm/f32/v18_.*", "83884.*", true},
    // A launch before copies B, of which here a few blocks run.
    {"gemm/f32/v20_.*", ".*x9|520x67108869x65", true},
    // 65535 K-tiles, for minutes.
    {"gemm_tensor/(nn|tn)/.*/v(16|23)_.*", "16x16x2097120", false},
    // A launch before splits or transposes, of which here a few blocks run.
    {"gemm_tensor/(nn|tn)/.*/v(16|17|23)_.*", ".*", true},
    // A launch before copies A and B, or one of them, of which here a few blocks run.
    {"gemm_tensor/.*/v26_.*", ".*", true},
    {"gemm_tensor/(nn|tn).*/v27c_.*", "65541x65557x9", true},
    {"gemm_tensor/.*/v20_.*", "(65541|83884[78][19]|520|7|5)x.*|1073741824x5x3", true},
    // A launch after adds the bias and takes gelu, of which here a few blocks run.
    {"gemm_tensor/nt_bias_gelu/.*/v21_.*", ".*", true},
    // A launch before adds, of which here a few blocks run.
    {"layernorm/add/.*/v20_.*", ".*", true},
    // A launch before makes what the rows have in common, of which here a few blocks run.
    {"layernorm/backward/.*/v35b_.*", ".*", true},
    // Who is the last adds up what all have left, of whom here a few run.
    {"matrix_reduction/col_sum/.*/v14_.*", "65541x65557", true},
    // Blocks wait for the sums of others, which do not run here, or have tiles for minutes.
    {"gemm_tensor/nt/.*/v25_.*", "8388480x8x520|8x67108872x72|1073741824x8x16|8x1073741824x72",
     false},
    // Their last blocks wait for all others, which do not run, and of all there are too many.
    {"reduction/.*/v1[56]_.*|.*split_rows", ".*", false},
    {"(softmax|layernorm|rmsnorm)/.*by_shape|softmax/log/.*/v13_.*", "4099x1048583", false},
    // Every block reads some columns of all rows.
    {"(layernorm|rmsnorm)/backward/.*/v3[01]_.*", "67108.*|524301.*|1073741824x5", false},
};

const Exception* exception_of(const Kernel& kernel, const std::string& problem) {
  for (const Exception& exception : kExceptions) {
    if (std::regex_match(full_name(kernel), std::regex(exception.kernels)) &&
        std::regex_match(problem, std::regex(exception.problems))) {
      return &exception;
    }
  }
  return nullptr;
}

const Operation* operation_of(const Kernel& kernel) {
  for (const Operation& operation : kOperations) {
    const bool all = *operation.op == '\0';  // elementwise's and reduction's are alike
    const bool alike = all && (operation.family == std::string_view("elementwise") ||
                               operation.family == std::string_view("reduction"));
    if (operation.family != std::string_view(kernel.family)) continue;
    if (operation.op == std::string_view(kernel.op)) return &operation;
    if (alike && kernel.op != std::string_view("bias_gelu_residual")) return &operation;
  }
  return nullptr;
}

using Dimensions = std::map<char, std::size_t>;

Dimensions extents_of(const Operation& operation, std::string_view problem) {
  Dimensions extents{{'r', 1}, {'c', 1}, {'k', 1}};
  std::istringstream text{std::string(problem)};
  for (const char* d = operation.problem; *d; ++d, text.get()) text >> extents[*d];
  return extents;
}

std::size_t size_of(const char* dimensions, const Dimensions& extents) {
  std::size_t size = 1;
  for (const char* d = dimensions; *d; ++d) size *= extents.at(*d);
  return size;
}

const char* shape_of(const Operation& operation, std::size_t input) {
  return operation.inputs.empty() ? operation.problem : operation.inputs[input];
}

/// Where a kernel's support ends along each dimension, while the others are small.
std::vector<std::string> edges_of_support(const Kernel& kernel, const Operation& operation) {
  constexpr std::int64_t kUnit = 16, kMost = 1 << 30;  // multiples of 16, which alignment allows
  constexpr std::int64_t kMostTurns = 1 << 22;         // of a loop over k
  std::vector<std::string> edges;
  for (const char* along = operation.problem; *along; ++along) {
    const auto text = [&](std::int64_t extent) {
      std::string problem;
      for (const char* d = operation.problem; *d; ++d) {
        problem += (problem.empty() ? "" : "x") + std::to_string(d == along ? extent : kUnit);
      }
      return problem;
    };
    const auto supported = [&](std::int64_t units) {
      return supports(kernel, family_of(kernel).problem(text(units * kUnit))).ok;
    };
    std::int64_t most = 1, too_many = kMost / kUnit;
    if (!supported(most) || supported(too_many)) continue;
    while (most + 1 < too_many) {
      const std::int64_t middle = (most + too_many) / 2;
      (supported(middle) ? most : too_many) = middle;
    }
    if (*along != 'k' || most * kUnit <= kMostTurns) edges.push_back(text(most * kUnit));
  }
  return edges;
}

// --- Arrays --------------------------------------------------------------------------------------

const host::Api& api() { return *ladder_host_api(); }

std::vector<char> some_input(Array array, std::size_t bytes, std::size_t place, Value value) {
  std::vector<char> raw(bytes);
  array.size = bytes / bytes_of(array.dtype, std::size_t{1});
  make_input(array, raw.data(), {"1 to 8", value}, RandomBits(1, place));
  return raw;
}

double value_at(DType dtype, const void* array, std::size_t i) {
  return with_type(dtype, [&]<class T>(std::type_identity<T>) {
    return ladder::value_at(static_cast<const T*>(array), i);
  });
}

/// An input, in which some bytes repeat.
char* map_input(const Array& of, std::size_t place, Value value) {
  const std::size_t bytes = bytes_of(of.dtype, of.size);
  auto* const array = static_cast<char*>(api().allocate(bytes));
  const std::size_t period = period_of(bytes);
  if (bytes <= period) {
    const std::vector<char> values = some_input(of, bytes, place, value);
    std::memcpy(array, values.data(), bytes);
    return array;
  }
  const int file = memfd_create("input", 0);
  const std::vector<char> values = some_input(of, period, place, value);
  if (write(file, values.data(), period) != static_cast<ssize_t>(period)) std::abort();
  char* const end = array + bytes;
  for (char* at = array - reinterpret_cast<std::uintptr_t>(array) % kPage; at < end; at += period) {
    const std::size_t size =
        std::min(period, (static_cast<std::size_t>(end - at) + kPage - 1) / kPage * kPage);
    if (mmap(at, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) std::abort();
  }
  close(file);
  return array;
}

/// Calls visit(begin, end) for the runs of elements of an output that are not 0, in their order.
template <class F>
void for_each_run(const char* array, std::size_t size, std::size_t width, F visit) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 18;  // pages
  const std::vector<char> zero(width);
  const char* const end = array + size * width;
  const char* page = array - reinterpret_cast<std::uintptr_t>(array) % kPage;
  std::size_t begin = 0, last = 0;  // of the run
  std::vector<unsigned char> resident(kAtOnce);
  while (page < end) {
    const std::size_t pages =
        std::min(kAtOnce, (static_cast<std::size_t>(end - page) + kPage - 1) / kPage);
    if (mincore(const_cast<char*>(page), pages * kPage, resident.data()) != 0) std::abort();
    for (std::size_t p = 0; p < pages; ++p, page += kPage) {
      if (!(resident[p] & 1)) continue;
      const char* at = std::max(page, array);
      for (; at < std::min(page + kPage, end); at += width) {
        if (std::memcmp(at, zero.data(), width) == 0) continue;
        const auto i = static_cast<std::size_t>(at - array) / width;
        if (i != last) {
          if (last > begin) visit(begin, last);
          begin = i;
        }
        last = i + 1;
      }
    }
  }
  if (last > begin) visit(begin, last);
}

// --- Blocks --------------------------------------------------------------------------------------

/// Of a grid whose largest array has so many elements of so many bytes.
std::vector<uint3> edges(dim3 grid, double elements, double width) {
  const auto along = [&](unsigned size) {
    std::set<unsigned> at{0, 1, size - 2, size - 1};
    for (const double index : {0x1p31, 0x1p32, 0x1p31 / width, 0x1p32 / width}) {
      if (index < elements) at.insert(static_cast<unsigned>(index / elements * size));
    }
    std::erase_if(at, [&](unsigned i) { return i >= size; });
    return std::vector<unsigned>(at.begin(), at.end());
  };
  const auto xs = along(grid.x), ys = along(grid.y), zs = along(grid.z);
  std::vector<uint3> blocks;
  for (const unsigned z : zs) {
    for (const unsigned y : ys) {
      for (const unsigned x : xs) blocks.push_back({x, y, z});
    }
  }
  constexpr std::size_t kMost = 16;
  if (blocks.size() > kMost) {  // the corners, and some of the others
    const auto is_corner = [&](uint3 b) {
      return (b.x == 0 || b.x == grid.x - 1) && (b.y == 0 || b.y == grid.y - 1) &&
             (b.z == 0 || b.z == grid.z - 1);
    };
    const auto others = std::stable_partition(blocks.begin(), blocks.end(), is_corner);
    std::shuffle(others, blocks.end(), std::mt19937(1));
    blocks.resize(std::max<std::size_t>(kMost, static_cast<std::size_t>(others - blocks.begin())));
  }
  return blocks;
}

// --- Results -------------------------------------------------------------------------------------

/// Where an element of an array is, by its dimensions.
std::map<char, std::size_t> place_of(std::size_t i, const char* dimensions,
                                     const Dimensions& extents) {
  std::map<char, std::size_t> place;
  for (std::size_t d = std::strlen(dimensions); d-- > 0;) {
    const std::size_t extent = extents.at(dimensions[d]);
    place[dimensions[d]] = i % extent;
    i /= extent;
  }
  return place;
}

/// Whether a result takes so much of the inputs that few are compared.
bool is_long(const Dimensions& whole) { return whole.at('k') > 1 << 17; }

/// They stand behind the inputs, in all families.
std::vector<Array> outputs_of(const Binding& binding) {
  std::vector<Array> outputs;
  for (const Array& array : binding.arrays()) {
    if (array.is_written()) outputs.push_back(array);
  }
  return outputs;
}

/// Launches a kernel on the arrays that are bound: the blocks that `choose` says, or all.
void launch(const Kernel& kernel, Binding& binding,
            std::function<std::vector<uint3>(dim3 grid)> choose = nullptr) {
  const Plan plan = make_plan(kernel, binding.args(), true);
  Call call{binding.args(), plan.get()};
  if (const std::size_t bytes = kernel.workspace(call)) {
    binding.set_workspace(api().allocate(bytes));
  }
  if (const std::size_t bytes = kernel.state(call.args)) {
    call.state = std::memset(api().allocate(bytes), 0, bytes);
  }
  api().set_blocks(std::move(choose));
  kernel.launch(call, nullptr);
  api().set_blocks(nullptr);
}

/// A problem of some rows and columns of a larger one; of the last several, so that there are
/// multiples of 16, which every version can run. Any number of long rows will do.
class Part {
 public:
  Part(const Kernel& kernel, const Operation& operation, const Dimensions& whole,
       std::vector<std::size_t> rows, std::vector<std::size_t> columns)
      : operation_(operation), whole_(whole) {
    chosen_['r'] = std::move(rows);
    chosen_['c'] = std::move(columns);
    part_ = whole;
    const std::size_t multiple = is_long(whole) ? 1 : 16;
    for (auto& [d, indices] : chosen_) {
      if (!std::strchr(operation.problem, d)) continue;
      indices.resize(ceil_div(indices.size(), multiple) * multiple, indices.back());
      part_[d] = indices.size();
    }
    std::string text;
    for (const char* d = operation.problem; *d; ++d) {
      text += (text.empty() ? "" : "x") + std::to_string(part_.at(*d));
    }
    for (const Kernel& other : api().kernels()) {
      const bool same = other.family == std::string_view(kernel.family) &&
                        other.op == std::string_view(kernel.op) && other.dtype == kernel.dtype;
      if (!same || !supports(other, family_of(other).problem(text)).ok) continue;
      if (!first_ || label(other) < label(*first_)) first_ = &other;
    }
    if (first_) {
      const Family& family = family_of(kernel);
      binding_ = family.bind(family.problem(text), kernel.dtype);
    }
  }

  /// False if no version can run it.
  bool run(const std::vector<char*>& inputs) {
    if (!first_) return false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const char* dimensions = shape_of(operation_, i);
      const std::size_t width = bytes_of(first_->dtype, std::size_t{1});
      const std::size_t size = size_of(dimensions, part_);
      auto* const array = static_cast<char*>(api().allocate(size * width));
      for (std::size_t e = 0; e < size; ++e) {
        auto place = place_of(e, dimensions, part_);
        std::size_t from = 0;
        for (const char* d = dimensions; *d; ++d) {
          const std::size_t at = *d == 'k' ? place[*d] : chosen_[*d][place[*d]];
          from = from * whole_.at(*d) + at;
        }
        std::memcpy(array + e * width, inputs[i] + from * width, width);
      }
      addresses_.push_back(array);
    }
    for (const Array& array : outputs_of(*binding_)) {
      addresses_.push_back(api().allocate(bytes_of(array.dtype, array.size)));
    }
    binding_->bind(addresses_);
    launch(*first_, *binding_);
    return true;
  }

  /// Of output number `output`, at a place of the larger problem.
  double value(const char* dimensions, std::size_t output,
               std::map<char, std::size_t> place) const {
    std::size_t at = 0;
    for (const char* d = dimensions; *d; ++d) {
      std::size_t i = place[*d];
      if (*d != 'k') {
        const auto& of = chosen_.at(*d);
        i = static_cast<std::size_t>(std::lower_bound(of.begin(), of.end(), i) - of.begin());
      }
      at = at * part_.at(*d) + i;
    }
    const auto outputs = outputs_of(*binding_);
    return value_at(outputs[output].dtype, addresses_[addresses_.size() - outputs.size() + output],
                    at);
  }

 private:
  const Operation& operation_;
  Dimensions whole_, part_;
  std::map<char, std::vector<std::size_t>> chosen_;
  const Kernel* first_ = nullptr;
  std::unique_ptr<Binding> binding_;
  std::vector<void*> addresses_;
};

// --- Attention's results -------------------------------------------------------------------------

/// By their definition, of the arrays that a kernel has been launched with.
class AttentionResults {
 public:
  using T = bfloat16;

  static AttentionResults of(const Kernel& kernel, const void* args) {
    const std::string_view op = kernel.op;
    if (op == "decode") {
      return {*static_cast<const attention_decode::Args<T>*>(args), true};
    }
    const bool causal = op.starts_with("causal");
    if (op.ends_with("backward")) {
      return {*static_cast<const attention_backward::Args<T>*>(args), causal};
    }
    return {*static_cast<const attention::Args<T>*>(args), causal};
  }

  /// Whether a block has the whole of an array's elements, and not a part of their sums.
  bool is_whole(const std::string& array) const { return array != "dq" || keys_ <= 64; }

  double value(const std::string& array, std::size_t element) const {
    if (array == "dk" || array == "dv")
      return of_key(place_of(element, k_by_, keys_), array == "dk");
    const Place at = place_of(element, array == "lse" ? lse_by_ : q_by_, queries_);
    double weights = 0, values = 0, dq = 0;
    for (int key = 0; key < visible(at.row); ++key) {
      const T* const k = k_ + key_row(at.sequence, at.head / group_, key);
      const T* const v = v_ + (k - k_);
      const double weight = this->weight(query_row(at.sequence, at.head, at.row), k);
      weights += weight;
      values += weight * widen(v[at.column]);
      if (array == "dq") {
        const T* const d_o = d_o_ + query_row(at.sequence, at.head, at.row);
        dq += weight * product(d_o, v) * widen(k[at.column]) * scale_;
      }
    }
    return array == "dq" ? dq : array == "lse" ? std::log(weights) : values / weights;
  }

 private:
  struct Place {
    std::int64_t sequence, head;
    int row, column;
  };

  template <class Args>
  AttentionResults(const Args& a, bool causal)
      : q_(a.q),
        k_(a.k),
        v_(a.v),
        q_by_(a.q_strides),
        k_by_(a.k_strides),
        lse_by_(a.lse_strides),
        group_(a.heads / a.kv_heads),
        queries_(a.queries),
        keys_(a.keys),
        d_(a.d),
        scale_(a.scale),
        causal_(causal) {
    if constexpr (requires { a.d_o; }) d_o_ = a.d_o;
    if constexpr (requires { a.top_left; }) top_left_ = a.top_left;
    if constexpr (requires { a.block_table; }) {
      block_table_ = a.block_table;
      page_bits_ = a.page_bits;
      table_pitch_ = a.table_pitch;
    }
    if (page_bits_ > 0) k_by_.batch = 0;
  }

  static Place place_of(std::size_t element, const attention::Strides& by, int rows) {
    auto left = static_cast<std::int64_t>(element);
    Place at{};
    const auto next = [&](std::int64_t stride) {
      const std::int64_t index = left / stride;
      left %= stride;
      return index;
    };
    const bool heads_first = by.head > by.row || rows == 1;
    at.sequence = next(by.batch);
    if (heads_first) at.head = next(by.head);
    if (rows > 1) at.row = static_cast<int>(next(by.row));
    if (!heads_first) at.head = next(by.head);
    at.column = static_cast<int>(left);
    return at;
  }
  std::int64_t query_row(std::int64_t sequence, std::int64_t head, int query) const {
    return sequence * q_by_.batch + head * q_by_.head + query * q_by_.row;
  }
  std::int64_t key_row(std::int64_t sequence, std::int64_t head, std::int64_t key) const {
    if (page_bits_ > 0) {
      const std::int64_t page = block_table_[sequence * table_pitch_ + (key >> page_bits_)];
      key = (page << page_bits_) + key % (1 << page_bits_);
    }
    return sequence * k_by_.batch + head * k_by_.head + key * k_by_.row;
  }
  int visible(int query) const {
    return causal_ ? std::clamp(query + 1 + (top_left_ ? 0 : keys_ - queries_), 0, keys_) : keys_;
  }
  double product(const T* a, const T* b) const {
    double sum = 0;
    for (int i = 0; i < d_; ++i) sum += widen(a[i]) * widen(b[i]);
    return sum;
  }
  /// exp(s), where lse is 0.
  double weight(std::int64_t query, const T* k) const {
    return std::exp(product(q_ + query, k) * scale_);
  }
  double of_key(const Place& at, bool is_dk) const {
    const std::int64_t row = key_row(at.sequence, at.head, at.row);
    double sum = 0;
    for (std::int64_t head = at.head * group_; head < (at.head + 1) * group_; ++head) {
      for (int query = 0; query < queries_; ++query) {
        if (at.row >= visible(query)) continue;
        const std::int64_t other = query_row(at.sequence, head, query);
        const T* const d_o = d_o_ + other;
        const double of_weight =
            is_dk ? product(d_o, v_ + row) * widen(q_[other + at.column]) * scale_
                  : widen(d_o[at.column]);
        sum += weight(other, k_ + row) * of_weight;
      }
    }
    return sum;
  }

  const T *q_, *k_, *v_, *d_o_ = nullptr;
  attention::Strides q_by_, k_by_, lse_by_;
  int group_, queries_, keys_, d_;
  double scale_;
  bool causal_, top_left_ = false;
  const std::int32_t* block_table_ = nullptr;
  int page_bits_ = 0, table_pitch_ = 0;
};

/// How many keys each sequence has, and pages, of which the last ones come first.
void fill_integers(const Array& array, std::int32_t* to, const attention::Problem& p) {
  const int of_sequence = p.page > 0 ? ceil_div(p.keys, p.page) : 0;
  for (std::size_t i = 0; i < array.size; ++i) {
    const int row = static_cast<int>(i), pitch = of_sequence + 1;
    to[i] = array.name == "keys_used"    ? p.keys
            : row % pitch == of_sequence ? -1
                                         : (p.batch - row / pitch) * of_sequence - 1 - row % pitch;
  }
}

// --- What is wrong -------------------------------------------------------------------------------

/// Some of the results that are written, spread over all; or what is wrong with the others. `in_order`: the
/// grid's first and last block write the first and the last.
std::string choose(const char* array, std::size_t size, std::size_t width, std::size_t few,
                   bool in_order, std::vector<std::size_t>& some) {
  std::set<std::size_t> ends;
  for_each_run(array, size, width, [&](std::size_t begin, std::size_t end) {
    ends.insert(begin);
    ends.insert(end - 1);
  });
  if (ends.empty()) return "nothing is written";
  if (in_order && *ends.begin() != 0) return "the first result is not written";
  if (in_order && *ends.rbegin() != size - 1) return "the last result is not written";
  const std::vector<std::size_t> elements(ends.begin(), ends.end());
  for (std::size_t i = 0; i < few; ++i) {
    some.push_back(elements[i * (elements.size() - 1) / (few - 1)]);
  }
  return "";
}

std::string differs(DType dtype, const char* array, const std::vector<std::size_t>& some,
                    const std::vector<double>& expected) {
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < some.size(); ++i) {
    const double found = value_at(dtype, array, some[i]);
    if (!(std::abs(found - expected[i]) <= 0.05 * std::abs(expected[i]) + 0.005 * largest)) {
      return "result " + std::to_string(some[i]) + " is " + std::to_string(found) + ", should be " +
             std::to_string(expected[i]);
    }
  }
  return "";
}

std::string compare_attention(const Kernel& kernel, const Binding& binding,
                              const std::vector<char*>& outputs) {
  const AttentionResults results = AttentionResults::of(kernel, binding.args());
  const std::vector<Array> arrays = outputs_of(binding);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Array& array = arrays[o];
    std::vector<std::size_t> some;
    const std::string missing =
        choose(outputs[o], array.size, bytes_of(array.dtype, std::size_t{1}), 24, false, some);
    if (!missing.empty()) return array.name + ": " + missing;
    if (!results.is_whole(array.name)) continue;
    std::vector<double> expected;
    for (const std::size_t element : some) expected.push_back(results.value(array.name, element));
    const std::string text = differs(array.dtype, outputs[o], some, expected);
    if (!text.empty()) return array.name + ": " + text;
  }
  return "";
}

/// What is wrong with a kernel's results; "" if nothing is.
std::string compare(const Kernel& kernel, const Operation& operation, const Dimensions& whole,
                    const std::vector<char*>& inputs, DType dtype,
                    const std::vector<char*>& outputs) {
  const std::size_t width = bytes_of(dtype, std::size_t{1});
  for (std::size_t o = 0; o < operation.outputs.size(); ++o) {
    const char* const dimensions = operation.outputs[o];
    const std::size_t size = size_of(dimensions, whole);
    const char* const array = outputs[o];
    std::vector<std::size_t> some;
    const std::string missing = choose(array, size, width, is_long(whole) ? 6 : 24, true, some);
    if (!missing.empty()) return missing;
    std::set<std::size_t> rows, columns;
    for (const std::size_t element : some) {
      auto place = place_of(element, dimensions, whole);
      rows.insert(place['r']);
      columns.insert(place['c']);
    }
    Part part(kernel, operation, whole, {rows.begin(), rows.end()},
              {columns.begin(), columns.end()});
    if (!part.run(inputs)) return "no version can run some of its rows and columns";
    std::vector<double> expected;
    for (const std::size_t element : some) {
      expected.push_back(part.value(dimensions, o, place_of(element, dimensions, whole)));
    }
    const std::string text = differs(dtype, array, some, expected);
    if (!text.empty()) return text;
  }
  return "";
}

/// What a reduction of an untouched input has left out of its first and its last element. Its result
/// says nothing, as a few blocks run; but what was read has a page.
std::string unread(const char* input, std::size_t bytes) {
  const auto is_read = [](const char* element) {
    unsigned char resident = 0;
    const std::uintptr_t in_page = reinterpret_cast<std::uintptr_t>(element) % kPage;
    if (mincore(const_cast<char*>(element - in_page), 1, &resident) != 0) std::abort();
    return (resident & 1) != 0;
  };
  if (!is_read(input)) return "the first element is not read";
  return is_read(input + bytes - 1) ? "" : "the last element is not read";
}

/// In a process of its own: of a launch that not all blocks take part in, counters are left behind.
std::string run(const Kernel& kernel, const Operation& operation, const std::string& problem) {
  const Family& family = family_of(kernel);
  const auto binding = family.bind(family.problem(problem), kernel.dtype);
  const std::size_t width = bytes_of(kernel.dtype, std::size_t{1});
  const bool reduces = kernel.family == std::string_view("reduction");
  const bool attends = kernel.family == std::string_view("attention");
  std::vector<char*> inputs;
  std::size_t largest = 0;
  const Dimensions extents = extents_of(operation, problem);
  for (const Array& array : binding->arrays()) {
    largest = std::max(largest, array.size);
    if (array.is_written()) continue;
    if (is_integer(array.dtype)) {
      inputs.push_back(static_cast<char*>(api().allocate(bytes_of(array.dtype, array.size))));
      fill_integers(array, reinterpret_cast<std::int32_t*>(inputs.back()),
                    family.problem(problem).as<attention::Problem>());
      continue;
    }
    const char* const shape = shape_of(operation, inputs.size());
    if (!attends && array.size != size_of(shape, extents)) return array.name + " is not " + shape;
    inputs.push_back(reduces ? static_cast<char*>(api().allocate(array.size * width))
                             : map_input(array, inputs.size(), operation.value));
  }
  std::vector<void*> addresses(inputs.begin(), inputs.end());
  std::vector<char*> outputs;
  for (const Array& array : outputs_of(*binding)) {
    outputs.push_back(static_cast<char*>(api().allocate(bytes_of(array.dtype, array.size))));
    addresses.push_back(outputs.back());
  }
  binding->bind(addresses);
  api().set_sm_count(sm_count_for(kernel, largest));
  launch(kernel, *binding, [&](dim3 grid) {
    return edges(grid, static_cast<double>(largest), static_cast<double>(width));
  });
  if (exception_of(kernel, problem)) return "";
  if (reduces) return unread(inputs.front(), largest * width);
  if (attends) return compare_attention(kernel, *binding, outputs);
  return compare(kernel, operation, extents, inputs, outputs_of(*binding).front().dtype, outputs);
}

std::string run_apart(const Kernel& kernel, const Operation& operation,
                      const std::string& problem) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    std::string text;
    try {
      text = run(kernel, operation, problem);
    } catch (const std::exception& error) {
      text = error.what();
    }
    const bool whole =
        write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(whole ? 0 : 1);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t size = read(ends[0], text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) text += std::string("ended by signal: ") + strsignal(WTERMSIG(status));
  return text;
}

class LimitsTest : public testing::Test {
 public:
  explicit LimitsTest(const Kernel& kernel) : kernel_(kernel) {}

  void TestBody() override {
    ASSERT_TRUE(operation_of(kernel_)) << "kOperations has no problems for it";
    const Operation& operation = *operation_of(kernel_);
    int tried = 0;
    std::vector<std::string> problems = edges_of_support(kernel_, operation);
    problems.insert(problems.end(), operation.problems.begin(), operation.problems.end());
    for (const std::string& problem : problems) {
      if (!supports(kernel_, family_of(kernel_).problem(problem)).ok) continue;
      ++tried;
      const Exception* const exception = exception_of(kernel_, problem);
      if (exception && !exception->runs) continue;
      EXPECT_EQ(run_apart(kernel_, operation, problem), "") << problem;
    }
    EXPECT_GT(tried, 0) << "supports no problem";
  }

 private:
  const Kernel& kernel_;
};

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  using namespace ladder;
  testing::InitGoogleTest(&argc, argv);
  const std::vector<Kernel>& kernels = api().kernels();
  for (const Kernel& kernel : kernels) {
    if (family_of(kernel).measures) continue;  // roofs
    // Of the 16-bit types one is enough: their elements lie in the same places.
    const bool is_tried_in_bf16 = std::ranges::any_of(kernels, [&](const Kernel& other) {
      return other.dtype == DType::bf16 && other.file == std::string_view(kernel.file) &&
             other.op == std::string_view(kernel.op);
    });
    if (kernel.dtype == DType::f16 && is_tried_in_bf16) continue;
    testing::RegisterTest(full_name(kernel).c_str(), "limits", nullptr, nullptr, kernel.file, 1,
                          [&]() -> testing::Test* { return new LimitsTest(kernel); });
  }
  return RUN_ALL_TESTS();
}
