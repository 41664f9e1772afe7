#include "host_executor/asynchronous.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_executor/cluster.hpp"
#include "host_executor/cluster_order.hpp"
#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/mbarrier.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/races.hpp"
#include "host_executor/recording.hpp"
#include "host_executor/source.hpp"
#include "host_executor/tensor_map.hpp"
#include "host_executor/touches.hpp"
#include "host_executor/warpgroup.hpp"

namespace ladder::host {
namespace {

constexpr std::size_t kUnit = 16;  // bytes, of bulk copies' addresses, sizes and boxes' corners

struct Load {
  const void* pc;
  Access access;
  std::function<void()> carry_out;
};
std::deque<Load> loads;  // to the block, in the order in which they were asked for
PerBlock per_block_loads(loads);

/// What a store does to bytes of global memory.
using Combine = void (*)(void* global, const void* shared, std::size_t bytes);

struct Store {
  struct Piece {
    char* to;
    const char* from;
    std::size_t bytes;
  };

  std::uint64_t read;  // of shared memory, under watch
  std::uint64_t group;
  std::vector<Piece> pieces;
  Combine combine;
  std::vector<char> taken{};  // the pieces, one behind the other, once they had to be read
  bool has_read = false, has_written = false;

  void take() {
    for (Piece& piece : pieces) taken.insert(taken.end(), piece.from, piece.from + piece.bytes);
    const char* from = taken.data();
    for (Piece& piece : pieces) from = (piece.from = from) + piece.bytes;
  }
  void write() {
    for (const Piece& piece : pieces) combine(piece.to, piece.from, piece.bytes);
    has_written = true;
  }
};
struct Stores {
  std::vector<Store> pending;   // in the order of their groups
  std::uint64_t committed = 0;  // groups
};
std::vector<Stores> stores_of;  // by thread
PerBlock per_block_stores(stores_of);

Stores& own_stores() {
  if (stores_of.size() <= thread_number()) stores_of.resize(thread_number() + 1);
  return stores_of[thread_number()];
}

void expect_units(const void* pc, const char* what, const void* shared, const void* global,
                  std::size_t bytes) {
  for (const auto value : {reinterpret_cast<std::uintptr_t>(shared),
                           reinterpret_cast<std::uintptr_t>(global), std::uintptr_t{bytes}}) {
    if (value % kUnit == 0) continue;
    fail_thread(std::string("the ") + what + " at " + source_text(pc) +
                ": addresses and sizes are multiples of 16 bytes");
  }
}

/// What of a load writes to shared memory, wherever the block has it then.
using Move = std::function<void(char* to)>;

/// The running thread asks for bytes in shared memory of its own.
void begin_load(const void* pc, Access access, const SharedRange& to, std::size_t bytes,
                std::uint64_t* barrier, Move move) {
  expect_mbarrier(pc, barrier, access == Access::bulk);
  const unsigned thread = thread_number(), rank = BlockVariable::selected();
  const std::uint32_t time = own_time(thread);
  watch_shared(pc, to.part, to.offset, bytes, access);
  tick(thread);
  if (recording && access == Access::bulk) trace_note(pc, Note::bulk_load, barrier, bytes);
  loads.push_back({pc, access, [=, move = std::move(move)] {
                     move(static_cast<char*>(memory_of(rank, to.part, to.offset)));
                     if (recording) record_of_block(Note::bulk_landed, barrier, bytes);
                     mbarrier_complete(barrier, {to.part, to.offset, bytes}, thread, time);
                   }});
  if (is_eager()) carry_out_next();
}

/// Or of another block.
void begin_remote_load(const void* pc, const char* operation, Access access,
                       const ClusterPlace& place, std::size_t bytes, const ClusterPlace& barrier,
                       Move move) {
  const auto& [rank, to] = place;
  const unsigned own = BlockVariable::selected();
  const RemoteThread by(own, rank);
  expect_block(pc, operation, rank, by);
  std::uint64_t* const tells =
      expect_remote_mbarrier(pc, operation, barrier, by, access == Access::bulk);
  // What the thread knows comes with what it stores, not with what it lets the copy engine bring.
  auto known = std::make_shared<Knowledge>();
  if (access == Access::pushed) *known = own_knowledge(own);
  const InBlock there(rank);
  const unsigned writer = remote_writer(own);
  const std::uint32_t time = own_time(writer);
  watch_remote(pc, to.part, to.offset, bytes, access, by);
  tick(writer);
  loads.push_back({pc, access, [=, move = std::move(move)] {
                     move(static_cast<char*>(memory_of(rank, to.part, to.offset)));
                     hand_over(tells, *known);
                     mbarrier_complete(tells, {to.part, to.offset, bytes}, writer, time);
                   }});
  if (is_eager()) carry_out_next();
}

/// Counts a copy by its pieces of global memory, neighbours following each other.
class CountedCopy {
 public:
  explicit CountedCopy(Access access) : access_(access) {}
  ~CountedCopy() {
    if (counting) count_bulk(access_, copy_);
  }
  CountedCopy(const CountedCopy&) = delete;
  CountedCopy& operator=(const CountedCopy&) = delete;

