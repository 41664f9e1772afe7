// Idea      as many threads for a row as its loads keep busy, and as the GPU has: a warp, a block or
//           several blocks, by the row's length and by how many rows there are. The last block of a
//           row to finish adds up the partial sums of all
// Vs v05    rows of more than 512 bytes. v04 asks a row's length only, so that of few rows a block
//           each leaves SMs without work; and it gives rows of some KiB a block of 256, which pays
//           for its start and its barrier with a load or two in each thread
// Bound by  DRAM bandwidth; one row of some MiB by one launch, and two trips to the L2 in the end
// Limits    x starts at a multiple of 16 bytes
// Tile      a row per 32 threads, of more than 2 KiB per 128, of more than 16 KiB per 256, or a part
//           of a row per 256; four 128-bit loads in flight
#include "device/row_team.hpp"
#include "device/short_rows.hpp"
#include "device/sm_count.hpp"
#include "launchers.hpp"

namespace matrix_reduction {
namespace {

constexpr int kBlock = 256;
constexpr int kLoads = 4;         // of 128 bits per thread, in flight together
constexpr int kBlocksOfSm = 4;    // whose threads have registers for their loads
constexpr int kMostSplit = 4096;  // rows

/// The elements of a part of a row, `begin` to `end` of the matrix, as vectors at multiples of 16
/// bytes, and up to 15 single elements around them.
template <int kThreads, class T>
__device__ float thread_sum(const T* x, std::int64_t begin, std::int64_t end, int t) {
  using Vec = ladder::Vec128<T>;
  constexpr int kStep = kThreads * Vec::size;
  const std::int64_t first = min(end, ladder::ceil_div(begin, std::int64_t{Vec::size}) * Vec::size);
  const std::int64_t last = end - (end - first) % Vec::size;

  float sum[Vec::size] = {};  // one chain of additions per element of a vector
  if (t < first - begin) sum[0] = static_cast<float>(x[begin + t]);
  if (t < end - last) sum[1] = static_cast<float>(x[last + t]);

  const T* from = x + first + t * Vec::size;
  auto left = static_cast<int>((last - first) / Vec::size) - t;  // vectors, in steps of kThreads
  for (; left > (kLoads - 1) * kThreads; left -= kLoads * kThreads) {
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = Vec::load(from + i * kStep);
    static_assert(kLoads == 4, "written out for four");
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {  // with each other first, so that all four are awaited
      const float one = static_cast<float>(v[0][e]) + static_cast<float>(v[1][e]);
      const float other = static_cast<float>(v[2][e]) + static_cast<float>(v[3][e]);
      sum[e] += one + other;
    }
    from += kLoads * kStep;
  }
  Vec v[kLoads - 1];
#pragma unroll
  for (int i = 0; i < kLoads - 1; ++i) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) v[i][e] = T(0.0f);
    if (i * kThreads < left) v[i] = Vec::load(from + i * kStep);
  }
#pragma unroll
  for (int i = 0; i < kLoads - 1; ++i) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) sum[e] += static_cast<float>(v[i][e]);
  }
#pragma unroll
  for (int e = 1; e < Vec::size; ++e) sum[0] += sum[e];
  return sum[0];
}

/// Rows of kThreads threads each: a warp, which shares its block with others, or a block.
template <int kThreads, class T>
__global__ void __launch_bounds__(kBlock) whole_rows(Args<T> a) {
  using Team =
      std::conditional_t<kThreads == 32, ladder::LaneTeam<32, kBlock>, ladder::BlockTeam<kThreads>>;
  __shared__ ladder::SumStorage<Team> of_sum;
  const std::int64_t row = Team::row();
  const std::int64_t begin = min(row, a.rows) * a.cols;
  const std::int64_t end = row < a.rows ? begin + a.cols : begin;
  const float sum =
      ladder::team_sum<Team>(thread_sum<kThreads>(a.x, begin, end, Team::rank()), of_sum);
  if (Team::rank() == 0 && row < a.rows) a.y[row] = sum;
}

