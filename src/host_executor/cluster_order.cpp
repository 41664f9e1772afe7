#include "host_executor/cluster_order.hpp"

#include "host_executor/executor.hpp"

#include <algorithm>

namespace ladder::host {
namespace {

/// A thread of the block.
struct Member {
  unsigned waits = 0;                                   // phases that it has waited for
  Touch waited{};                                       // when it last did
  Stamp fenced = 0;                                     // mbarriers made until then
  std::array<std::uint32_t, kMostBlocks> last_load{};   // from other blocks
  std::array<std::uint32_t, kMostBlocks> last_store{};  // to them
};
std::vector<Member> members;
PerBlock per_block_members(members);

// What had been done by those who arrived in a phase. A thread that has arrived in one more than it
// has waited for may still ask for the last but one.
constexpr unsigned kPhases = 3;
struct Phase {
  Stamps done;
  Stamps read;  // what may be overwritten, though it need not be seen
};
std::vector<Phase> all_phases;
PerBlock per_block_phases(all_phases);

std::vector<Knowledge> known_elsewhere;  // one
PerBlock per_block_known(known_elsewhere);

ThreadClock heard_by_all;  // of other blocks, by all threads of this one
PerBlock per_block_heard_by_all(heard_by_all);

unsigned phase = 0;  // that threads arrive in
PerLaunch per_launch_phase(phase);

Phase& phase_number(unsigned number) { return all_phases[number % kPhases]; }

Stamp stamp(Epoch of_epoch, std::uint32_t time) { return Stamp{of_epoch} << 32 | time; }
Stamp stamp_of(const Touch& touch) {
  return is_remote(touch.thread) ? touch.time : stamp(touch.epoch, touch.time);
}

void raise(Stamp& to, Stamp by) { to = std::max(to, by); }
void raise(Stamps& to, const Stamps& by) {
  if (to.size() < by.size()) to.resize(by.size());
  for (std::size_t i = 0; i < by.size(); ++i) raise(to[i], by[i]);
}

std::uint32_t heard_of(unsigned thread, unsigned of) {
  std::uint32_t time = heard_by_all.empty() ? 0 : heard_by_all[of];
  if (!heard.empty() && !heard[thread].empty()) time = std::max(time, heard[thread][of]);
  return time;
}

/// Phases that a thread of the selected block knows to have ended, maybe from others.
unsigned phases_known(unsigned thread) {
  unsigned most = std::max(members[thread].waits, known_elsewhere[0].phases);
  if (most == phase) return most;
  for (const Member& member : members) {
    if (member.waits > most && ordered_in_block(member.waited, thread)) most = member.waits;
  }
  return most;
}

}  // namespace

void Knowledge::add(const Knowledge& more) {
  phases = std::max(phases, more.phases);
  for (unsigned rank = 0; rank < kMostBlocks; ++rank) raise(done[rank], more.done[rank]);
}

void begin_block_order(unsigned threads) {
  members.assign(threads, {});
  all_phases.assign(kPhases, {Stamps(clock_size), Stamps(clock_size)});
  known_elsewhere.assign(1, {});
  heard_by_all.clear();
  for (unsigned other = remote_reader(0); other < clock_size; ++other) clocks[other] = {};
  phase = 0;
}

void arrive_in_order(bool releases) {
  const unsigned thread = thread_number(), rank = BlockVariable::selected();
  Member& member = members[thread];
  Phase& now = phase_number(phase);
  const Stamp own = stamp(epoch, own_time(thread));
  raise(now.read[thread], own);
  raise(now.done[thread], releases ? own : member.fenced);
  tick(thread);
  for (unsigned other = first_reader(); other < clock_size; ++other) {
    const std::uint32_t time = heard_of(thread, other);
    const Stamp known = is_remote(other) ? time : stamp(epoch, time);
    raise(now.read[other], known);
    if (releases) raise(now.done[other], known);
  }
  for (unsigned target = 0; target < kMostBlocks; ++target) {
    const std::uint32_t loaded = member.last_load[target], stored = member.last_store[target];
    if (loaded == 0 && stored == 0) continue;
    const InBlock there(target);
    Phase& phase_there = phase_number(phase);
    raise(phase_there.read[remote_reader(rank)], loaded);
    raise(phase_there.done[remote_reader(rank)], loaded);
    raise(phase_there.read[remote_writer(rank)], stored);
    if (releases) raise(phase_there.done[remote_writer(rank)], stored);
  }
}

void wait_in_order() {
  const unsigned thread = thread_number();
  Member& member = members[thread];
  ++member.waits;
  member.waited = Touch::now(nullptr, Access::load);
  tick(thread);
}

void end_in_order() {
  Phase& now = phase_number(phase);
  now.done[thread_number()] = now.read[thread_number()] = ~Stamp{0};
}

void end_phase_in_order(unsigned blocks) {
  for (unsigned rank = 0; rank < blocks; ++rank) {
    const InBlock each(rank);
    phase_number(phase + 1) = phase_number(phase);
  }
  ++phase;
}

void fence_inits() {
  const unsigned thread = thread_number();
  members[thread].fenced = stamp(epoch, own_time(thread));
  tick(thread);
}

Knowledge own_knowledge(unsigned rank) {
  const unsigned thread = thread_number(), warp = thread / kWarpSize;
  Knowledge knowledge = known_elsewhere[0];
  knowledge.phases = phases_known(thread);
  Stamps& done = knowledge.done[rank];
  done.resize(clock_size);
  for (unsigned other = 0; other < clock_size; ++other) {
    std::uint32_t time = heard_of(thread, other);
    if (other / kWarpSize == warp && other < first_reader()) {
      time = std::max(time, clocks[thread][other % kWarpSize]);
    }
    if (other == thread) time = own_time(thread);
    raise(done[other], is_remote(other) ? time : stamp(epoch, time));
  }
  tick(thread);
  return knowledge;
}

void learn(const Knowledge& knowledge) { known_elsewhere[0].add(knowledge); }

void share_remote_in_block() {
  for (const ThreadClock& of_thread : heard) {
    if (of_thread.empty()) continue;
    heard_by_all.resize(clock_size);
    for (unsigned other = remote_reader(0); other < clock_size; ++other) {
      heard_by_all[other] = std::max(heard_by_all[other], of_thread[other]);
    }
  }
}

bool ordered_by_cluster(const Touch& past, unsigned thread) {
  if (thread >= members.size()) return false;
  const unsigned known = phases_known(thread);
  return known > 0 && phase_number(known - 1).done[past.thread] >= stamp_of(past);
}

bool ordered_after_remote(const Touch& past, unsigned thread) {
  return past.epoch < block_began || heard_of(thread, past.thread) >= past.time ||
         ordered_by_cluster(past, thread);
}

RemoteThread::RemoteThread(unsigned rank, unsigned target)
    : rank_(rank), phases_(phases_known(thread_number())), done_(known_elsewhere[0].done[target]) {}

bool RemoteThread::knows(const Touch& past, bool may_overwrite) const {
  if (past.epoch < block_began) return true;
  if (past.thread == remote_reader(rank_) || past.thread == remote_writer(rank_)) return true;
  if (phases_ > 0) {
    const Phase& known = phase_number(phases_ - 1);
    if ((may_overwrite ? known.read : known.done)[past.thread] >= stamp_of(past)) return true;
  }
  return may_overwrite && past.thread < done_.size() && done_[past.thread] >= stamp_of(past);
}

void note_remote_load(unsigned target, std::uint32_t time) {
  members[thread_number()].last_load[target] = time;
}
std::uint32_t last_remote_load(unsigned target) {
  return members[thread_number()].last_load[target];
}

void note_remote_store(unsigned target, std::uint32_t time) {
  members[thread_number()].last_store[target] = time;
}

bool knows_loads(unsigned rank) {
  const unsigned reader = remote_reader(rank);
  const std::uint32_t last = own_time(reader) - 1;
  unsigned waits = 0;
  for (unsigned thread = 0; thread < members.size(); ++thread) {
    waits = std::max(waits, members[thread].waits);
    if (heard_of(thread, reader) >= last) return true;
  }
  return last == 0 || (waits > 0 && phase_number(waits - 1).done[reader] >= last);
}

}  // namespace ladder::host
