// mbarrier: a barrier in shared memory that waits not only for threads, but also for bytes, and so
// tells when asynchronous copies have arrived.
//
//   __shared__ ladder::ptx::Mbarrier arrived;
//   if (threadIdx.x == 0) {
//     mbarrier_init(&arrived, 1);                   one thread will arrive
//     fence_proxy_async();                          the copy engine sees that it exists
//     mbarrier_arrive_expect_tx(&arrived, bytes);   it arrives, and announces bytes to come
//     bulk_load(tile, from, bytes, &arrived, …);    counts bytes down as they land
//   }
//   __syncthreads();                                the other threads see that it exists
//   mbarrier_wait(&arrived, 0);                     by everyone who is to read the tile
//
// A phase ends when as many threads have arrived as mbarrier_init said, and all bytes announced
// have landed; who waits for it then sees them. The next phase begins at once, with the same number
// of threads to come. A thread names the phase it waits for by its parity: 0, 1, 0, … It must not
// fall two phases behind, because it could not tell them apart.
//
// Compute capability 9.0. PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier".
#pragma once

#include "device/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

namespace ladder::ptx {

using Mbarrier = std::uint64_t;  // opaque

/// A shared-memory address as the instructions want it: 32 bits.
__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// By one thread, before any other use.
__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, unsigned threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(threads)
               : "memory");
}

/// Arrives, and announces bytes that copies will bring before the phase ends.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// Arrives, after all that this thread has read and written before.
__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/// Announces bytes, and does not arrive.
__device__ __forceinline__ void mbarrier_expect_tx(Mbarrier* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// Its 8 bytes are ordinary memory again. By one thread, after all others are done with it.
__device__ __forceinline__ void mbarrier_invalidate(Mbarrier* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Whether a phase has ended, at once.
__device__ __forceinline__ bool mbarrier_test(Mbarrier* barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done;
}

/// Waits for the end of a phase. An error, not a hang, if it never comes.
__device__ __forceinline__ void mbarrier_wait(Mbarrier* barrier, unsigned parity) {
#pragma unroll 1  // or it is unrolled, and fills the caches of instructions
  for (int tries = 0; tries < 1 << 22; ++tries) {  // each of them waits a while by itself
    unsigned done;
    asm volatile(
        "{\n.reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (done) return;
  }
  __trap();
}

}  // namespace ladder::ptx

#endif
