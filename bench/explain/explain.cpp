#include "explain/explain.hpp"

#include "cli/text.hpp"
#include "explain/columns.hpp"
#include "explain/listing.hpp"
#include "explain/moves.hpp"
#include "measure/suite.hpp"
#include "measure/sweep.hpp"
#include "report/console.hpp"
#include "report/progress.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace ladder {
namespace {

constexpr double kFewLanes = 16;  ///< of 32; fewer are marked

const char* const kLegend =
    R"(ld, st   requests, each one instruction of one warp; then the 32-byte sectors of global memory that
         a request touches, of the fewest for its bytes; or the n-way bank conflict in shared memory
bulk     copies of the copy engine (TMA), and the bytes of one
atoms    requests of atomic operations
sync     barriers of a block (__syncthreads), over all blocks
lanes    active threads of a warp, over all requests
moved    the bytes of all sectors, over those that the operation must read and write
!        far from the ideal)";

double over(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// The table

/// The version that a row is compared with: the one that the head of its file names ("Vs v02"),
/// else the one before it. Null if there is none.
const Row* predecessor(std::span<const Row> rows, const Row& row) {
  constexpr std::string_view vs = "// Vs ";
  std::string named;
  for (const std::string& line : read_lines(row.kernel->file)) {
    if (!line.starts_with("//")) break;
    if (!line.starts_with("// Vs v")) continue;
    named = line.substr(vs.size(), line.find(' ', vs.size()) - vs.size()) + "_";
  }
  const Row* last = nullptr;
  for (const Row& other : rows) {
    if (&other == &row) break;
    if (!counted(other)) continue;
    if (!named.empty() && label(*other.kernel).starts_with(named)) return &other;
    last = &other;
  }
  return last;
}

template <class F>
Column column(const std::string& title, std::span<const Row> rows, F cell) {
  Column out{title, {}};
  for (const Row& row : rows) {
    if (counted(row)) out.cells.push_back(cell(*row.counters, row));
  }
  return out;
}

std::vector<Column> table_columns(std::span<const Row> rows) {
  auto any = [&](auto has) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Row& row) { return counted(row) && has(*row.counters); });
  };
  std::vector<Column> columns;
  for (const Kind& kind : kKinds) {
    if (is_atomic(kind)) continue;  // rare: both spaces share a narrow column
    if (!any([&](const Counters& c) { return kind.of(c).requests > 0; })) continue;
    const std::string title = fmt::format("{} {}", name_of(kind.space), kind.short_noun);
    columns.push_back(column(title, rows, [&](const Counters& c, const Row&) -> Cell {
      const Requests r = kind.of(c);
      if (r.requests == 0) return {"", "–"};
      return {count(r.requests), efficiency(kind.space, r), is_bad(r)};
    }));
  }
  for (const auto& [title, kind] :
       {std::pair("bulk ld", &Counters::bulk_load), std::pair("bulk st", &Counters::bulk_store)}) {
    if (!any([&](const Counters& c) { return (c.*kind).copies > 0; })) continue;
    columns.push_back(column(title, rows, [&](const Counters& c, const Row&) -> Cell {
      const BulkCopies& bulk = c.*kind;
      if (bulk.copies == 0) return {"", "–"};
      return {count(bulk.copies), fmt::format("{} B", count(bulk.bytes / bulk.copies))};
    }));
  }
  auto atomics = [](const Counters& c) { return Requests(c.global_atomic) += c.shared_atomic; };
  if (any([&](const Counters& c) { return atomics(c).requests > 0; })) {
    columns.push_back(column("atoms", rows, [&](const Counters& c, const Row&) -> Cell {
      const Requests r = atomics(c);
      return {"", r.requests == 0 ? "–" : count(r.requests), is_bad(r)};
    }));
  }
  if (any([](const Counters& c) { return c.barriers > 0; })) {
    columns.push_back(column("sync", rows, [](const Counters& c, const Row&) -> Cell {
      return {"", c.barriers == 0 ? "–" : count(c.barriers)};
    }));
  }
  if (any([](const Counters& c) { return c.mean_active_lanes() < 31.5; })) {
    columns.push_back(column("lanes", rows, [](const Counters& c, const Row&) -> Cell {
      const double lanes = c.mean_active_lanes();
      return {"", fmt::format("{:.0f}", lanes), lanes < kFewLanes};
    }));
  }
  columns.push_back(column("moved", rows, [](const Counters& c, const Row& row) -> Cell {
    const double times = c.moved_bytes() / row.cost.bytes();
    // Where arithmetic is the limit, a kernel may move much more than it must: caches serve it.
    const bool memory_bound = row.cost.flops <= 8 * row.cost.bytes();
    return {"", fmt::format("{:.{}f}x", times, times < 99.5 ? 1 : 0), memory_bound && times >= 1.5};
  }));
  return columns;
}

