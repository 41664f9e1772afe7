#include "host_executor/ptx.hpp"
#include "host_executor/ptx_hopper.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/fragments.hpp"
#include "host_executor/lanes.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/recording.hpp"
#include "host_executor/source.hpp"
#include "host_executor/warpgroup.hpp"

namespace ladder::host {
namespace {

// --- cp.async ----------------------------------------------------------------------------------

struct Copy {
  void* shared;
  const void* global;
  std::size_t bytes, valid_bytes;
  std::uint64_t group;
};

struct Copies {
  std::vector<Copy> pending;    // in the order of their groups
  std::uint64_t committed = 0;  // groups, in all blocks
};
std::vector<Copies> copies_of;  // by the thread's number in the block; grows as threads copy
PerBlock per_block_copies(copies_of);

Copies& own_copies() {
  if (copies_of.size() <= thread_number()) copies_of.resize(thread_number() + 1);
  return copies_of[thread_number()];
}

/// Moves the bytes. The running thread is the one that copies.
void carry_out(const Copy& copy) {
  note_arrival(copy.shared, copy.bytes);
  char* const to = static_cast<char*>(copy.shared);
  std::memcpy(to, copy.global, copy.valid_bytes);
  std::fill(to + copy.valid_bytes, to + copy.bytes, char{0});
}

// --- What a warp does together -----------------------------------------------------------------

constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// The lanes' records. These instructions are for whole warps.
template <class Record>
class Records {
 public:
  Records(void* const* records, unsigned lanes) : records_(records) {
    if (lanes == kAllLanes) return;
    fail_collective(first_lane(lanes), "needs all 32 lanes of the warp, and some have ended");
  }
  Record& operator[](int lane) const { return *static_cast<Record*>(records_[lane]); }

 private:
  void* const* records_;
};

struct LdmatrixRecord {
  std::uint16_t row[8];
  std::uint32_t* fragment;
};

template <int kMatrices, bool kTransposed>
void complete_ldmatrix(void* const* all, unsigned lanes) {
  const Records<const LdmatrixRecord> records(all, lanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane / 4, first = lane % 4 * 2;
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      const auto element = [&](int along) -> std::uint32_t {
        const int row = kTransposed ? along : group, column = kTransposed ? group : along;
        return records[8 * matrix + row].row[column];
      };
      records[lane].fragment[matrix] = element(first) | element(first + 1) << 16;
    }
  }
}

template <int kMatrices, bool kTransposed>
void ldmatrix(const void* pc, std::uint32_t* fragment, const void* row, std::source_location at) {
  static constexpr Collective kLdmatrix{kTransposed ? "ldmatrix_trans" : "ldmatrix",
                                        &complete_ldmatrix<kMatrices, kTransposed>};
  if (watches_registers) {
    touch_registers(pc, fragment, kMatrices * sizeof(*fragment), Access::store);
  }
  LdmatrixRecord record{.row = {}, .fragment = fragment};
  if (lane_id() < 8 * kMatrices) {
    note_access(pc, row, sizeof(record.row), Access::load);
    std::memcpy(record.row, row, sizeof(record.row));
  }
  collective(kLdmatrix, kAllLanes, &record, at);
}

struct StmatrixRecord {
  void* row;
  const std::uint32_t* fragment;
};

/// Each lane stores the row whose address it brings.
template <bool kTransposed>
void complete_stmatrix(void* const* all, unsigned lanes) {
  const Records<const StmatrixRecord> records(all, lanes);
  const std::uint32_t* fragments[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) fragments[lane] = records[lane].fragment;
  std::uint16_t rows[kLanes][8];
  store_matrices<kTransposed>(fragments, rows);
  for (int lane = 0; lane < kLanes; ++lane)
    std::memcpy(records[lane].row, rows[lane], sizeof(rows[lane]));
}

template <bool kTransposed>
void stmatrix(const void* pc, void* row, const std::uint32_t* fragment, std::source_location at) {
  static constexpr Collective kStmatrix{kTransposed ? "stmatrix_transposed" : "stmatrix",
                                        &complete_stmatrix<kTransposed>};
  note_access(pc, row, 16, Access::store);
  if (watches_registers) touch_registers(pc, fragment, 4 * sizeof(*fragment), Access::load);
  if (counting) trace_as(Access::stmatrix);
  StmatrixRecord record{row, fragment};
  collective(kStmatrix, kAllLanes, &record, at);
}

struct MmaRecord {
  void* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
  const void* c;
};

/// A product of fp16, bf16, tf32 or e4m3 numbers is exact in fp32. T is A's and B's type, D is C's and D's.
template <class T, class D>
void complete_mma(void* const* all, unsigned lanes) {
  const Records<const MmaRecord> records(all, lanes);
  constexpr int kPerWord = sizeof(std::uint32_t) / sizeof(T), kK = 8 * kPerWord;
  float a[16][kK], b[8][kK];  // B by columns
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      unpack<T>(records[lane].a[i], &a[group + i % 2 * 8][(t + i / 2 * 4) * kPerWord]);
    }
    for (int i = 0; i < 2; ++i) {
      unpack<T>(records[lane].b[i], &b[group][(t + i * 4) * kPerWord]);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    D elements[4];
    std::memcpy(static_cast<void*>(elements), records[lane].c, sizeof(elements));
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = static_cast<float>(elements[i]);
      for (int k = 0; k < kK; ++k) sum += a[row][k] * b[column][k];
      elements[i] = D(sum);
    }
    std::memcpy(records[lane].d, elements, sizeof(elements));
  }
}

