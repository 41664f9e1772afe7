// What the machine can do: each operation does one thing as fast as it goes, so that its rows are
// the roofs under which the other families' rows are drawn. All data are small integers, so every
// result is known exactly and every kernel is checked like any other.
#pragma once

#include "device/kernel.hpp"

#include <type_traits>

namespace roofs {

struct Roof {
  static constexpr const char* family = "roofs";
};

/// How a read:write mix is moved, as elementwise kernels do it: `inputs` streams that lie one
/// behind the other in x, and `outputs` streams in y, all `length` vectors long, whose i-th vectors
/// belong together. What the ratio leaves over is read and written by itself.
struct Mix {
  int inputs, outputs;         // 1 and 1, 2 and 1, 3 and 1, 1 and 2; or 0 and 0
  std::int64_t length;         // 128-bit vectors per stream
  std::int64_t reads, writes;  // 128-bit vectors that are left over

  __host__ __device__ bool is(int in, int out) const { return inputs == in && outputs == out; }
};

/// DRAM bandwidth at any read:write mix.
///
/// y has outputs * length vectors, each the sum of the input streams' vectors at the same place;
/// then mix.writes vectors of kWritten; then, one float each, the sums of the chunks of kChunk
/// vectors that are read and go nowhere else.
struct dram : Roof {
  static constexpr const char* op = "dram";
  static constexpr int kChunk = 1024;  // vectors per sum: 16 KiB read, 4 bytes written
  static constexpr unsigned char kWrittenByte = 63;  // cudaMemset's view of
  static constexpr float kWritten = 0x1.7e7e7ep-1f;  // the float whose bytes are all the same

  struct Problem {
    std::int64_t read, write;  // bytes, multiples of 16
  };
  template <class T>
  struct Args {
    const T* x;
    T* y;
    T* sums;  // in the same array, behind y
    Mix mix;
  };

  /// The mix that is nearest in the share of reads among 1:0, 3:1, 2:1, 1:1, 1:2 and 0:1.
  static Mix mix(const Problem& p) {
    const std::int64_t reads = p.read / 16, writes = p.write / 16;
    const double share = static_cast<double>(reads) / static_cast<double>(reads + writes);
    auto of = [&](int inputs, int outputs) {
      const std::int64_t of_reads = reads / inputs, of_writes = writes / outputs;
      const std::int64_t length = of_reads < of_writes ? of_reads : of_writes;
      return Mix{inputs, outputs, length, reads - inputs * length, writes - outputs * length};
    };
    if (share > 7.0 / 8) return {0, 0, 0, reads, writes};
    if (share > 17.0 / 24) return of(3, 1);
    if (share > 7.0 / 12) return of(2, 1);
    if (share > 5.0 / 12) return of(1, 1);
    if (share > 1.0 / 6) return of(1, 2);
    return {0, 0, 0, reads, writes};
  }
};

/// FMA throughput of the CUDA cores. Every thread has kChains accumulators; in each
/// step each of them becomes accumulator * a + b. y[thread] is their sum in the end.
struct fma : Roof {
  static constexpr const char* op = "fma";
  static constexpr int kBlock = 256;
  static constexpr int kChains = 8;        // accumulators per thread; f16 has two numbers in each
  static constexpr int kUnroll = 64;       // steps
  static constexpr int kMostSteps = 1024;  // so that fp16, exact up to 2048, can count them

  template <class T>
  static constexpr int kWidth = std::is_same_v<T, ladder::half> ? 2 : 1;  // numbers per chain
  template <class T>
  using Output = std::conditional_t<std::is_same_v<T, double>, double, float>;

