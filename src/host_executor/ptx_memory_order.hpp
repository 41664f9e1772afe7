// What device/ptx/memory_order.hpp offers to kernels, carried out by the host executor.
#pragma once

#include "host_executor/executor.hpp"
#include "host_executor/memory_order.hpp"

#define LADDER_NO_HOOKS __attribute__((noinline, no_sanitize("thread"), no_sanitize_coverage))

namespace ladder::ptx {

template <Scope kScope>
constexpr bool kBeyond = kScope == Scope::gpu || kScope == Scope::system;

template <Scope kScope>
LADDER_NO_HOOKS unsigned load_acquire(const unsigned* address) {
  host::acquire(__builtin_return_address(0), address, kBeyond<kScope>);
  return *address;
}
template <Scope kScope>
LADDER_NO_HOOKS void store_release(unsigned* address, unsigned value) {
  host::release(__builtin_return_address(0), address, kBeyond<kScope>);
  *address = value;
}
template <Scope kScope>
LADDER_NO_HOOKS unsigned add_acquire_release(unsigned* address, unsigned value) {
  host::acquire_release(__builtin_return_address(0), address, kBeyond<kScope>);
  const unsigned before = *address;
  *address = before + value;
  host::changes += value != 0;
  return before;
}

}  // namespace ladder::ptx

#undef LADDER_NO_HOOKS