template <class T, class D>
void mma(MmaRecord record, std::source_location at) {
  static constexpr Collective kMma{sizeof(T) == 1   ? "mma_m16n8k32_e4m3"
                                   : sizeof(T) == 2 ? "mma_m16n8k16"
                                                    : "mma_m16n8k8_tf32",
                                   &complete_mma<T, D>};
  collective(kMma, kAllLanes, &record, at);
}

}  // namespace

void reset_async_copies() {
  for (Copies& copies : copies_of) copies.pending.clear();
}

void cp_async(void* shared, const void* global, std::size_t bytes, std::size_t valid_bytes) {
  const void* const pc = __builtin_return_address(0);
  if (valid_bytes > bytes) {
    fail_thread("the cp_async at " + source_text(pc) + " has more valid bytes than bytes");
  }
  note_copy(pc, shared, global, bytes, valid_bytes);
  Copies& copies = own_copies();
  copies.pending.push_back({shared, global, bytes, valid_bytes, copies.committed});
}

void cp_async_commit_group() {
  if (recording) trace_note(__builtin_return_address(0), Note::cp_async_commit);
  ++own_copies().committed;
}

void cp_async_wait_group(unsigned pending) {
  if (recording) {
    trace_note(__builtin_return_address(0), Note::cp_async_wait, nullptr, pending);
  }
  Copies& copies = own_copies();
  const auto begin = copies.pending.begin();
  const auto end = std::find_if(begin, copies.pending.end(), [&](const Copy& copy) {
    return copy.group + pending >= copies.committed;
  });
  std::for_each(begin, end, &carry_out);
  copies.pending.erase(begin, end);
}

}  // namespace ladder::host

namespace ladder::ptx {

template <int kMatrices>
void ldmatrix(std::uint32_t (&fragment)[kMatrices], const void* row, std::source_location at) {
  host::ldmatrix<kMatrices, false>(__builtin_return_address(0), fragment, row, at);
}
template <int kMatrices>
void ldmatrix_trans(std::uint32_t (&fragment)[kMatrices], const void* row,
                    std::source_location at) {
  host::ldmatrix<kMatrices, true>(__builtin_return_address(0), fragment, row, at);
}
#define LADDER_LDMATRIX(n)                                                        \
  template void ldmatrix(std::uint32_t(&)[n], const void*, std::source_location); \
  template void ldmatrix_trans(std::uint32_t(&)[n], const void*, std::source_location)
LADDER_LDMATRIX(1);
LADDER_LDMATRIX(2);
LADDER_LDMATRIX(4);
#undef LADDER_LDMATRIX

template <class T>
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  const float (&c)[4], std::source_location at) {
  host::mma<T, float>({d, a, b, c}, at);
}
template <class T>
void mma_m16n8k16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  const std::uint32_t (&c)[2], std::source_location at) {
  host::mma<T, T>({d, a, b, c}, at);
}
using A = const std::uint32_t (&)[4];
using B = const std::uint32_t (&)[2];
template void mma_m16n8k16<__half>(float (&)[4], A, B, const float (&)[4], std::source_location);
template void mma_m16n8k16<__nv_bfloat16>(float (&)[4], A, B, const float (&)[4],
                                          std::source_location);
template void mma_m16n8k16<__half>(std::uint32_t (&)[2], A, B, B, std::source_location);

void stmatrix(void* row, const std::uint32_t (&fragment)[4], std::source_location at) {
  host::stmatrix<false>(__builtin_return_address(0), row, fragment, at);
}
void stmatrix_transposed(void* row, const std::uint32_t (&fragment)[4], std::source_location at) {
  host::stmatrix<true>(__builtin_return_address(0), row, fragment, at);
}

void mma_m16n8k8_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                      const float (&c)[4], std::source_location at) {
  host::mma<float, float>({d, a, b, c}, at);
}
void mma_m16n8k32_e4m3(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                       const float (&c)[4], std::source_location at) {
  host::mma<__nv_fp8_e4m3, float>({d, a, b, c}, at);
}

}  // namespace ladder::ptx
