#include "host_executor/warpgroup.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/races.hpp"
#include "host_executor/recording.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"

namespace ladder::host {
namespace {

constexpr unsigned kThreads = 128;  // of a warpgroup

struct Product {
  Wgmma shape;
  bool a_is_shared;
  std::uint64_t a, b;
  bool add;
  const void* pc;
  std::uint64_t group;
  unsigned asked = 0;                                        // threads that have asked for it
  std::array<void*, kThreads> d{};                           // of each
  std::array<const std::uint32_t*, kThreads> a_registers{};  // of each
  bool is_done = false;
  std::vector<std::uint64_t> reads{};  // of shared memory, under watch

  bool is_same(const Product& other) const {
    return shape == other.shape && a_is_shared == other.a_is_shared && a == other.a &&
           b == other.b && add == other.add && pc == other.pc && group == other.group;
  }
};

constexpr std::uintptr_t kRegister = 4;  // bytes

/// Some of a thread's, by their numbers: addresses in units of kRegister.
struct Registers {
  std::uintptr_t begin = 0, end = 0;

  Registers(const void* first, std::size_t bytes)
      : begin(reinterpret_cast<std::uintptr_t>(first) / kRegister),
        end((reinterpret_cast<std::uintptr_t>(first) + bytes + kRegister - 1) / kRegister) {}
  bool meet(const Registers& other) const { return begin < other.end && other.begin < end; }
  /// What lies between them too.
  void widen(const Registers& other) {
    if (other.begin == other.end) return;
    *this =
        begin == end ? other : Registers(std::min(begin, other.begin), std::max(end, other.end));
  }

 private:
  Registers(std::uintptr_t first, std::uintptr_t last) : begin(first), end(last) {}
};
Registers sums_of(const Product& product, unsigned member) {
  return {product.d[member], product.shape.n / 2 * kRegister};
}
Registers a_of(const Product& product, unsigned member) {
  return {product.a_registers[member], product.a_is_shared ? 0 : 4 * kRegister};
}

struct RegisterTouch {
  const void* pc;
  Access access;
};

/// The last touch of each of a thread's registers since they were cleared: a hash table with linear
/// probing, as a map that allocates each of them would take a quarter of the time of a kernel of products.
class TouchedRegisters {
 public:
  bool empty() const { return count_ == 0; }
  void clear() {
    ++round_;
    count_ = 0;
  }
  void set(std::uintptr_t number, RegisterTouch touch) {
    if (2 * count_ >= slots_.size()) grow();
    Slot& slot = slot_of(number);
    if (slot.round != round_) ++count_;
    slot = {number, static_cast<std::uint8_t>(touch.access), round_,
            static_cast<std::int32_t>(static_cast<const char*>(touch.pc) - Touch::anchor())};
  }
  /// Nothing if there is none.
  std::optional<RegisterTouch> find(std::uintptr_t number) {
    if (empty()) return {};
    const Slot& slot = slot_of(number);
    if (slot.round != round_) return {};
    return RegisterTouch{Touch::anchor() + slot.pc, static_cast<Access>(slot.kind)};
  }

 private:
  /// Small, as those of all threads are more than a cache holds.
  struct Slot {
    std::uint64_t number : 56 = 0;
    std::uint64_t kind : 8 = 0;  // an Access
    std::uint32_t round = 0;     // in which it was set
    std::int32_t pc = 0;         // as a Touch has it
  };
  static_assert(sizeof(Slot) == 16);