  void add(const char* global, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(global) / 32;
    const auto end = (reinterpret_cast<std::uintptr_t>(global) + bytes + 31) / 32;
    copy_.bytes += bytes;
    copy_.sectors += end - begin - (begin + 1 == end_);
    end_ = end;
  }

 private:
  Access access_;
  BulkCopies copy_{.copies = 1};
  std::uintptr_t end_ = 0;  // of the sectors so far
};

/// The running thread asks for the pieces of so many bytes of shared memory to be stored.
void begin_store(const void* pc, const void* shared, std::size_t bytes, Access access,
                 std::vector<Store::Piece> pieces, Combine combine) {
  const SharedRange from = shared_range(pc, shared, bytes, Access::bulk_read);
  watch_shared(pc, from.part, from.offset, bytes, Access::bulk_read);
  const std::uint64_t read = begin_read(pc, from.part, from.offset, bytes, Access::bulk_read);
  CountedCopy counted(Access::store);
  for (const Store::Piece& piece : pieces) {
    note_global(pc, piece.to, piece.bytes, access);
    counted.add(piece.to, piece.bytes);
  }
  tick(thread_number());
  if (recording) trace_note(pc, Note::bulk_store, nullptr, bytes);
  Stores& stores = own_stores();
  stores.pending.push_back({read, stores.committed, std::move(pieces), combine});
  if (is_eager()) stores.pending.back().write();
}

void copy_bytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

template <class T, Reduction kReduction>
void reduce_bytes(void* to, const void* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(static_cast<void*>(&old), static_cast<char*>(to) + i, sizeof(T));
    std::memcpy(static_cast<void*>(&value), static_cast<const char*>(from) + i, sizeof(T));
    if constexpr (kReduction == Reduction::add) {
      old = old + value;
    } else if (kReduction == Reduction::min ? value < old : old < value) {
      old = value;
    }
    std::memcpy(static_cast<char*>(to) + i, static_cast<const void*>(&old), sizeof(T));
  }
}

template <class T, bool kAdds, bool kOrders>
Combine reduce_with(Reduction reduction) {
  if constexpr (kAdds) {
    if (reduction == Reduction::add) return &reduce_bytes<T, Reduction::add>;
  }
  if constexpr (kOrders) {
    if (reduction == Reduction::min) return &reduce_bytes<T, Reduction::min>;
    if (reduction == Reduction::max) return &reduce_bytes<T, Reduction::max>;
  }
  return nullptr;
}

/// Null if PTX has none of this type. Sums of s32 wrap around as those of u32 do.
Combine reduce_with(Reduction reduction, ElementType type) {
  switch (type) {
    case ElementType::f16:
      return reduce_with<__half, true, true>(reduction);
    case ElementType::bf16:
      return reduce_with<__nv_bfloat16, true, true>(reduction);
    case ElementType::f32:
      return reduce_with<float, true, false>(reduction);
    case ElementType::f64:
      return reduce_with<double, true, false>(reduction);
    case ElementType::s32:
      if (reduction == Reduction::add) return reduce_with<std::uint32_t, true, true>(reduction);
      return reduce_with<std::int32_t, false, true>(reduction);
    case ElementType::u32:
      return reduce_with<std::uint32_t, true, true>(reduction);
    case ElementType::s64:
      return reduce_with<std::int64_t, false, true>(reduction);
    case ElementType::u64:
      return reduce_with<std::uint64_t, true, true>(reduction);
  }
  return nullptr;
}

std::optional<ElementType> element_type(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return ElementType::f16;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return ElementType::bf16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return ElementType::f32;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return ElementType::f64;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return ElementType::s32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
      return ElementType::u32;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return ElementType::s64;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return ElementType::u64;
    default:
      return std::nullopt;
  }
}

