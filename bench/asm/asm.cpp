#include "asm/asm.hpp"

#include "cli/pattern.hpp"
#include "cli/text.hpp"
#include "explain/listing.hpp"
#include "explain/selection.hpp"

#include "harness/family.hpp"
#include "harness/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace ladder {
namespace {

constexpr std::size_t kWidth = 110;
constexpr int kBlockSizes[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};

int threads_of(const dim3& block) { return static_cast<int>(block.x * block.y * block.z); }

Mix mix_of(const MachineCode& code, const std::vector<std::size_t>& body) {
  Mix mix{};
  for (const std::size_t i : body) ++mix[static_cast<std::size_t>(work_of(code.instructions[i]))];
  return mix;
}

int count_of(const Mix& mix, Work work) { return mix[static_cast<std::size_t>(work)]; }

/// Whether a loop does nothing but to try again until something has happened.
bool only_waits(const Mix& mix) {
  int other = 0;
  for (const Work work :
       {Work::tensor, Work::fma, Work::arithmetic, Work::special, Work::global_store,
        Work::shared_load, Work::shared_store, Work::copy, Work::exchange, Work::spill}) {
    other += count_of(mix, work);
  }
  return other == 0 && count_of(mix, Work::wait) + count_of(mix, Work::global_load) > 0;
}

/// Where a loop's condition stands, as far as the compiler tells.
std::string place_of(const MachineCode& code, const Loop& loop) {
  const SourcePlace& place = code.instructions[loop.branch].place;
  if (place.line == 0) return "no line";
  return fmt::format("{}:{}", place.file.substr(place.file.rfind('/') + 1), place.line);
}

std::string occupancy_sentence(const Occupancy& occupancy, int threads) {
  if (occupancy.blocks == 0) return "0 %: such a block does not run; " + occupancy.limit;
  return fmt::format("{:.3g} %: {} block{} of {} threads, {} of {} warps per SM; limited by {}",
                     100 * occupancy.share(), occupancy.blocks, occupancy.blocks > 1 ? "s" : "",
                     threads, occupancy.warps, occupancy.most_warps, occupancy.limit);
}

/// Registers, memory, occupancy: what is known without a disassembler.
std::string resources_text(const Assembly& a, const Paint& paint) {
  const Resources& r = a.compiled.resources;
  const int threads = threads_of(a.launch.block);
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<15}{}\n", what, value);
  };
  line("registers", fmt::format("{} per thread{}", r.registers,
                                r.max_threads < 1024
                                    ? fmt::format("; blocks of at most {} threads", r.max_threads)
                                    : ""));
  line("local memory", r.local_bytes == 0
                           ? "none: no spills"
                           : paint.bad(fmt::format("{} B per thread: spilled registers, or arrays "
                                                   "indexed at run time",
                                                   r.local_bytes)));
  line("shared memory", fmt::format("{} B per block static, {} B dynamic", r.static_shared,
                                    a.launch.dynamic_shared));
  const int cc = a.compiled.compute_capability;
  const auto now = occupancy_of(r, cc, threads, a.launch.dynamic_shared);
  if (!now) {
    line("occupancy",
         fmt::format("unknown: this build's CUDA headers do not know {}", a.compiled.architecture));
    return text;
  }
  line("occupancy", paint.bold(occupancy_sentence(*now, threads)));
  text +=
      paint.faint("  at other block sizes, with the same registers and shared memory per block") +
      "\n";
  std::string sizes, blocks, shares;
  std::map<std::string, std::vector<std::string>> limits;
  for (const int size : kBlockSizes) {
    const auto at = occupancy_of(r, cc, size, a.launch.dynamic_shared);
    const bool runs = at && at->blocks > 0;
    sizes += fmt::format("{:>7}", size);
    blocks += fmt::format("{:>7}", runs ? fmt::format("{}", at->blocks) : "–");
    const std::string share =
        fmt::format("{:>7}", runs ? fmt::format("{:.3g}%", 100 * at->share()) : "–");
    shares += size == threads ? paint.bold(share) : share;
    if (at) limits[at->limit].push_back(fmt::format("{}", size));
  }
  line("  threads", sizes);
  line("  blocks", blocks);
  line("  occupancy", shares);
  for (const auto& [limit, at] : limits) {
    line(limits.begin()->first == limit ? "  limited by" : "",
         fmt::format("  {} at {}", limit, fmt::join(at, ", ")));
  }
  if (r.max_threads < 1024) {
    line("", fmt::format("  more than {} threads need another __launch_bounds__", r.max_threads));
  }
  return text;
}

