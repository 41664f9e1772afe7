#include "host_executor/counting.hpp"

#include "host_executor/executor.hpp"
#include "host_executor/lanes.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/recording.hpp"
#include "host_executor/source.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace ladder::host {

bool counting = false;

namespace {

constexpr std::size_t kSectorBytes = 32;
constexpr std::size_t kBanks = 32;
constexpr std::size_t kBankBytes = 4;

/// Something a lane did. A meeting's pc is its number within the warp, its address the lanes that
/// met. A note's address is the object, its source the detail; there are notes while recording.
struct Event {
  enum class Kind : std::uint8_t { access, block, meeting, note };
  std::uintptr_t pc;
  std::uintptr_t address;
  Kind kind;
  Space space{};
  Access access{};
  std::uint8_t bytes = 0;  // or which Note
  std::uint32_t order = next_order();
  std::uintptr_t source = 0;  // of Access::async; in a cluster the other block

  /// Whether two lanes do the same; then the warp does it once.
  bool matches(const Event& other) const {
    return pc == other.pc && kind == other.kind && space == other.space && access == other.access &&
           (kind != Kind::note || bytes == other.bytes);
  }
};
using Trace = std::vector<Event>;

/// Requests of one instruction.
struct Instruction {
  std::uintptr_t pc;
  Space space;
  Access access;
  unsigned width;
  Requests requests;
};

std::vector<Trace> traces(kMaxThreads);
std::vector<std::uintptr_t> meetings(kMaxThreads / kWarpSize);  // so far, by warp
PerBlock per_block_traces(traces);
PerBlock per_block_meetings(meetings);
Counters totals;
std::unordered_map<std::uintptr_t, std::vector<Instruction>> instructions;  // by pc

// --- One request -------------------------------------------------------------------------------

/// Sorts (most requests are sorted already) and returns the distinct ones.
std::span<std::uintptr_t> distinct(std::span<std::uintptr_t> values) {
  if (!std::is_sorted(values.begin(), values.end())) std::sort(values.begin(), values.end());
  return values.first(
      static_cast<std::size_t>(std::unique(values.begin(), values.end()) - values.begin()));
}

/// A warp's request: the lanes that take part and their addresses, in order.
struct Request {
  std::array<std::uintptr_t, kWarpSize> address, source;
  std::array<std::uint8_t, kWarpSize> lane;
  unsigned lanes = 0;
  unsigned width = 0;  // bytes per lane