/// Of a box whose corner is `at`.
TensorMap map_at(const void* pc, const CUtensorMap* map, Corner at) {
  const std::optional<TensorMap> found = decode(*map);
  if (!found) fail_thread("the tensor map at " + source_text(pc) + " is none");
  if (found->rank != at.size()) {
    fail_thread("the tensor at " + source_text(pc) + " has " + std::to_string(found->rank) +
                " dimensions, not " + std::to_string(at.size()));
  }
  if (const std::int64_t x = *at.begin(); x * found->element_bytes() % std::int64_t{kUnit} != 0) {
    fail_thread("the box at " + source_text(pc) + " begins at element " + std::to_string(x) +
                " of the innermost dimension: no multiple of " + std::to_string(kUnit) + " bytes");
  }
  return *found;
}

TensorMap map_at(const void* pc, const CUtensorMap* map, Corner at, const void* shared) {
  const TensorMap found = map_at(pc, map, at);
  if (shared_address(shared) % found.box_alignment() != 0) {
    fail_thread("the box at " + source_text(pc) + " begins at no multiple of " +
                std::to_string(found.box_alignment()) + " bytes of shared memory");
  }
  return found;
}

/// Calls visit(shared, global, bytes) for the pieces of a box; global is null outside of the
/// tensor.
template <class F>
void for_each_piece(const TensorMap& map, const int* at, const void* shared, F visit) {
  const unsigned begin = shared_address(shared);
  auto* const base = static_cast<char*>(const_cast<void*>(shared));
  for_each_chunk(map, at, [&](std::size_t offset, const char* global, unsigned bytes) {
    const unsigned address = begin + static_cast<unsigned>(offset);
    visit(base + (swizzle(map.swizzle, address) - begin), global, bytes);
  });
}

}  // namespace

void reset_asynchronous_work() {
  loads.clear();
  stores_of.clear();
  reset_products();
}

bool has_copies_pending() { return !loads.empty(); }

bool carry_out_next() {
  if (loads.empty()) return false;
  const Load load = std::move(loads.front());
  loads.pop_front();
  load.carry_out();
  return true;
}

void end_asynchronous_work() {
  if (!loads.empty()) {
    fail_thread("the block ends while the " + std::string(name_of(loads.front().access)) + " at " +
                source_text(loads.front().pc) + " is on its way: nobody has waited for it");
  }
  expect_no_products();
  expect_no_reads();
  for (Stores& stores : stores_of) {
    for (Store& store : stores.pending) {
      if (!store.has_written) store.write();
    }
  }
}

void bulk_load(void* shared, const void* global, std::size_t bytes, std::uint64_t* barrier) {
  const void* const pc = __builtin_return_address(0);
  expect_units(pc, "bulk_load", shared, global, bytes);
  note_global(pc, global, bytes, Access::load);
  CountedCopy(Access::load).add(static_cast<const char*>(global), bytes);
  begin_load(pc, Access::bulk, shared_range(pc, shared, bytes, Access::bulk), bytes, barrier,
             [=](char* to) { std::memcpy(to, global, bytes); });
}

namespace {

std::vector<Store::Piece> one_piece(void* global, const void* shared, std::size_t bytes) {
  return {{static_cast<char*>(global), static_cast<const char*>(shared), bytes}};
}

}  // namespace

void bulk_store(void* global, const void* shared, std::size_t bytes) {
  const void* const pc = __builtin_return_address(0);
  expect_units(pc, "bulk_store", shared, global, bytes);
  begin_store(pc, shared, bytes, Access::bulk_write, one_piece(global, shared, bytes), &copy_bytes);
}

void bulk_reduce(Reduction reduction, ElementType type, void* global, const void* shared,
                 std::size_t bytes) {
  const void* const pc = __builtin_return_address(0);
  expect_units(pc, "bulk_reduce", shared, global, bytes);
  begin_store(pc, shared, bytes, Access::bulk_reduce, one_piece(global, shared, bytes),
              reduce_with(reduction, type));
}