  struct Problem {
    std::int64_t blocks;
    int steps;  // a multiple of kUnroll, at most kMostSteps
  };
  template <class T>
  struct Args {
    const T* a;    // [1]: 1, which the compiler doesn't know
    const T* b;    // [kBlock]: -1, 0 or 1
    Output<T>* y;  // [blocks * kBlock]
    std::int64_t blocks;
    int steps;
  };
  /// Accumulators start as their number.
  template <class T>
  __host__ __device__ static double result(double b, int steps) {
    return kWidth<T> * (kChains * (kChains - 1) / 2 + kChains * b * steps);
  }
};

/// Bandwidth of the L2: an array that fits it is read kPasses times within a launch, and never from
/// the L1. Block b reads kPasses tiles, tile (b + pass * kShift) % tiles(p) in each pass, so that
/// every tile is read once per pass; y[b] is the sum of all it has read.
struct l2 : Roof {
  static constexpr const char* op = "l2";
  static constexpr int kBlock = 256;
  static constexpr int kTile = kBlock * 4;  // floats, a vector per thread
  static constexpr int kPasses = 128;
  static constexpr int kShift = 37;

  struct Problem {
    std::int64_t bytes;  // a multiple of 4096
    int tiles() const { return static_cast<int>(bytes / (4 * kTile)); }
  };
  template <class T>
  struct Args {
    const T* x;  // [tiles * kTile]
    T* y;        // [tiles]
    int tiles;
  };
};

/// Bandwidth of shared memory: every thread of every block reads a whole tile kPasses times, and
/// y[thread] is the sum of what it has read.
struct shared : Roof {
  static constexpr const char* op = "shared";
  static constexpr int kBlock = 256;
  static constexpr int kVectors = 1024;  // in a tile of 16 KiB
  static constexpr int kPasses = 4;

  struct Problem {
    std::int64_t blocks;
  };
  template <class T>
  struct Args {
    const T* x;  // [4 * kVectors]
    T* y;        // [blocks * kBlock]
    std::int64_t blocks;
  };
};

/// Throughput of atomic additions in shared memory: every thread adds 1 to kSteps counters of its
/// block. The block's n-th addition is to counter n % counters, so a warp's 32 are in 32 banks and none
/// waits for another; those of several warps may meet in a counter. y has each block's counters.
struct shared_atomics : Roof {
  static constexpr const char* op = "shared_atomics";
  static constexpr int kBlock = 256;
  static constexpr int kSteps = 1024;
  static constexpr int kMostCounters = 4096;  // 16 KiB

  struct Problem {
    std::int64_t blocks;
    int counters;  // a power of two, at least a warp's 32
  };
  template <class T>
  struct Args {
    T* y;  // [blocks, counters]
    std::int64_t blocks;
    int counters;
  };
};

/// Throughput of loads of 4 bytes from random places of an array. Every thread loads kLoads of them, of
/// each of its vectors of four indices, which are kBlock vectors apart; y[thread] is their sum.
struct gather : Roof {
  static constexpr const char* op = "gather";
  static constexpr int kBlock = 256;
  static constexpr int kLoads = 16;  // in flight per thread
  static constexpr int kTile = kBlock * kLoads;

  struct Problem {
    std::int64_t bytes;  // of the array, a multiple of 4
    std::int64_t loads;  // a multiple of kTile
  };
  template <class T>
  struct Args {
    const T* x;                 // [bytes / 4]
    const std::int32_t* index;  // [loads], places in x
    T* y;                       // [loads / kLoads]
    std::int64_t loads;
  };
};

/// Latency of a load: one thread follows a ring through `lines` lines of 128 bytes, from line i to
/// line (i + kStep) % lines, where each address depends on what the load before has brought.
/// y[0] is the line where it ends. An operation per level of the memory, told by kLevel.
enum class Level { dram, l2, l1, shared };

template <Level kLevel>
struct Latency : Roof {
  static constexpr Level level = kLevel;
  static constexpr const char* op = kLevel == Level::dram ? "latency_dram"
                                    : kLevel == Level::l2 ? "latency_l2"
                                    : kLevel == Level::l1 ? "latency_l1"
                                                          : "latency_shared";
  static constexpr int kLine = 128;            // bytes
  static constexpr unsigned kStep = 0x3779B1;  // odd, so that the ring has every line; and far from
                                               // every fraction of a power of two
  static constexpr unsigned kMostLines = 1 << 24;  // a float can name them