  void add(unsigned i, const Event& event) {
    address[lanes] = event.address;
    source[lanes] = event.source;
    lane[lanes++] = static_cast<std::uint8_t>(i);
    width = std::max<unsigned>(width, event.bytes);
  }
};

/// The sectors a request touches; an access is aligned to its width, so it touches one.
void count_global(const Request& request, Access access, Requests& out) {
  auto addresses = request.address;
  const auto different = distinct({addresses.data(), request.lanes});
  out.ideal += (different.size() * request.width + kSectorBytes - 1) / kSectorBytes;
  if (access != Access::atomic) {
    for (auto& a : different) a /= kSectorBytes;
    out.units += distinct(different).size();
    return;
  }
  // Lanes that change the same address take turns; different ones of a sector go together.
  std::map<std::uintptr_t, unsigned> lanes_at, turns;
  for (unsigned i = 0; i < request.lanes; ++i) ++lanes_at[request.address[i]];
  for (const auto& [a, lanes] : lanes_at) {
    unsigned& most = turns[a / kSectorBytes];
    most = std::max(most, lanes);
  }
  for (const auto& [sector, most] : turns) out.units += most;
}

/// Whether every lane has the address of the lane that differs from it in this bit, if that takes
/// part.
bool same_across(const Request& request, unsigned bit) {
  std::array<std::uintptr_t, kWarpSize> of_lane{};  // 0: takes no part
  for (unsigned i = 0; i < request.lanes; ++i) of_lane[request.lane[i]] = request.address[i];
  for (unsigned i = 0; i < request.lanes; ++i) {
    const std::uintptr_t other = of_lane[request.lane[i] ^ bit];
    if (other != 0 && other != request.address[i]) return false;
  }
  return true;
}

/// The wavefronts a request takes. A request of 8 bytes per lane is served by half warps, one of 16
/// by quarters; a load by parts twice as large if in all the warp lanes 2i and 2i+1, or lanes i and
/// i+2, ask for the same. In each part every bank gives one word per wavefront, to all lanes that
/// want it; of an atomic only one lane at a time gets it. (Measured on an H100:
/// test/h100_wavefronts.csv.)
void count_shared(const Request& request, Access access, Requests& out) {
  const unsigned words_each = std::max<unsigned>(1, request.width / kBankBytes);
  unsigned part_lanes = kWarpSize / words_each;
  if (access == Access::load && words_each > 1 &&
      (same_across(request, 1) || same_across(request, 2))) {
    part_lanes *= 2;
  }
  std::array<std::uintptr_t, 2 * kWarpSize> words;
  for (unsigned i = 0; i < request.lanes;) {
    const unsigned part = request.lane[i] / part_lanes;
    unsigned n = 0;
    for (; i < request.lanes && request.lane[i] / part_lanes == part; ++i) {
      for (unsigned w = 0; w < words_each; ++w) {
        words[n++] = request.address[i] / kBankBytes + w;
      }
    }
    std::span<std::uintptr_t> wanted{words.data(), n};
    if (access != Access::atomic) wanted = distinct(wanted);
    std::array<std::uint8_t, kBanks> conflicts{};
    for (const std::uintptr_t word : wanted) ++conflicts[word % kBanks];
    out.units += *std::max_element(conflicts.begin(), conflicts.end());
    out.ideal += 1;
  }
}

/// The wavefronts of a cp.async: the bytes of each line of the cache come and are written by
/// themselves. The zeros of lanes that read nothing go along with them, or are written at once if
/// there is nothing else.
void count_async(const Request& request, Requests& out) {
  constexpr std::size_t kLineBytes = 128;
  std::map<std::uintptr_t, std::array<std::uint8_t, kBanks>> lines;  // 0: zeros
  for (unsigned i = 0; i < request.lanes; ++i) {
    for (unsigned w = 0; w < request.width / kBankBytes; ++w) {
      ++lines[request.source[i] / kLineBytes][(request.address[i] / kBankBytes + w) % kBanks];
    }
  }
  if (lines.size() > 1) lines.erase(0);
  for (const auto& [line, conflicts] : lines) {
    out.units += *std::max_element(conflicts.begin(), conflicts.end());
  }
  out.ideal += (request.lanes * request.width + kLineBytes - 1) / kLineBytes;
}

/// By the blocks whose shared memory it is, of which the running one is 0.
void count_cluster(const Request& request, Access access, Requests& out) {
  std::map<std::uintptr_t, Request> of_block;
  for (unsigned i = 0; i < request.lanes; ++i) {
    Request& part = of_block[request.source[i]];
    part.address[part.lanes] = request.address[i];
    part.lane[part.lanes++] = request.lane[i];
    part.width = request.width;
  }
  for (const auto& [block, part] : of_block) {
    Requests counted{.lanes = part.lanes, .bytes = std::uint64_t{part.lanes} * part.width};
    count_shared(part, access == Access::cluster_load ? Access::load : Access::store, counted);
    if (block == 0 && access == Access::cluster_load) totals.own_cluster_load += counted;
    out.units += counted.units;
    out.ideal += counted.ideal;
  }
}

Requests count_request(const Event& event, const Request& request) {
  Requests counted{
      .requests = 1, .lanes = request.lanes, .bytes = std::uint64_t{request.lanes} * request.width};
  if (event.access == Access::async) {
    count_async(request, counted);
  } else if (event.access == Access::cluster_load || event.access == Access::pushed) {
    count_cluster(request, event.access, counted);
  } else {
    (event.space == Space::global ? count_global : count_shared)(request, event.access, counted);
  }
  totals.of(event.space, event.access) += counted;

  auto& known = instructions[event.pc];
  auto same = std::find_if(known.begin(), known.end(), [&](const Instruction& i) {
    return i.space == event.space && i.access == event.access && i.width == request.width;
  });
  if (same == known.end()) {
    same = known.insert(same, {event.pc, event.space, event.access, request.width, {}});
  }
  same->requests += counted;
  return counted;
}

// --- The order in which a warp does what its lanes did -----------------------------------------

/// A loop of the code: its first and its last known address.
struct Loop {
  std::uintptr_t head, end;
  bool contains(std::uintptr_t pc) const { return head <= pc && pc <= end; }
};

class Merge {
 public:
  Merge(std::span<Trace> lanes, unsigned warp) : lanes_(lanes), warp_(warp) {
    for (unsigned i = 0; i < lanes.size(); ++i) {
      if (!lanes[i].empty()) pending_ |= 1u << i;
    }
  }