void bulk_prefetch(const void* global, std::size_t bytes) {
  expect_units(__builtin_return_address(0), "bulk_prefetch", nullptr, global, bytes);
}

namespace {

/// A box that has been asked for.
struct Box {
  struct Piece {
    std::ptrdiff_t to;
    const char* from;
    unsigned bytes;
  };
  TensorMap map;
  std::vector<Piece> pieces;

  Box(const void* pc, const CUtensorMap* encoded, Corner at, const void* shared)
      : map(map_at(pc, encoded, at, shared)) {
    CountedCopy counted(Access::load);
    for_each_piece(map, at.begin(), shared, [&](char* to, const char* from, unsigned bytes) {
      if (from) {
        note_global(pc, from, bytes, Access::load);
        counted.add(from, bytes);
      }
      pieces.push_back({to - static_cast<const char*>(shared), from, bytes});
    });
  }
  void operator()(char* shared) const {
    for (const Piece& piece : pieces) {
      if (piece.from) {
        std::memcpy(shared + piece.to, piece.from, piece.bytes);
      } else {
        map.fill(shared + piece.to, piece.bytes);
      }
    }
  }
};

}  // namespace

void tensor_load(void* shared, const CUtensorMap* map, Corner at, std::uint64_t* barrier) {
  const void* const pc = __builtin_return_address(0);
  const Box box(pc, map, at, shared);
  const std::size_t bytes = box.map.box_bytes();
  begin_load(pc, Access::bulk, shared_range(pc, shared, bytes, Access::bulk), bytes, barrier, box);
}

void tensor_load_multicast(void* shared, const CUtensorMap* map, Corner at, std::uint64_t* barrier,
                           unsigned blocks) {
  const void* const pc = __builtin_return_address(0);
  const Box box(pc, map, at, shared);
  const std::size_t bytes = box.map.box_bytes();
  const SharedRange to = shared_range(pc, shared, bytes, Access::bulk);
  const SharedRange tells = shared_range(pc, barrier, sizeof *barrier, Access::load);
  if (blocks == 0 || blocks >> blocks_of_cluster() != 0) {
    fail_thread("the tensor_load_multicast at " + source_text(pc) + " is for blocks " +
                std::to_string(blocks) + ": the cluster has " +
                std::to_string(blocks_of_cluster()));
  }
  for (unsigned rank = 0; rank < blocks_of_cluster(); ++rank) {
    if (!(blocks >> rank & 1)) continue;
    if (rank == block_rank()) {
      begin_load(pc, Access::bulk, to, bytes, barrier, box);
    } else {
      begin_remote_load(pc, "tensor_load_multicast", Access::bulk, {rank, to}, bytes, {rank, tells},
                        box);
    }
  }
}

namespace {

/// The running thread asks for bytes in any block's shared memory.
void begin_load_in_cluster(const void* pc, const char* operation, Access access, unsigned address,
                           std::size_t bytes, unsigned barrier, Move move) {
  const ClusterPlace to = place_at(pc, operation, address, bytes, access, kUnit);
  const ClusterPlace tells = place_at(pc, operation, barrier, sizeof(std::uint64_t), Access::load);
  if (tells.rank != to.rank) {
    fail_thread(std::string(operation) + " at " + source_text(pc) + " to rank " +
                std::to_string(to.rank) + ", and to an mbarrier of rank " +
                std::to_string(tells.rank));
  }
  if (counting) trace_cluster(pc, to, Access::pushed);
  if (to.rank != BlockVariable::selected()) {
    return begin_remote_load(pc, operation, access, to, bytes, tells, std::move(move));
  }
  auto* const here =
      static_cast<std::uint64_t*>(pointer_in(to.rank, tells.at.part, tells.at.offset));
  begin_load(pc, access, to.at, bytes, here, std::move(move));
}

}  // namespace