/// Parts of rows, a block each, gridDim.x of them in a row. partials: [rows][parts]
template <class T>
__global__ void __launch_bounds__(kBlock, kBlocksOfSm) row_parts(Args<T> a, unsigned* parts_done) {
  using Team = ladder::BlockTeam<kBlock>;
  __shared__ ladder::SumStorage<Team> of_sum, of_partials;
  __shared__ bool is_last;
  const std::int64_t start = blockIdx.y * a.cols;
  const unsigned parts = gridDim.x;
  float* const partials = static_cast<float*>(a.workspace) + std::int64_t{blockIdx.y} * parts;
  float sum = thread_sum<kBlock>(a.x, start + a.cols * blockIdx.x / parts,
                                 start + a.cols * (blockIdx.x + 1) / parts, threadIdx.x);
  sum = ladder::team_sum<Team>(sum, of_sum);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
    __threadfence();  // whoever sees the count sees the partial sum
    is_last = atomicInc(&parts_done[blockIdx.y], parts - 1) == parts - 1;
    if (is_last) __threadfence();  // this block, having seen the count, sees the partial sums
  }
  __syncthreads();
  if (!is_last) return;
  sum = 0;
#pragma unroll 4
  for (unsigned part = threadIdx.x; part < parts; part += kBlock) sum += partials[part];
  sum = ladder::team_sum<Team>(sum, of_partials);
  if (threadIdx.x == 0) a.y[blockIdx.y] = sum;
}

/// The least elements of a part: none has less than all of its loads in flight.
template <class T>
constexpr std::int64_t kLeast = kBlock* kLoads* ladder::Vec128<T>::size;

/// Whether there is a GPU on which several blocks share a row.
template <class T>
bool may_be_split(const Args<T>& a) {
  return a.rows > 0 && a.rows <= kMostSplit && a.cols >= 2 * kLeast<T>;
}

/// How many blocks share a row: 1 where there are rows enough, else so many that they fill the GPU.
template <class T>
std::int64_t parts_of(const Args<T>& a) {
  const std::int64_t at_once = std::int64_t{ladder::sm_count()} * kBlocksOfSm;
  if (a.rows >= at_once || !may_be_split(a)) return 1;
  return min(at_once / a.rows, a.cols / kLeast<T>);
}

struct RowSplit {
  static constexpr ladder::Version version{"a warp, a block or several for a row, by the rows"};
  static constexpr Problem test_problems[] = {{3, 40'001}, {600, 3000}, {600, 20'000}};

  template <class T>
  static std::size_t workspace(const Args<T>& a) {
    const std::int64_t parts = parts_of(a);
    return parts > 1 ? static_cast<std::size_t>(a.rows * parts) * sizeof(float) : 0;
  }
  template <class T>
  static std::size_t state(const Args<T>& a) {
    return may_be_split(a) ? static_cast<std::size_t>(a.rows) * sizeof(unsigned) : 0;
  }
  template <class T>
  static void launch(const Args<T>& a, void* state, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_short_row_sums(a, stream);
    const auto rows = static_cast<unsigned>(a.rows);
    const auto parts = static_cast<unsigned>(parts_of(a));
    if (parts > 1) {
      return ladder::launch(row_parts<T>, dim3(parts, rows), kBlock, 0, stream, a, state);
    }
    const std::int64_t bytes = a.cols * static_cast<std::int64_t>(sizeof(T));
    if (bytes <= 2 << 10) {
      return ladder::launch(whole_rows<32, T>, ladder::ceil_div(rows, kBlock / 32), kBlock, 0,
                            stream, a);
    }
    if (bytes <= 16 << 10) return ladder::launch(whole_rows<128, T>, rows, 128, 0, stream, a);
    ladder::launch(whole_rows<kBlock, T>, rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<RowSplit, row_sum, float, ladder::half, ladder::bfloat16> rows;

}  // namespace
}  // namespace matrix_reduction