  struct Problem {
    std::int64_t bytes;  // a power of two, at least kLine
    std::int64_t loads;
    unsigned lines() const { return static_cast<unsigned>(bytes / kLine); }
  };
  template <class T>
  struct Args {
    const T* x;  // dram alone: [lines * 32], each the float whose bits are kStep
    T* y;        // [1]
    unsigned lines;
    std::int64_t loads;
    void* workspace;
  };
};
using latency_dram = Latency<Level::dram>;
using latency_l2 = Latency<Level::l2>;
using latency_l1 = Latency<Level::l1>;
using latency_shared = Latency<Level::shared>;

/// Throughput of the tensor cores. Every warp (with wgmma, every warpgroup) adds the same product
/// A * B of small integers `steps` times to a C of its own, in fp32: C = steps * A * B. Where sums
/// would stop being exact before that, C starts anew every kRound steps.
template <class T>
struct TensorArgs {
  const T* a;  // [kM, kK]
  const T* b;  // [kN, kK], the transpose of B
  float* c;    // [blocks * kProducts, kM, kN]
  std::int64_t blocks;
  int steps;
};

template <int m, int n, int k, int products, int round = 1 << 13>
struct TensorProduct : Roof {
  static constexpr int kM = m, kN = n, kK = k;  // of the product added in each step
  static constexpr int kProducts = products;    // at a time, per block
  static constexpr int kMostSteps = 1 << 13;    // |C| <= 16 kK steps <= 2^23: exact in fp32
  static constexpr int kRound = round;          // steps
  static int added(int steps) { return (steps - 1) % kRound + 1; }  // to C, since it last started
  template <class T>
  using Args = TensorArgs<T>;

  struct Problem {
    std::int64_t blocks;
    int steps;
  };
};

/// mma.sync: a warp has 16 x 64 of C, eight tiles of the instruction.
struct mma : TensorProduct<16, 64, 16, 8> {
  static constexpr const char* op = "mma";
};
struct mma_tf32 : TensorProduct<16, 64, 8, 8> {
  static constexpr const char* op = "mma_tf32";
};

/// wgmma: a warpgroup has 64 x 256 of C; A and B are in shared memory, in rows of 128 bytes.
struct wgmma : TensorProduct<64, 256, 64, 2> {
  static constexpr const char* op = "wgmma";
};
struct wgmma_tf32 : TensorProduct<64, 256, 32, 2> {
  static constexpr const char* op = "wgmma_tf32";
};
/// Hopper cuts the sums of fp8 products off 13 bits below the largest number that it adds.
struct wgmma_e4m3 : TensorProduct<64, 256, 128, 2, (1 << 13) / (16 * 128)> {
  static constexpr const char* op = "wgmma_e4m3";
};

/// What a launch costs: a kernel of one-warp blocks that write one float each.
struct launch : Roof {
  static constexpr const char* op = "launch";
  struct Problem {
    std::int64_t blocks;
  };
  template <class T>
  struct Args {
    T* y;  // [blocks], each 1
    std::int64_t blocks;
  };
};

/// The link to the host's memory, of which a transfer has two arrays of n floats: one that holds
/// on_host(i), one that is written. What arrives in the host's memory is checked by bringing
/// kSamples of its floats back to the device.
struct Transfer : Roof {
  static constexpr std::int64_t kSamples = 64;

  struct Problem {
    std::int64_t bytes;  // a multiple of 4 * kSamples
  };
  template <class T>
  struct Args {
    const T* x;  // [n]; d2h alone
    T* y;        // [n]; h2d and overlap
    T* samples;  // [kSamples]: every n / kSamples-th float that arrived; d2h and overlap
    std::int64_t n;
    void* workspace;
  };
  __host__ __device__ static float on_host(std::int64_t i) { return static_cast<float>(i % 1021); }
};
/// y = the host's array.
struct h2d : Transfer {
  static constexpr const char* op = "h2d";
};
/// The host's array = x.
struct d2h : Transfer {
  static constexpr const char* op = "d2h";
};
/// The host's second array = y = 2 * (the host's first array) + 1.
struct overlap : Transfer {
  static constexpr const char* op = "overlap";
};

}  // namespace roofs