  void run() {
    if (alike()) return count_alike();
    find_loops();
    for (auto& iterations : iterations_) iterations.assign(loops_.size(), 0);
    for (;;) {
      if (has_meetings_) pass_meetings();
      if (pending_ == 0) return;
      const unsigned group = together_ ? all_at_once() : next_group();
      step(group);
      together_ = group == pending_;
      for_each_lane(group, [&](unsigned i) { advance(i); });
    }
  }

 private:
  const Event& front(unsigned i) const { return lanes_[i][at_[i]]; }

  /// Whether all pending lanes did the same from beginning to end, and met nowhere between.
  bool alike() const {
    if (pending_ == 0) return true;
    const Trace& first = lanes_[first_lane(pending_)];
    bool same = std::ranges::none_of(
        first, [](const Event& event) { return event.kind == Event::Kind::meeting; });
    for_each_lane(pending_, [&](unsigned i) {
      same = same && std::ranges::equal(lanes_[i], first, [](const Event& a, const Event& b) {
               return a.matches(b);
             });
    });
    return same;
  }

  void count_alike() {
    if (pending_ == 0) return;
    const std::size_t events = lanes_[first_lane(pending_)].size();
    for (std::size_t event = 0; event < events; ++event) {
      at_.fill(event);
      step(pending_);
    }
  }

  /// A jump back to a block is a loop.
  void find_loops() {
    for (const Trace& trace : lanes_) {
      std::uintptr_t last = 0;
      for (const Event& event : trace) {
        if (event.kind == Event::Kind::meeting) {
          has_meetings_ = true;
          continue;
        }
        if (event.kind == Event::Kind::block && event.pc <= last) add_loop(event.pc, last);
        last = event.pc;
      }
    }
    std::sort(loops_.begin(), loops_.end(), [](const Loop& a, const Loop& b) {
      return std::make_tuple(a.head, b.end) < std::make_tuple(b.head, a.end);  // outer ones first
    });
  }

  void add_loop(std::uintptr_t head, std::uintptr_t end) {
    const auto known =
        std::find_if(loops_.begin(), loops_.end(), [&](const Loop& l) { return l.head == head; });
    if (known == loops_.end()) {
      loops_.push_back({head, end});
    } else {
      known->end = std::max(known->end, end);
    }
  }

  /// Lanes that have all come to their meeting go on.
  void pass_meetings() {
    for (bool passed = true; passed;) {
      passed = false;
      for_each_lane(pending_, [&](unsigned i) {
        if (!(pending_ >> i & 1) || front(i).kind != Event::Kind::meeting) return;
        const Event meeting = front(i);
        const auto taking_part = static_cast<unsigned>(meeting.address);
        bool all = true;
        for_each_lane(taking_part, [&](unsigned other) {
          all &= (pending_ >> other & 1) && front(other).kind == Event::Kind::meeting &&
                 front(other).pc == meeting.pc;
        });
        if (!all) return;
        for_each_lane(taking_part, [&](unsigned other) { advance(other); });
        passed = true;
      });
    }
  }