/// What only Hopper's versions do to shared memory, which has no room among the columns.
std::string hopper_line(const Counters& c) {
  std::vector<std::string> parts;
  if (c.wgmma.bytes > 0) {
    parts.push_back(fmt::format("wgmma reads {} of shared memory",
                                scaled(static_cast<double>(c.wgmma.bytes), "B")));
  }
  for (const auto& [what, r] :
       {std::pair("loads from", c.cluster_load), std::pair("st.async to", c.cluster_store)}) {
    if (r.requests == 0) continue;
    parts.push_back(fmt::format("{} {} the cluster, {}", count(r.requests), what,
                                efficiency(Space::shared, r)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// The lines below a version's counts: its idea, what it moved, what Hopper's do besides.
std::string story(std::span<const Row> rows, const Row& row, const Paint& paint) {
  constexpr std::size_t kIndent = 6;
  const Row* before = predecessor(rows, row);
  std::vector<Move> moves =
      before ? moves_between(*before->counters, *row.counters) : faults(*row.counters);
  if (before && moves.empty()) moves.push_back({0, true, "same counts"});
  if (before && before + 1 != &row) {
    moves.front().text =
        fmt::format("against {}: {}", short_label(*before->kernel), moves.front().text);
  }

  // Beside the idea if all fits there, else below it.
  const std::string idea = row.kernel->version.idea;
  std::string text = spaces(kIndent) + paint.faint(idea);
  std::size_t whole = kIndent + width_of(idea) + 1;
  for (const Move& move : moves) whole += 2 + width_of(move.text);
  std::size_t at = whole <= kWidth ? kIndent + width_of(idea) : kWidth;
  std::string between = " · ";
  for (const Move& move : moves) {
    const std::size_t semicolon = &move != &moves.back();
    if (at + width_of(between + move.text) + semicolon > kWidth) {
      text += (between == "; " ? ";\n" : "\n") + spaces(kIndent);
      at = kIndent;
    } else {
      text += between;
      at += width_of(between);
    }
    text += move.better ? paint.good(move.text) : paint.bad(move.text);
    at += width_of(move.text);
    between = "; ";
  }
  const std::string more = hopper_line(*row.counters);
  return text + (more.empty() ? "" : "\n" + spaces(kIndent) + paint.faint(more)) + "\n";
}

// The lines

std::uint64_t surplus(const LineCounters& line) {
  return line.requests.units - std::min(line.requests.units, line.requests.ideal);
}

/// "global ld"
std::string instruction(const LineCounters& line) {
  switch (line.access) {
    case Access::load:
      return fmt::format("{} ld", name_of(line.space));
    case Access::store:
      return fmt::format("{} st", name_of(line.space));
    case Access::atomic:
      return fmt::format("{} atomic", name_of(line.space));
    case Access::stmatrix:
      return "stmatrix";
    case Access::cluster_load:
      return "cluster ld";
    case Access::pushed:
      return "st.async";
    default:
      return "shared cp.async";
  }
}

/// What is printed below a source line for one kind of access it makes. Of a line that few threads
/// run through only a busy one is marked: the last thread of a block may well store alone.
std::string annotation(const LineCounters& line, bool worst, bool busy, const Paint& paint) {
  const Requests& r = line.requests;
  const bool global = line.space == Space::global;
  const double lanes = over(r.lanes, r.requests);
  std::string text =
      fmt::format("{:<15} {:>2} B {:>7} x  {}{}", instruction(line), line.width, count(r.requests),
                  efficiency(line.space, r), global ? " sectors" : "");
  if (lanes < 31.95) text += fmt::format(", {} of 32 lanes", quotient(lanes));
  if (worst) text += fmt::format("  ← {} too many, the most", count(surplus(line)));
  const bool bad = is_bad(r) || (busy && lanes < kFewLanes);
  return (bad ? paint.bad("   ! ┊ " + text) : paint.faint("     ┊ " + text)) + "\n";
}

/// The counted lines of one file. `worst`: the largest surplus in each space, of all files.
std::string annotated_source(const std::string& file, const Counters& counters,
                             const std::map<Space, std::uint64_t>& worst, const Paint& paint) {
  std::multimap<int, std::string> below;
  for (const LineCounters& line : counters.lines) {
    if (line.file != file) continue;
    const bool is_worst = is_bad(line.requests) && surplus(line) == worst.at(line.space);
    const bool busy = over(line.requests.requests, total(counters).requests) >= kShare;
    below.emplace(line.line, annotation(line, is_worst, busy, paint));
  }
  return listing(file, below, kWidth, paint);
}

/// Of the longest version's name.
std::size_t label_width_of(std::span<const Row> rows) {
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, width_of(spoken(*row.kernel)));
  return width;
}

/// A line per version: its columns, and below them its story where there is one.
std::string table(std::span<const Row> rows, const std::vector<Column>& columns, const Paint& paint,
                  const std::function<std::string(const Row&)>& story_of) {
  std::size_t label_width = label_width_of(rows);
  const std::size_t width = kWidth - 2 - label_width;
  const std::vector<std::string> lines = set_columns(columns, width, paint);
  // Names are cut where the narrowest columns are too wide.
  for (const std::string& line : set_columns(columns, width, Paint(false))) {
    label_width = std::min(label_width, kWidth - 2 - width_of(line));
  }
  std::string text = fmt::format("{} · at least {} to move\n", paint.bold(title(rows.front())),
                                 scaled(rows.front().cost.bytes(), "B"));
  if (lines.size() > 1) text += spaces(2 + label_width) + paint.faint(lines[0]) + "\n";
  std::size_t next = 1;
  for (const Row& row : rows) {
    text += "  " + paint.bold(left(cut(spoken(*row.kernel), label_width), label_width));
    if (counted(row)) {
      text += lines[next++] + "\n" + story_of(row);
    } else if (row.check.verdict == Verdict::passed) {
      text += fmt::format("  passed, largest error {:.2g}; not counted\n", row.check.error);
    } else {
      text += "  " + refusal(row, label_width + 4, paint);
    }
  }
  return text;
}

}  // namespace

std::string explain_table(std::span<const Row> rows, bool colors) {
  const Paint paint(colors);
  return table(rows, table_columns(rows), paint,
               [&](const Row& row) { return story(rows, row, paint); });
}

std::string checked_table(std::span<const Row> rows, bool colors) {
  std::vector<Column> columns = table_columns(rows);
  columns.push_back(column("error", rows, [](const Counters&, const Row& row) -> Cell {
    return {"", fmt::format("{:.2g}", row.check.error)};
  }));
  const std::size_t width = kWidth - 2 - label_width_of(rows);
  const std::string heading = set_columns(columns, width, Paint(false)).front();
  if (width_of(heading) > width) columns.pop_back();  // names matter more
  return table(rows, columns, Paint(colors), [](const Row&) { return ""; });
}

std::string checked_legend(bool colors) {
  const Paint paint(colors);
  return paint.faint(kLegend) + "\n" +
         paint.faint("error    of the element that came nearest to what its check allows") + "\n";
}

std::string explain_lines(std::span<const Row> rows, bool colors) {
  const Paint paint(colors);
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{}{} · {}\n  {}\n", text.empty() ? "" : "\n", paint.bold(title(row)),
                        paint.bold(spoken(*row.kernel)), row.kernel->version.idea);
    if (!counted(row)) {
      text += "  " + refusal(row, 2, paint);
      continue;
    }
    std::vector<std::string> files{row.kernel->file};  // the kernel's own first
    std::map<Space, std::uint64_t> worst;
    for (const LineCounters& line : row.counters->lines) {
      if (std::find(files.begin(), files.end(), line.file) == files.end()) {
        files.push_back(line.file);
      }
      worst[line.space] = std::max(worst[line.space], surplus(line));
    }
    for (const std::string& file : files) {
      text += annotated_source(file, *row.counters, worst, paint);
    }
  }
  return text;
}

