// What a thread asks for and does not wait for: bulk copies and st.async. Carried out as late as
// the program allows or, under every odd order of threads, at once: a wait that is missing shows in
// the one, a buffer that is used again too soon in either. Late stores read shared memory when their
// thread waits for that, and write global memory when it waits for that too, or when the block ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include <initializer_list>

#include <cuda.h>

namespace ladder::host {

enum class Reduction { add, min, max };
enum class ElementType { f16, bf16, f32, f64, s32, u32, s64, u64 };

/// A new block runs.
void reset_asynchronous_work();
/// Carries out the first copy to the selected block that is pending; false if there is none.
bool carry_out_next();
bool has_copies_pending();
/// All threads of the block have ended: ends the launch if something is pending that nobody has
/// waited for.
void end_asynchronous_work();

/// Of a box in a tensor, the innermost dimension first.
using Corner = std::initializer_list<int>;

void bulk_load(void* shared, const void* global, std::size_t bytes, std::uint64_t* barrier);
void bulk_store(void* global, const void* shared, std::size_t bytes);
void bulk_reduce(Reduction reduction, ElementType type, void* global, const void* shared,
                 std::size_t bytes);
void bulk_prefetch(const void* global, std::size_t bytes);
void tensor_load(void* shared, const CUtensorMap* map, Corner at, std::uint64_t* barrier);
/// To the same place in all blocks of the cluster whose bits are set.
void tensor_load_multicast(void* shared, const CUtensorMap* map, Corner at, std::uint64_t* barrier,
                           unsigned blocks);
void tensor_store(const CUtensorMap* map, Corner at, const void* shared);
void tensor_reduce(Reduction reduction, const CUtensorMap* map, Corner at, const void* shared);
void tensor_prefetch(const CUtensorMap* map, Corner at);

/// From the block's own shared memory; addresses in the cluster.
void cluster_copy(unsigned to, const void* shared, std::size_t bytes, unsigned barrier);

/// st.async of 16 bytes; addresses in the cluster.
void cluster_store_async(unsigned address, const void* bytes, unsigned barrier);

void bulk_commit_group();
/// Waits for all of the running thread's stores but those of the `pending` latest groups to have
/// read shared memory or, if `written`, to have written global memory.
void bulk_wait_group(unsigned pending, bool written);

}  // namespace ladder::host
