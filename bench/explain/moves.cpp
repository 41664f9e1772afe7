#include "explain/moves.hpp"

#include "cli/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace ladder {
namespace {

constexpr double kMoved = 1.1;  ///< a number that moved by less did not move
constexpr double kBad = 1.2;

double over(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

const char* name_of(Space space) { return space == Space::global ? "global" : "shared"; }

const std::array<Kind, 6> kKinds{{
    {Space::global, "load", "ld", [](const Counters& c) { return c.global_load; }},
    {Space::global, "store", "st", [](const Counters& c) { return c.global_store; }},
    {Space::shared, "load", "ld", [](const Counters& c) { return c.shared_load; }},
    {Space::shared, "store", "st",
     [](const Counters& c) {
       return (Requests(c.shared_store) += c.shared_async) += c.shared_stmatrix;
     }},
    {Space::global, "atomic", "atom", [](const Counters& c) { return c.global_atomic; }},
    {Space::shared, "atomic", "atom", [](const Counters& c) { return c.shared_atomic; }},
}};

bool is_atomic(const Kind& kind) { return kind.noun == std::string_view("atomic"); }

Requests total(const Counters& counters, std::optional<Space> space) {
  Requests sum;
  for (const Kind& kind : kKinds) {
    if (!space || kind.space == *space) sum += kind.of(counters);
  }
  return sum;
}

bool is_bad(const Requests& r) { return r.excess() >= kBad; }

std::string efficiency(Space space, const Requests& r) {
  if (space == Space::shared) return quotient(r.excess()) + "-way";
  return quotient(over(r.units, r.requests)) + " of " + quotient(over(r.ideal, r.requests));
}

namespace {

/// "global loads and stores", "shared store"; for requests "global and shared".
std::string subject(const std::vector<const Kind*>& kinds, bool requests) {
  std::vector<std::string> parts;
  for (Space space : {Space::global, Space::shared}) {
    std::vector<std::string> nouns;
    for (const Kind* kind : kinds) {
      if (kind->space == space) nouns.push_back(kind->noun + std::string(requests ? "" : "s"));
    }
    if (nouns.empty()) continue;
    parts.push_back(name_of(space));
    if (nouns.size() == 1 || !requests) {
      parts.back() += fmt::format(" {}", fmt::join(nouns, " and "));
    }
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

/// Sentences of which one may have several subjects: what is said of two kinds of access is said
/// once.
class Sentences {
 public:
  /// The number that `told` tells became `times` times better.
  void add(double times, const Kind& kind, bool requests, const std::string& told) {
    const double score = std::abs(std::log2(times));
    auto same = std::find_if(said_.begin(), said_.end(), [&](const Said& s) {
      return s.requests == requests && s.told == told;
    });
    if (same == said_.end()) same = said_.insert(same, {0, times > 1, requests, told, {}});
    same->score = std::max(same->score, score);
    same->kinds.push_back(&kind);
  }

  std::vector<Move> moves() const {
    std::vector<Move> moves;
    for (const Said& s : said_) {
      moves.push_back({s.score, s.better, subject(s.kinds, s.requests) + " " + s.told});
    }
    return moves;
  }

 private:
  struct Said {
    double score;
    bool better, requests;
    std::string told;
    std::vector<const Kind*> kinds;
  };
  std::vector<Said> said_;
};

bool moved(double times) { return times >= kMoved || times <= 1 / kMoved; }

std::string fewer(double times) {
  return times > 1 ? quotient(times) + "x fewer" : quotient(1 / times) + "x more";
}

/// Every number that moved, but none of a kind of access that neither version does much of.
std::vector<Move> all_moves(const Counters& before, const Counters& after) {
  Sentences sentences;
  bool other_sectors = false;
  for (const Kind& kind : kKinds) {
    const Requests b = kind.of(before), a = kind.of(after);
    if (b.requests == 0 || a.requests == 0) continue;
    const double share =
        std::max(over(b.units, total(before).units), over(a.units, total(after).units));
    if (share < kShare) continue;
    if (moved(b.excess() / a.excess())) {
      sentences.add(b.excess() / a.excess(), kind, false,
                    fmt::format("{} → {}", efficiency(kind.space, b), efficiency(kind.space, a)));
      other_sectors = other_sectors || kind.space == Space::global;
    }
    // That fewer bytes of global memory take fewer requests is told as bytes.
    const double requests = over(b.requests, a.requests);
    const double wider = over(a.bytes, a.requests) / over(b.bytes, b.requests);
    if (moved(requests) && (kind.space == Space::shared || moved(wider))) {
      sentences.add(requests, kind, true, "requests " + fewer(requests));
    }
  }

  std::vector<Move> moves = sentences.moves();
  auto add = [&](double times, const std::string& text) {
    if (moved(times)) moves.push_back({std::abs(std::log2(times)), times > 1, text});
  };
  if (!other_sectors && before.moved_bytes() > 0 && after.moved_bytes() > 0) {
    const double times = before.moved_bytes() / after.moved_bytes();
    add(times, "moves " + fewer(times) + " bytes");
  }
  if (before.barriers > 0 && after.barriers > 0) {
    const double times = over(before.barriers, after.barriers);
    add(times, "barriers " + fewer(times));
  }
  const double b = before.mean_active_lanes(), a = after.mean_active_lanes();
  if (b > 0 && a > 0) add(a / b, fmt::format("active lanes {:.1f} → {:.1f}", b, a));
  return moves;
}

}  // namespace

std::vector<Move> moves_between(const Counters& before, const Counters& after) {
  std::vector<Move> all = all_moves(before, after);
  std::stable_sort(all.begin(), all.end(),
                   [](const Move& a, const Move& b) { return a.score > b.score; });
  std::vector<Move> chosen;
  for (const Move& move : all) {
    if (chosen.size() < 3 && move.score >= all.front().score / 3) chosen.push_back(move);
  }
  const auto worse = std::find_if(all.begin(), all.end(), [](auto& m) { return !m.better; });
  const bool told = std::any_of(chosen.begin(), chosen.end(), [](auto& m) { return !m.better; });
  if (worse != all.end() && !told) {
    chosen.resize(std::min<std::size_t>(chosen.size(), 2));
    chosen.push_back(*worse);
  }

  const Requests shared_before = total(before, Space::shared);
  const Requests shared_after = total(after, Space::shared);
  if (shared_before.requests == 0 && shared_after.requests > 0) {
    chosen.push_back({0, !is_bad(shared_after), "now through shared memory"});
    for (const Kind& kind : kKinds) {
      if (kind.space == Space::shared && is_bad(kind.of(after))) {
        chosen.back().text +=
            fmt::format(", {}s {}", kind.noun, efficiency(kind.space, kind.of(after)));
      }
    }
  } else if (shared_before.requests > 0 && shared_after.requests == 0) {
    chosen.push_back({0, true, "no shared memory any more"});
  }
  for (const Kind& kind : kKinds) {
    if (is_atomic(kind) && kind.of(before).requests == 0 && kind.of(after).requests > 0) {
      chosen.push_back({0, false, subject({&kind}, false) + " come in"});
    }
  }
  return chosen;
}

std::vector<Move> faults(const Counters& counters) {
  Sentences sentences;
  for (const Kind& kind : kKinds) {
    const Requests r = kind.of(counters);
    if (!is_bad(r)) continue;
    sentences.add(1 / r.excess(), kind, false,
                  kind.space == Space::shared
                      ? "conflict " + efficiency(kind.space, r)
                      : fmt::format("touch {}x the sectors", quotient(r.excess())));
  }
  return sentences.moves();
}

std::string what_moved(const Counters& before, const Counters& after) {
  std::vector<std::string> texts;
  for (const Move& move : moves_between(before, after)) texts.push_back(move.text);
  return texts.empty() ? "same counts" : fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace ladder