bool explain(Options options, const std::function<Opened()>& open) {
#if defined(__SANITIZE_ADDRESS__)
  throw UsageError(
      "--explain: this build's AddressSanitizer takes the counters' place; use another.");
#endif
  Sweep sweep(open, options.seed, options.seconds_per_kernel);
  const Machine& machine = sweep.machine();
  if (machine.backend != Backend::host) {
    throw UsageError("--explain counts on the host executor, not on a GPU: add --backend=host.");
  }
  options.draw_problems(machine.backend);
  const std::vector<Group> groups = select_groups(options, machine.backend, machine.best);
  sweep.plan(groups);
  const Explanation form = *options.explain;
  const bool colors = wants_colors(stdout);
  if (form != Explanation::json) {
    fmt::print(
        "Kernels run on the host executor. Counts are exact; there are no GPU times. Seed {}.\n",
        options.seed);
  }
  if (form == Explanation::table) fmt::print("{}\n", Paint(colors).faint(kLegend));
  fmt::print(form == Explanation::json ? stderr : stdout, "{}",
             long_simulation(groups, sweep.cores()));
  std::fflush(stdout);
  const Sweep::Listener listener{.on_step = [](const Step&) {},
                                 .on_fault = [](const Group&, const Fault&) {}};
  const char* between = "[\n";
  bool all_passed = true;
  for (const Group& group : groups) {
    std::vector<Row> rows = sweep.measure(group, listener);
    for (Row& row : rows) {
      all_passed = all_passed && row.check.verdict != Verdict::incorrect &&
                   row.check.verdict != Verdict::failed;
      if (row.check.verdict != Verdict::passed || row.counters) continue;
      row.check = {.verdict = Verdict::unsupported,
                   .reason = "launches on several devices are not counted"};
    }
    switch (form) {
      case Explanation::table:
        fmt::print("\n{}", explain_table(rows, colors));
        break;
      case Explanation::lines:
        fmt::print("\n{}", explain_lines(rows, colors));
        break;
      case Explanation::json:
        fmt::print("{}{}", between, explain_json(rows));
        between = ",\n";
        break;
    }
    std::fflush(stdout);
  }
  if (form == Explanation::json) fmt::print("\n]\n");
  return all_passed;
}

}  // namespace ladder
