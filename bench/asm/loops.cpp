#include "asm/machine_code.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace ladder {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// Instructions that are always carried out together, and which blocks may follow.
struct Block {
  std::size_t begin, end;  ///< numbers of instructions
  std::vector<std::size_t> next, previous;
};

/// Where an instruction may lead to: numbers of instructions.
std::vector<std::size_t> followers(const MachineCode& code, std::size_t at) {
  const Instruction& instruction = code.instructions[at];
  const std::string name = instruction.name();
  const auto target = [&](const std::string& label) {
    const auto found = std::find_if(code.labels.begin(), code.labels.end(),
                                    [&](const auto& each) { return each.name == label; });
    return found == code.labels.end() ? kNone : found->at;
  };
  std::vector<std::size_t> next;
  bool falls_through = true;
  if (name == "BRA" || name == "JMP") {
    next.push_back(target(instruction.label));
    const std::size_t comma = instruction.text.find(',');  // BRA.U !UP0, `(.L_x_1)
    falls_through = instruction.conditional || comma < instruction.text.find("`(");
  } else if (name == "BSYNC") {  // to the label of its BSSY, where the lanes meet again
    const std::string barrier = instruction.text.substr(instruction.text.rfind(' ') + 1);
    for (std::size_t i = at; i-- > 0;) {
      const Instruction& before = code.instructions[i];
      if (before.name() != "BSSY" || before.text.find(barrier + ",") == std::string::npos) continue;
      next.push_back(target(before.label));
      break;
    }
    falls_through = instruction.conditional || next.empty();
  } else if (name == "EXIT" || name == "RET" || name == "BRX" || name == "JMX" || name == "KILL") {
    falls_through = instruction.conditional;
  }
  if (falls_through) next.push_back(at + 1);
  std::erase_if(next, [&](std::size_t i) { return i >= code.instructions.size(); });
  return next;
}

std::vector<Block> blocks_of(const MachineCode& code) {
  const std::size_t n = code.instructions.size();
  std::vector<std::vector<std::size_t>> next(n);
  std::set<std::size_t> heads{0};
  for (std::size_t i = 0; i < n; ++i) {
    next[i] = followers(code, i);
    if (next[i] == std::vector{i + 1}) continue;
    heads.insert(next[i].begin(), next[i].end());
    if (i + 1 < n) heads.insert(i + 1);
  }
  std::vector<Block> blocks;
  std::map<std::size_t, std::size_t> block_at;
  for (auto head = heads.begin(); head != heads.end(); ++head) {
    block_at[*head] = blocks.size();
    blocks.push_back({*head, std::next(head) == heads.end() ? n : *std::next(head), {}, {}});
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (const std::size_t to : next[blocks[b].end - 1]) {
      blocks[b].next.push_back(block_at.at(to));
      blocks[block_at.at(to)].previous.push_back(b);
    }
  }
  return blocks;
}

/// By block, all that every way to it from the first leads through; empty if there is no way.
std::vector<std::set<std::size_t>> dominators_of(const std::vector<Block>& blocks) {
  std::vector<std::set<std::size_t>> dominators(blocks.size());
  dominators[0] = {0};
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = 1; b < blocks.size(); ++b) {
      std::set<std::size_t> common;
      bool reached = false;
      for (const std::size_t from : blocks[b].previous) {
        if (dominators[from].empty()) continue;  // not known yet
        if (!reached) {
          common = dominators[from];
        } else {
          std::erase_if(common, [&](std::size_t d) { return !dominators[from].contains(d); });
        }
        reached = true;
      }
      if (!reached) continue;
      common.insert(b);
      if (common != dominators[b]) {
        dominators[b] = std::move(common);
        changed = true;
      }
    }
  }
  return dominators;
}

}  // namespace

std::vector<Loop> loops_of(const MachineCode& code) {
  if (code.instructions.empty()) return {};
  const std::vector<Block> blocks = blocks_of(code);
  const auto dominators = dominators_of(blocks);
  std::map<std::size_t, std::set<std::size_t>> bodies;  // by head
  std::map<std::size_t, std::size_t> branches;          // by head
  for (std::size_t from = 0; from < blocks.size(); ++from) {
    for (const std::size_t head : blocks[from].next) {
      if (!dominators[from].contains(head)) continue;
      branches[head] = blocks[from].end - 1;
      std::set<std::size_t>& body = bodies[head];
      body.insert(head);
      std::vector<std::size_t> open{from};
      while (!open.empty()) {
        const std::size_t b = open.back();
        open.pop_back();
        if (!body.insert(b).second) continue;
        for (const std::size_t previous : blocks[b].previous) {
          if (!dominators[previous].empty()) open.push_back(previous);
        }
      }
    }
  }
  std::vector<Loop> loops;
  for (const auto& [head, body] : bodies) {
    Loop loop;
    loop.branch = branches.at(head);
    for (const std::size_t b : body) {
      for (std::size_t i = blocks[b].begin; i < blocks[b].end; ++i) loop.body.push_back(i);
    }
    for (const auto& [other_head, other] : bodies) {
      if (other_head == head) continue;
      loop.depth += other.contains(head);
      loop.innermost = loop.innermost && !body.contains(other_head);
    }
    loops.push_back(std::move(loop));
  }
  return loops;
}

}  // namespace ladder