/// A table of what the instructions of the kernel and of its loops do.
std::string loops_text(const MachineCode& code, const Paint& paint) {
  std::vector<std::size_t> all(code.instructions.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  struct Column {
    std::string title;
    Mix mix;
    int total;
  };
  std::vector<Column> columns{{"kernel", mix_of(code, all), static_cast<int>(all.size())}};
  std::string about;
  int waits = 0;
  for (const Loop& loop : loops_of(code)) {
    const Mix mix = mix_of(code, loop.body);
    if (only_waits(mix)) {
      ++waits;
      continue;
    }
    const std::string title = fmt::format("loop {}", columns.size());
    const auto total = static_cast<int>(loop.body.size());
    const int useful = count_of(mix, Work::fma) + count_of(mix, Work::tensor);
    about += fmt::format("  {:<8} {}{}: {} instructions", title, place_of(code, loop),
                         loop.depth > 1 ? ", inside another" : "", total);
    if (useful > 0) {
      about +=
          fmt::format(", {:.0f} % of them {}", 100.0 * useful / total,
                      count_of(mix, Work::fma) == 0      ? "for the tensor cores"
                      : count_of(mix, Work::tensor) == 0 ? "multiply-adds"
                                                         : "multiply-adds or for tensor cores");
    }
    about += "\n";
    columns.push_back({title, mix, total});
  }
  constexpr std::size_t kMost = 8;  // that fit
  std::string more;
  if (columns.size() > kMost) {
    more =
        fmt::format("  The table has the first {} of {} loops.\n", kMost - 1, columns.size() - 1);
    columns.resize(kMost);
  }
  if (waits > 0)
    more += fmt::format("  {} more loop{} only wait{} for memory, copies or other warps.\n", waits,
                        waits > 1 ? "s" : "", waits > 1 ? "" : "s");
  std::string text = fmt::format("  {:<34}", "instructions");
  for (const Column& c : columns) text += fmt::format("{:>9}", c.title);
  text = paint.bold(text) + "\n";
  for (int w = 0; w < kWorks; ++w) {
    const auto work = static_cast<Work>(w);
    if (count_of(columns.front().mix, work) == 0) continue;
    std::string row = fmt::format("  {:<34}", words_of(work));
    for (const Column& c : columns) {
      const int n = count_of(c.mix, work);
      row += fmt::format("{:>9}", n == 0 ? "–" : fmt::format("{}", n));
    }
    text += (work == Work::spill ? paint.bad(row) : row) + "\n";
  }
  text += fmt::format("  {:<34}", "all");
  for (const Column& c : columns) text += fmt::format("{:>9}", c.total);
  return text + "\n" + about + more;
}

/// "64 FFMA, 4 LDS.128", the most frequent first; the sizes of accesses are told apart.
std::string operations_text(const std::vector<const Instruction*>& instructions) {
  std::map<std::string, int> counts;
  for (const Instruction* each : instructions) {
    std::string name = each->name();
    switch (work_of(*each)) {
      case Work::global_load:
      case Work::global_store:
      case Work::shared_load:
      case Work::shared_store:
      case Work::spill:
        for (const char* size : {".128", ".64", ".U16", ".U8"}) {
          if (each->operation.find(size) != std::string::npos) name += size;
        }
        break;
      default:
        break;
    }
    ++counts[name];
  }
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [name, n] : counts) sorted.emplace_back(-n, name);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> parts;
  for (const auto& [n, name] : sorted) parts.push_back(fmt::format("{} {}", -n, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The files that the instructions come from, the version's own first.
std::vector<std::string> files_of(const std::vector<Instruction>& instructions) {
  std::vector<std::string> files;
  for (const Instruction& each : instructions) {
    if (each.place.line == 0) continue;
    if (std::find(files.begin(), files.end(), each.place.file) == files.end()) {
      files.push_back(each.place.file);
    }
  }
  std::stable_partition(files.begin(), files.end(), [](const std::string& file) {
    return file.find("/kernels/") != std::string::npos;
  });
  return files;
}

std::string source_text(const MachineCode& code, const std::vector<Instruction>& ptx, AsmForm form,
                        const Paint& paint) {
  const bool with_ptx = form == AsmForm::ptx || form == AsmForm::all;
  const bool with_sass = form == AsmForm::sass || form == AsmForm::all;
  std::vector<std::string> files = files_of(code.instructions.empty() ? ptx : code.instructions);
  std::string text;
  for (const std::string& file : files) {
    std::map<int, std::vector<const Instruction*>> by_line;
    std::multimap<int, std::string> below;
    for (const Instruction& each : code.instructions) {
      if (each.place.file == file) by_line[each.place.line].push_back(&each);
    }
    const auto add = [&](int line, const std::string& what, const std::string& color_less) {
      below.emplace(line, paint.faint("     ┊ " + what + cut(color_less, kWidth - 14)) + "\n");
    };
    for (const auto& [line, instructions] : by_line) {
      for (const std::string& part : wrap(operations_text(instructions), kWidth - 9)) {
        below.emplace(line, paint.faint("     ┊ ") + part + "\n");
      }
    }
    if (with_ptx) {
      for (const Instruction& each : ptx) {
        if (each.place.file == file && each.place.line > 0)
          add(each.place.line, "ptx   ", each.text);
      }
    }
    for (const auto& [line, instructions] : by_line) {
      for (const Instruction* each : instructions) {
        if (with_sass) add(line, fmt::format("{:04x}  ", each->address), each->text);
      }
    }
    text += listing(file, below, kWidth, paint);
  }
  return text;
}

UsageError not_shown(const std::string& wanted, const Kernel& kernel) {
  return UsageError(fmt::format(
      "--asm={}: {} {}", wanted, full_name(kernel),
      kernel.version.baseline
          ? "calls the vendor's library: no kernel of it is ours to show."
          : "needs a GPU: --asm runs a version once to see which kernels it launches, and *.gpu.cu "
            "do not run on the host executor. Use --backend=cuda on a machine with a GPU."));
}

/// What `wanted` selects, without libraries. Throws UsageError with the reason if only those have such
/// names, or only versions that run on a GPU alone.
std::vector<Selected> select_runnable(const std::string& wanted, const Options& options,
                                      const Device& device) {
  std::vector<Selected> selected;
  try {
    selected = select("--asm", wanted, options, device);
  } catch (const UsageError&) {
    const auto pattern = Pattern::parse(wanted);
    for (const Kernel& kernel : registered_kernels()) {
      const std::string name = full_name(kernel);
      if (wanted.starts_with(name + "/") || (pattern && pattern->matches(name))) {
        throw not_shown(wanted, kernel);
      }
    }
    throw;
  }
  const Kernel& first = *selected.front().kernel;
  std::erase_if(selected, [](const Selected& one) { return one.kernel->version.baseline; });
  if (selected.empty()) throw not_shown(wanted, first);
  return selected;
}

/// Each version once, because at another problem its code is the same: at a problem that it supports,
/// if there is one.
std::vector<Selected> select_versions(const Options& options, const Device& device) {
  std::vector<Selected> selected;
  for (const std::string& wanted : options.assembly) {
    for (Selected& one : select_runnable(wanted, options, device)) {
      const auto ok = [&](const Problem& problem) {
        return supports(*one.kernel, problem, device.info()).ok;
      };
      const auto same = std::find_if(selected.begin(), selected.end(), [&](const Selected& other) {
        return other.kernel == one.kernel;
      });
      if (same != selected.end()) continue;
      if (wanted != one.name() && !ok(one.problem)) {
        for (Problem& problem : options.problems_of(family_of(*one.kernel), device.backend())) {
          if (ok(problem)) one.problem = std::move(problem);
        }
      }
      selected.push_back(std::move(one));
    }
  }
  return selected;
}

}  // namespace

std::string assembly_text(const Assembly& a, AsmForm form, bool colors) {
  const Paint paint(colors);
  std::string text =
      paint.bold(fmt::format("{} · {} · {}", a.version, a.problem, a.compiled.architecture)) +
      (a.compiled.assembled ? " · assembled now by ptxas" : "") + "\n";
  for (const std::string& line : wrap(demangled(a.compiled.name), kWidth - 2)) {
    text += "  " + line + "\n";
  }
  text += "\n" + resources_text(a, paint);
  const MachineCode code = parse_sass(a.compiled.sass, a.compiled.name, a.file);
  const std::vector<Instruction> ptx = parse_ptx(a.compiled.ptx, a.compiled.name, a.file);
  if (!code.instructions.empty()) text += "\n" + loops_text(code, paint);
  if (!a.compiled.lack.empty()) {
    text += "\n";
    for (const std::string& line : wrap(a.compiled.lack, kWidth - 2)) text += "  " + line + "\n";
  }
  if (a.compiled.ptx.empty() && (form == AsmForm::ptx || form == AsmForm::all)) {
    text +=
        "\n  This build has no PTX of it; for PTX beside machine code configure with "
        "CUDAARCHS=90.\n";
  }
  return text + "\n" + source_text(code, ptx, form, paint);
}

std::string assembly_json(const Assembly& a) {
  const Resources& r = a.compiled.resources;
  const auto mix_json = [](const Mix& mix) {
    std::vector<std::string> parts;
    for (int w = 0; w < kWorks; ++w) {
      parts.push_back(fmt::format("\"{}\": {}", key_of(static_cast<Work>(w)),
                                  mix[static_cast<std::size_t>(w)]));
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  };
  const MachineCode code = parse_sass(a.compiled.sass, a.compiled.name, a.file);
  std::vector<std::string> loops, lines, occupancies;
  std::vector<std::size_t> all(code.instructions.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (const Loop& loop : loops_of(code)) {
    const Mix mix = mix_of(code, loop.body);
    loops.push_back(
        fmt::format(R"({{"place": {}, "depth": {}, "instructions": {}, "waits": {}, "mix": {}}})",
                    json_string(place_of(code, loop)), loop.depth, loop.body.size(),
                    only_waits(mix), mix_json(mix)));
  }
  struct Line {
    Mix mix{};
    std::vector<std::string> sass, ptx;
  };
  std::map<std::pair<std::string, int>, Line> by_line;
  for (const Instruction& each : code.instructions) {
    Line& line = by_line[{each.place.file, each.place.line}];
    ++line.mix[static_cast<std::size_t>(work_of(each))];
    line.sass.push_back(json_string(fmt::format("{:04x}  {}", each.address, each.text)));
  }
  for (const Instruction& each : parse_ptx(a.compiled.ptx, a.compiled.name, a.file)) {
    by_line[{each.place.file, each.place.line}].ptx.push_back(json_string(each.text));
  }
  for (const auto& [place, line] : by_line) {
    lines.push_back(
        fmt::format(R"({{"file": {}, "line": {}, "mix": {}, "sass": [{}], "ptx": [{}]}})",
                    json_string(place.first), place.second, mix_json(line.mix),
                    fmt::join(line.sass, ", "), fmt::join(line.ptx, ", ")));
  }
  std::set<int> sizes(std::begin(kBlockSizes), std::end(kBlockSizes));
  sizes.insert(threads_of(a.launch.block));
  for (const int size : sizes) {
    const auto at = occupancy_of(r, a.compiled.compute_capability, size, a.launch.dynamic_shared);
    if (!at) continue;
    occupancies.push_back(
        fmt::format(R"({{"threads": {}, "blocks": {}, "occupancy": {:.6g}, "limit": {}}})", size,
                    at->blocks, at->share(), json_string(at->limit)));
  }
  return fmt::format(
      R"(  {{"version": {}, "problem": {}, "kernel": {}, "architecture": {}, "file": {},
   "block": {}, "registers": {}, "max_threads": {}, "static_shared": {}, "dynamic_shared": {},
   "local_bytes": {},
   "occupancy": [{}],
   "mix": {},
   "loops": [{}],
   "lines": [{}]}})",
      json_string(a.version), json_string(a.problem), json_string(demangled(a.compiled.name)),
      json_string(a.compiled.architecture), json_string(a.file), threads_of(a.launch.block),
      r.registers, r.max_threads, r.static_shared, a.launch.dynamic_shared, r.local_bytes,
      fmt::join(occupancies, ",\n     "), mix_json(mix_of(code, all)), fmt::join(loops, ",\n     "),
      fmt::join(lines, ",\n     "));
}

bool show_assembly(const Options& options, Device& device) {
#if !defined(LADDER_CUDA_BACKEND)
  throw UsageError(
      "--asm: this build has no code for GPUs; build with nvcc (cmake --preset release, or "
      "scripts/bench --wheels).");
#endif
  const std::vector<Selected> selected = select_versions(options, device);
  const bool json = options.asm_form == AsmForm::json;
  const char* between = json ? "[\n" : "";
  bool all_shown = true;
  for (const Selected& one : selected) {
    const Kernel& kernel = *one.kernel;
    try {
      if (const Support support = supports(kernel, one.problem, device.info()); !support.ok) {
        throw std::runtime_error(support.reason);
      }
      const Family& family = family_of(kernel);
      const auto workload =
          family.open(one.problem, kernel.dtype, family.input_sets().front(), options.seed, device);
      const CheckResult result = check(kernel, *workload, device);
      if (result.verdict != Verdict::passed) throw std::runtime_error(result.reason);
      const std::vector<KernelResources> launches = device.launches();
      if (launches.empty())
        throw std::runtime_error(
            "it launches no kernel of ours: it calls a library or copies memory");
      std::set<const void*> shown;
      for (const KernelResources& of : launches) {
        const Launch& launch = of.launch;
        if (!shown.insert(launch.function).second) continue;
        const auto function = function_at(launch.function);
        if (!function) throw std::runtime_error("this program was stripped of its symbols");
        const Assembly assembly{full_name(kernel), one.problem.text(), kernel.file, launch,
                                compiled_kernel(*function, kernel.file)};
        fmt::print("{}{}", between,
                   json ? assembly_json(assembly)
                        : assembly_text(assembly, options.asm_form, wants_colors(stdout)));
        between = json ? ",\n" : "\n";
      }
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", one.name(), error.what());
      all_shown = false;
    }
    std::fflush(stdout);
  }
  if (json) fmt::print("{}]\n", *between == '[' ? "[" : "\n");
  return all_shown;
}

}  // namespace ladder
