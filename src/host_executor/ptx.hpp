// What device/ptx/ offers to kernels, carried out by the host executor.
//
// A copy of cp.async is carried out as late as the program allows, when its thread waits for it: a
// kernel that forgot to wait reads what was there before. What is pending when the thread ends is
// never carried out. ldmatrix, the other way round, reads a lane's row when that lane arrives, so
// that a row another lane has yet to write is not there.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <source_location>

namespace ladder::host {

/// To be called before every block: forgets all copies.
void reset_async_copies();

void cp_async(void* shared, const void* global, std::size_t bytes, std::size_t valid_bytes);
void cp_async_commit_group();
/// Carries out the running thread's committed copies but those of the `pending` latest groups.
void cp_async_wait_group(unsigned pending);

}  // namespace ladder::host

namespace ladder::ptx {

template <int kBytes>
[[gnu::always_inline]] inline void cp_async(void* shared, const void* global,
                                            int valid_bytes = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  host::cp_async(shared, global, kBytes, static_cast<std::size_t>(valid_bytes));
}
template <int kBytes>
[[gnu::always_inline]] inline void cp_async_ca(void* shared, const void* global,
                                               int valid_bytes = kBytes) {
  cp_async<kBytes>(shared, global, valid_bytes);
}
[[gnu::always_inline]] inline void cp_async_streaming(void* shared, const void* global,
                                                      bool valid) {
  cp_async<16>(shared, global, valid ? 16 : 0);
}
template <int kBytes>
[[gnu::always_inline]] inline void cp_async_if(bool condition, void* shared, const void* global) {
  if (condition) cp_async<kBytes>(shared, global);
}

inline void cp_async_commit_group() { host::cp_async_commit_group(); }
template <int kPending>
void cp_async_wait_group() {
  static_assert(kPending >= 0);
  host::cp_async_wait_group(kPending);
}
inline void cp_async_wait_all() {
  host::cp_async_commit_group();
  host::cp_async_wait_group(0);
}

template <int kMatrices>
void ldmatrix(std::uint32_t (&fragment)[kMatrices], const void* row,
              std::source_location at = std::source_location::current());
template <int kMatrices>
void ldmatrix_trans(std::uint32_t (&fragment)[kMatrices], const void* row,
                    std::source_location at = std::source_location::current());

template <class T>
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  const float (&c)[4], std::source_location at = std::source_location::current());
template <class T>
void mma_m16n8k16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  const std::uint32_t (&c)[2],
                  std::source_location at = std::source_location::current());
void mma_m16n8k8_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                      const float (&c)[4],
                      std::source_location at = std::source_location::current());
void mma_m16n8k32_e4m3(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                       const float (&c)[4],
                       std::source_location at = std::source_location::current());

[[gnu::always_inline]] inline std::uint32_t to_tf32(float x) {
  if (std::isnan(x)) return 0x7fffffff;
  return (std::bit_cast<std::uint32_t>(x) + 0x1000) & 0xffffe000;
}

}  // namespace ladder::ptx
