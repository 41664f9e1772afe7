// Variables that each block has its own of that has begun and not ended: the blocks of a cluster, or
// those of a grid of which one waits for another. They run by turns, and code that is about one block
// need not know of the others: such a variable holds the selected block's, and exchanges it when
// another block is selected.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace ladder::host {

inline constexpr unsigned kMostBlocks = 8;  // of a cluster

class BlockVariable {
 public:
  BlockVariable(const BlockVariable&) = delete;
  BlockVariable& operator=(const BlockVariable&) = delete;

  /// The block whose variables are in place: its rank in the cluster or, where there is none, its
  /// place among those that have begun.
  static unsigned selected() { return selected_; }
  static void select(unsigned rank) {
    if (rank == selected_) return;
    for (BlockVariable* each = first_; each; each = each->next_) each->exchange(selected_, rank);
    selected_ = rank;
  }

 protected:
  BlockVariable() : next_(std::exchange(first_, this)) {}
  ~BlockVariable() = default;

 private:
  virtual void exchange(unsigned from, unsigned to) = 0;

  static inline BlockVariable* first_ = nullptr;
  static inline unsigned selected_ = 0;
  BlockVariable* next_;
};

/// Makes a variable one. It must be cheap to swap; what it points to stays where it is.
template <class T>
class PerBlock final : BlockVariable {
 public:
  explicit PerBlock(T& variable) : variable_(variable) {}

  T& of(unsigned rank) { return rank == selected() ? variable_ : others_[rank]; }

 private:
  void exchange(unsigned from, unsigned to) override {
    using std::swap;
    if (const std::size_t most = std::max(from, to); most >= others_.size()) [[unlikely]] {
      others_.resize(most + 1);
    }
    swap(variable_, others_[from]);
    swap(variable_, others_[to]);
  }

  T& variable_;
  std::vector<T> others_ = std::vector<T>(kMostBlocks);
};

/// While one exists, another block is selected.
class InBlock {
 public:
  explicit InBlock(unsigned rank) : before_(BlockVariable::selected()) {
    BlockVariable::select(rank);
  }
  ~InBlock() { BlockVariable::select(before_); }
  InBlock(const InBlock&) = delete;
  InBlock& operator=(const InBlock&) = delete;

 private:
  unsigned before_;
};

}  // namespace ladder::host