  /// All lanes, if they are still doing the same.
  unsigned all_at_once() {
    const Event& first = front(first_lane(pending_));
    bool same = true;
    for_each_lane(pending_, [&](unsigned i) { same &= front(i).matches(first); });
    return same ? pending_ : next_group();
  }

  /// The lanes that are the furthest behind.
  unsigned next_group() const {
    unsigned group = 0, best = 0;
    for_each_lane(pending_, [&](unsigned i) {
      if (front(i).kind == Event::Kind::meeting) return;
      const int order = group == 0 ? -1 : compare(i, best);
      if (order < 0) {
        best = i;
        group = 1u << i;
      } else if (order == 0) {
        group |= 1u << i;
      }
    });
    return group;
  }

  /// Below 0 if lane a has to go before lane b: it is in an earlier iteration of a loop that both
  /// are in, or at a lower address.
  int compare(unsigned a, unsigned b) const {
    const Event &x = front(a), &y = front(b);
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      if (!loops_[i].contains(x.pc) || !loops_[i].contains(y.pc)) continue;
      if (iterations_[a][i] != iterations_[b][i]) {
        return iterations_[a][i] < iterations_[b][i] ? -1 : 1;
      }
    }
    if (x.pc != y.pc) return x.pc < y.pc ? -1 : 1;
    return x.matches(y) ? 0 : -1;
  }

  void step(unsigned group) {
    const Event& event = front(first_lane(group));
    if (event.kind == Event::Kind::block) return;
    Request request;
    for_each_lane(group, [&](unsigned i) { request.add(i, front(i)); });
    Requests counted;
    if (event.kind == Event::Kind::access) counted = count_request(event, request);
    if (recording && is_recorded(warp_)) record(group, request, counted);
  }

  void record(unsigned group, const Request& request, const Requests& counted) {
    const Event& event = front(first_lane(group));
    RecordedStep step;
    step.lanes = group;
    if (event.kind == Event::Kind::note) {
      step.kind = RecordedStep::Kind::note;
      step.note = static_cast<Note>(event.bytes);
      step.object = event.address;
      step.detail = event.source;
    } else {
      step.space = event.space;
      step.access = event.access;
      step.width = request.width;
      step.counted = counted;
      step.addresses.assign(request.address.begin(), request.address.begin() + request.lanes);
      if (event.access == Access::async) {
        step.sources.assign(request.source.begin(), request.source.begin() + request.lanes);
      }
    }
    std::uint32_t order = 0;
    for_each_lane(group, [&](unsigned i) { order = std::max(order, front(i).order); });
    record_step(reinterpret_cast<const void*>(event.pc), warp_, order, std::move(step));
  }

  /// Lane i has done what came next.
  void advance(unsigned i) {
    if (front(i).kind != Event::Kind::meeting) last_pc_[i] = front(i).pc;
    if (++at_[i] == lanes_[i].size()) {
      pending_ &= ~(1u << i);
      return;
    }
    const std::uintptr_t from = last_pc_[i], to = front(i).pc;
    if (front(i).kind != Event::Kind::block || to > from) return;
    for (std::size_t l = 0; l < loops_.size(); ++l) {
      if (loops_[l].head == to) {
        ++iterations_[i][l];
      } else if (loops_[l].head > to && loops_[l].head <= from) {
        iterations_[i][l] = 0;  // an inner loop, which begins anew
      }
    }
  }

  std::span<Trace> lanes_;
  unsigned warp_;
  std::array<std::size_t, kWarpSize> at_{};
  unsigned pending_ = 0;  // lanes that have something left to do
  bool together_ = true;  // the last step was one of all pending lanes
  bool has_meetings_ = false;
  std::array<std::uintptr_t, kWarpSize> last_pc_{};
  std::vector<Loop> loops_;                                       // of all lanes
  std::array<std::vector<std::uint32_t>, kWarpSize> iterations_;  // by lane and loop
};