void cluster_copy(unsigned to, const void* shared, std::size_t bytes, unsigned barrier) {
  const void* const pc = __builtin_return_address(0);
  expect_units(pc, "cluster_copy", shared, nullptr, bytes);
  const SharedRange from = shared_range(pc, shared, bytes, Access::bulk_read);
  watch_shared(pc, from.part, from.offset, bytes, Access::bulk_read);
  const std::uint64_t read = begin_read(pc, from.part, from.offset, bytes, Access::bulk_read);
  const unsigned rank = BlockVariable::selected(), thread = thread_number();
  begin_load_in_cluster(pc, "cluster_copy", Access::bulk, to, bytes, barrier, [=](char* place) {
    std::memcpy(place, memory_of(rank, from.part, from.offset), bytes);
    const InBlock of_source(rank);
    end_read(read, thread);
  });
}

void cluster_store_async(unsigned address, const void* bytes, unsigned barrier) {
  std::array<char, kUnit> value;
  std::memcpy(value.data(), bytes, kUnit);
  begin_load_in_cluster(__builtin_return_address(0), "cluster_store_async", Access::pushed, address,
                        kUnit, barrier,
                        [value](char* place) { std::memcpy(place, value.data(), kUnit); });
}

namespace {

/// Of a box that is stored or added.
TensorMap stored_map_at(const void* pc, const CUtensorMap* encoded, Corner at, const void* shared) {
  const TensorMap map = map_at(pc, encoded, at, shared);
  if (std::ranges::any_of(at, [](int x) { return x < 0; })) {
    fail_thread("the box at " + source_text(pc) +
                " begins at a negative coordinate: only loads may begin before the tensor");
  }
  const auto x = static_cast<std::uint64_t>(*at.begin());
  if (x < map.size[0] && x + map.box[0] > map.size[0] && map.size[0] * map.stride[0] % kUnit != 0) {
    fail_thread("the box at " + source_text(pc) + " ends behind element " +
                std::to_string(map.size[0]) + ", the last of the innermost dimension: of its " +
                std::to_string(kUnit) + " bytes the copy engine stores those behind it, too");
  }
  return map;
}

/// What of a box lies in the tensor.
std::vector<Store::Piece> pieces_of(const TensorMap& map, Corner at, const void* shared) {
  std::vector<Store::Piece> pieces;
  for_each_piece(map, at.begin(), shared, [&](const char* from, const char* to, unsigned bytes) {
    if (to) pieces.push_back({const_cast<char*>(to), from, bytes});
  });
  return pieces;
}

}  // namespace

void tensor_store(const CUtensorMap* encoded, Corner at, const void* shared) {
  const void* const pc = __builtin_return_address(0);
  const TensorMap map = stored_map_at(pc, encoded, at, shared);
  begin_store(pc, shared, map.box_bytes(), Access::bulk_write, pieces_of(map, at, shared),
              &copy_bytes);
}

void tensor_reduce(Reduction reduction, const CUtensorMap* encoded, Corner at, const void* shared) {
  const void* const pc = __builtin_return_address(0);
  const TensorMap map = stored_map_at(pc, encoded, at, shared);
  const std::optional<ElementType> type = element_type(map.type);
  const Combine combine = type ? reduce_with(reduction, *type) : nullptr;
  if (!combine) {
    fail_thread("the tensor_reduce at " + source_text(pc) + ": there is none of data type " +
                std::to_string(map.type));
  }
  begin_store(pc, shared, map.box_bytes(), Access::bulk_reduce, pieces_of(map, at, shared),
              combine);
}

void tensor_prefetch(const CUtensorMap* map, Corner at) {
  map_at(__builtin_return_address(0), map, at);
}

void bulk_commit_group() {
  if (recording) trace_note(__builtin_return_address(0), Note::bulk_commit);
  ++own_stores().committed;
}

void bulk_wait_group(unsigned pending, bool written) {
  if (recording) {
    trace_note(__builtin_return_address(0), Note::bulk_wait, nullptr, pending);
  }
  Stores& stores = own_stores();
  const auto begin = stores.pending.begin();
  const auto end = std::find_if(begin, stores.pending.end(), [&](const Store& store) {
    return store.group + pending >= stores.committed;
  });
  std::for_each(begin, end, [&](Store& store) {
    if (!store.has_read) {
      store.has_read = true;
      if (!store.has_written) store.take();
      end_read(store.read, thread_number());
    }
    if (!written) return;
    if (!store.has_written) store.write();
    for (const Store::Piece& piece : store.pieces) note_written(piece.to, piece.bytes);
  });
  if (written) stores.pending.erase(begin, end);
}

}  // namespace ladder::host
