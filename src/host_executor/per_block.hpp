// Variables that each block has its own of that has begun and not ended, or each launch that is in
// progress. They run by turns, and code that is about one block of one launch need not know of the
// others: such a variable holds the selected one's, and exchanges it when another is selected.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace ladder::host {

inline constexpr unsigned kMostBlocks = 8;  // of a cluster

/// The variables of one kind, and whose are in place.
template <class Kind>
class Exchanged {
 public:
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

  static unsigned selected() { return selected_; }
  static void select(unsigned number) {
    if (number == selected_) return;
    for (Exchanged* each = first_; each; each = each->next_) each->exchange(selected_, number);
    selected_ = number;
  }

 protected:
  Exchanged() : next_(std::exchange(first_, this)) {}
  ~Exchanged() = default;

 private:
  virtual void exchange(unsigned from, unsigned to) = 0;

  static inline Exchanged* first_ = nullptr;
  static inline unsigned selected_ = 0;
  Exchanged* next_;
};

template <class T, class Kind>
class ExchangedVariable : Exchanged<Kind> {
 public:
  explicit ExchangedVariable(T& variable) : variable_(variable) {}

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

/// The slot of each block that has begun. Those of a cluster are in a row, by their ranks.
using BlockSlot = Exchanged<struct OfBlock>;
/// The number of each launch in progress.
using LaunchNumber = Exchanged<struct OfLaunch>;

/// Makes a variable one. It must be cheap to swap; what it points to stays where it is.
template <class T>
struct PerBlock final : ExchangedVariable<T, struct OfBlock> {
  using ExchangedVariable<T, struct OfBlock>::ExchangedVariable;
};
template <class T>
PerBlock(T&) -> PerBlock<T>;
template <class T>
struct PerLaunch final : ExchangedVariable<T, struct OfLaunch> {
  using ExchangedVariable<T, struct OfLaunch>::ExchangedVariable;
};
template <class T>
PerLaunch(T&) -> PerLaunch<T>;

/// The selected block, by its rank in its cluster: 0 where there is none.
class BlockVariable {
 public:
  static unsigned selected() { return BlockSlot::selected() - first_slot_; }
  static void select(unsigned rank) { BlockSlot::select(first_slot_ + rank); }
  static unsigned slot(unsigned rank) { return first_slot_ + rank; }

  /// Of the cluster, or the block, that has the slots from this one on.
  static void select(unsigned first_slot, unsigned rank) {
    first_slot_ = first_slot;
    select(rank);
  }

 private:
  static inline unsigned first_slot_ = 0;
};

/// While one exists, another block of the cluster is selected.
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