/// Takes the parts of an event: a whole one would be put together in memory and copied.
void trace(auto... parts) { traces[thread_number()].emplace_back(parts...); }

std::uintptr_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

/// The instructions by the lines they come from.
std::vector<LineCounters> by_line() {
  std::vector<std::uintptr_t> pcs;
  for (const auto& [pc, same_pc] : instructions) pcs.push_back(pc);
  const std::vector<SourceLine> places = source_lines(pcs);
  using Key = std::tuple<std::string, int, Space, Access, unsigned>;
  std::map<Key, Requests> lines;
  for (std::size_t i = 0; i < pcs.size(); ++i) {
    for (const Instruction& instruction : instructions[pcs[i]]) {
      lines[{places[i].file, places[i].line, instruction.space, instruction.access,
             instruction.width}] += instruction.requests;
    }
  }
  std::vector<LineCounters> all;
  for (const auto& [key, requests] : lines) {
    const auto& [file, line, space, access, width] = key;
    all.push_back({file, line, space, access, width, requests});
  }
  return all;
}

}  // namespace

Counters count(const std::function<void()>& work) {
  totals = {};
  instructions.clear();
  for (Trace& trace : traces) trace.clear();
  const struct Counting {
    Counting() { counting = true; }
    ~Counting() { counting = false; }
  } while_working;
  work();
  totals.lines = by_line();
  return totals;
}

void trace_access(const void* pc, const void* address, unsigned bytes, Space space, Access access) {
  trace(address_of(pc), address_of(address), Event::Kind::access, space, access,
        static_cast<std::uint8_t>(bytes));
}

void trace_as(Access access) { traces[thread_number()].back().access = access; }

void trace_cluster_access(const void* pc, const void* address, unsigned bytes, Access access,
                          unsigned other) {
  trace_access(pc, address, bytes, Space::shared, access);
  traces[thread_number()].back().source = other;
}

void trace_source(const void* address) {
  traces[thread_number()].back().source = address_of(address);
}

void trace_block(const void* pc) { trace(address_of(pc), std::uintptr_t{0}, Event::Kind::block); }

void trace_note(const void* pc, Note note, const void* object, std::uint64_t detail) {
  trace(address_of(pc), address_of(object), Event::Kind::note, Space{}, Access{},
        static_cast<std::uint8_t>(note));
  traces[thread_number()].back().source = detail;
}

void trace_meeting(unsigned warp, unsigned lanes, unsigned ended) {
  Trace* const of_lane = &traces[std::size_t{warp} * kWarpSize];
  bool nobody_else = (lanes | ended) == ~0u;
  for (unsigned i = 0; i < kWarpSize; ++i) nobody_else &= (lanes >> i & 1) || of_lane[i].empty();
  if (nobody_else) {
    merge_traces(warp);
    return;
  }
  const std::uintptr_t number = ++meetings[warp];
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (lanes >> i & 1) {
      of_lane[i].push_back({.pc = number, .address = lanes, .kind = Event::Kind::meeting});
    }
  }
}

void merge_traces(unsigned warp) {
  const std::span<Trace> lanes{&traces[std::size_t{warp} * kWarpSize], kWarpSize};
  Merge(lanes, warp).run();
  for (Trace& trace : lanes) trace.clear();
}

void begin_traces() {
  traces.resize(kMaxThreads);
  meetings.resize(kMaxThreads / kWarpSize);
}

void count_bulk(Access access, const BulkCopies& copy) {
  BulkCopies& total = access == Access::load ? totals.bulk_load : totals.bulk_store;
  total.copies += copy.copies;
  total.bytes += copy.bytes;
  total.sectors += copy.sectors;
}

void count_product(std::uint64_t bytes) {
  ++totals.wgmma.products;
  totals.wgmma.bytes += bytes;
}

void count_barrier() { ++totals.barriers; }

void count_mbarrier_phase() { ++totals.mbarrier_phases; }

}  // namespace ladder::host