  /// Its own, or the free one for it.
  Slot& slot_of(std::uintptr_t number) {
    std::size_t i = number & (slots_.size() - 1);
    while (slots_[i].round == round_ && slots_[i].number != number)
      i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, {});
    slots_.resize(before.empty() ? 64 : 2 * before.size());
    for (const Slot& slot : before) {
      if (slot.round == round_) slot_of(slot.number) = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t count_ = 0;
  std::uint32_t round_ = 1;
};

struct Member {
  std::uint64_t products = 0, groups = 0;  // that the thread has asked for
  bool is_fenced = false;
  TouchedRegisters touched{};       // since its last fence
  Registers under_way{nullptr, 0};  // at least those that the products under way have
};

struct Warpgroup {
  std::array<Member, kThreads> members;
  std::deque<Product> under_way;
  std::uint64_t finished = 0;  // products before those
  unsigned waiting = 0;        // threads
};
std::deque<Warpgroup> warpgroups;  // grows as they multiply, and moves none
PerBlock per_block_warpgroups(warpgroups);
PerBlock per_block_watches_registers(watches_registers);

Warpgroup& own_warpgroup() {
  const unsigned number = thread_number() / kThreads;
  if (warpgroups.size() <= number) warpgroups.resize(number + 1);
  return warpgroups[number];
}

Member& own_member() { return own_warpgroup().members[thread_number() % kThreads]; }

/// Calls visit(part, offset, bytes) for what a product reads of shared memory.
template <class Visit>
void for_each_read(const Product& product, Visit visit) {
  const auto decoded = [&](const char* name, std::uint64_t descriptor) {
    const std::string error = descriptor_error(descriptor);
    if (!error.empty()) {
      fail_thread("the wgmma at " + source_text(product.pc) + ": the descriptor of " + name + " " +
                  error);
    }
    return MatrixDescriptor::decode(descriptor);
  };
  const auto visit_all = [&](const std::vector<AddressRange>& ranges) {
    for (const auto& [begin, end] : ranges) {
      const auto [part, offset] =
          shared_range(product.pc, shared_pointer(begin), end - begin, Access::product);
      visit(part, offset, end - begin);
    }
  };
  if (product.a_is_shared) visit_all(ranges_of_a(product.shape, decoded("A", product.a)));
  visit_all(ranges_of_b(product.shape, decoded("B", product.b)));
}

/// By the first thread that asks for it: the others may have waited for more by then, but the
/// product waits for none of them.
void expect_operands(const Product& product) {
  for_each_read(product, [&](SharedPart part, std::size_t offset, std::size_t bytes) {
    expect_landed(product.pc, part, offset, bytes, Access::product);
  });
}

void watch(Product& product) {
  for_each_read(product, [&](SharedPart part, std::size_t offset, std::size_t bytes) {
    product.reads.push_back(begin_read(product.pc, part, offset, bytes, Access::product));
  });
}

void carry_out(Product& product) {
  const auto read = [&](unsigned address) -> const void* {
    const void* const chunk = shared_pointer(address);
    const auto [part, offset] = shared_range(product.pc, chunk, 16, Access::product);
    watch_shared(product.pc, part, offset, 16, Access::product);
    return chunk;
  };
  const auto b = MatrixDescriptor::decode(product.b);
  if (product.a_is_shared) {
    multiply(product.shape, MatrixDescriptor::decode(product.a), b, read, product.d.data(),
             product.add);
  } else {
    multiply(product.shape, product.a_registers.data(), b, read, product.d.data(), product.add);
  }
  product.is_done = true;
}

/// All threads wait: what is to be done for that.
void finish(Warpgroup& warpgroup, unsigned pending) {
  const Member& own = own_member();
  for (const Member& member : warpgroup.members) {
    if (member.products == own.products && member.groups == own.groups) continue;
    fail_thread("wgmma_wait_group: threads of the warpgroup have asked for different products");
  }
  const unsigned number = thread_number() / kThreads;
  const unsigned reader = first_reader() + number;
  bool any = false;
  while (!warpgroup.under_way.empty()) {
    Product& product = warpgroup.under_way.front();
    if (product.group + pending >= own.groups) break;
    if (!product.is_done) carry_out(product);
    for (const std::uint64_t read : product.reads) end_read(read, reader);
    warpgroup.under_way.pop_front();
    ++warpgroup.finished;
    any = true;
  }
  if (!any) return;
  if (warpgroup.under_way.empty()) {
    for (Member& member : warpgroup.members) member.under_way = {nullptr, 0};
  }
  for (unsigned i = 0; i < kThreads; ++i) hear(number * kThreads + i, reader, own_time(reader));
  tick(reader);
}

std::string describe(const void* object, std::uint64_t pending) {
  return "wgmma_wait_group<" + std::to_string(pending) +
         ">: " + std::to_string(static_cast<const Warpgroup*>(object)->waiting) +
         " of the warpgroup's 128 threads";
}

}  // namespace

void reset_products() {
  warpgroups.clear();
  watches_registers = false;
}

void expect_no_products() {
  for (const Warpgroup& warpgroup : warpgroups) {
    if (warpgroup.under_way.empty()) continue;
    fail_thread("the block ends while the wgmma at " + source_text(warpgroup.under_way.front().pc) +
                " is under way: nobody has waited for it");
  }
}

void wgmma_fence() {
  Member& member = own_member();
  member.is_fenced = true;
  member.touched.clear();
  watches_registers = true;
}

namespace {

void expect_fenced(Member& member, const Registers& registers, const void* pc) {
  for (std::uintptr_t i = registers.begin; i < registers.end; ++i) {
    const std::optional<RegisterTouch> found = member.touched.find(i);
    if (!found) continue;
    fail_thread("the wgmma at " + source_text(pc) + " follows no wgmma_fence since the " +
                name_of(found->access) + " at " + source_text(found->pc) +
                " of a register of its own");
  }
}

void ask_for(const void* pc, const Wgmma& shape, void* d, std::uint64_t a,
             const std::uint32_t* a_registers, std::uint64_t b, bool add) {
  Warpgroup& warpgroup = own_warpgroup();
  Member& member = own_member();
  if (!member.is_fenced) {
    fail_thread("the wgmma at " + source_text(pc) +
                " follows no wgmma_fence: sums that were written before need not be seen");
  }
  const Product asked{.shape = shape,
                      .a_is_shared = a_registers == nullptr,
                      .a = a,
                      .b = b,
                      .add = add,
                      .pc = pc,
                      .group = member.groups};
  const std::uint64_t index = member.products++ - warpgroup.finished;
  if (index == warpgroup.under_way.size()) {
    expect_operands(asked);
    warpgroup.under_way.push_back(asked);
  }
  Product& product = warpgroup.under_way[index];
  if (!product.is_same(asked)) {
    fail_thread("the threads of a warpgroup ask for different products: this one at " +
                source_text(pc) + ", others at " + source_text(product.pc));
  }
  if (recording) {
    trace_note(pc, Note::wgmma, nullptr, bytes_read(shape, product.a_is_shared));
  }
  const unsigned number = thread_number() % kThreads;
  product.d[number] = d;
  product.a_registers[number] = a_registers;
  member.under_way.widen(sums_of(product, number));
  member.under_way.widen(a_of(product, number));
  if (!member.touched.empty()) {
    expect_fenced(member, sums_of(product, number), pc);
    expect_fenced(member, a_of(product, number), pc);
  }
  if (++product.asked < kThreads) return;
  watch(product);
  if (counting) count_product(bytes_read(shape, product.a_is_shared));
  if (is_eager()) carry_out(product);
}

}  // namespace

void wgmma(const Wgmma& shape, void* d, std::uint64_t a, std::uint64_t b, bool add) {
  ask_for(__builtin_return_address(0), shape, d, a, nullptr, b, add);
}
void wgmma(const Wgmma& shape, void* d, const std::uint32_t* a, std::uint64_t b, bool add) {
  ask_for(__builtin_return_address(0), shape, d, 0, a, b, add);
}

void wgmma_commit_group() {
  if (recording) trace_note(__builtin_return_address(0), Note::wgmma_commit);
  ++own_member().groups;
}

void wgmma_wait_group(unsigned pending, bool reads, std::source_location at) {
  const void* const pc = __builtin_return_address(0);
  Warpgroup& warpgroup = own_warpgroup();
  if (reads) own_member().is_fenced = false;
  if (recording) trace_note(pc, Note::wgmma_wait, nullptr, pending);
  if (++warpgroup.waiting < kThreads) {
    park(&warpgroup, pending, &describe, at);
  } else {
    warpgroup.waiting = 0;
    finish(warpgroup, pending);
    wake(&warpgroup);
  }
  if (recording) trace_note(pc, Note::wgmma_passed);
}

namespace {

/// Ends the launch if a product under way has one of the registers.
void expect_none_under_way(const void* pc, const Registers& touched, Access access,
                           const Warpgroup& warpgroup, unsigned number) {
  for (const Product& product : warpgroup.under_way) {
    const bool is_sum = touched.meet(sums_of(product, number));
    if (!is_sum && !touched.meet(a_of(product, number))) continue;
    const Member& member = warpgroup.members[number];
    fail_thread("a register of " + std::string(is_sum ? "D" : "A") +
                " is touched while a product has it: the " + name_of(access) + " at " +
                source_text(pc) + " finds the wgmma at " + source_text(product.pc) +
                " under way, " +
                (product.group == member.groups ? "in no group: no wgmma_commit_group has come"
                                                : "and no wgmma_wait_group has waited for it"));
  }
}

}  // namespace

void touch_registers(const void* pc, const void* address, std::size_t bytes, Access access) {
  Warpgroup& warpgroup = own_warpgroup();
  const unsigned number = thread_number() % kThreads;
  Member& member = warpgroup.members[number];
  const Registers touched(address, bytes);
  if (touched.meet(member.under_way)) [[unlikely]] {
    expect_none_under_way(pc, touched, access, warpgroup, number);
  }
  for (std::uintptr_t i = touched.begin; i < touched.end; ++i) member.touched.set(i, {pc, access});
}

}  // namespace ladder::host
