#include "asm/machine_code.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <tuple>

namespace ladder {
namespace {

/// The text cut into lines, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return true;
  }

 private:
  std::string_view rest_;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// What stands between two texts, or nothing.
std::string_view between(std::string_view line, std::string_view before, std::string_view behind) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  const std::size_t end = line.find(behind);
  return end == std::string_view::npos ? std::string_view{} : line.substr(0, end);
}

template <class T>
T number(std::string_view text, int base = 10) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

/// The words of an instruction: whether the first is a predicate, and the operation.
void take_words(Instruction& instruction) {
  std::string_view text = instruction.text;
  instruction.conditional = text.starts_with('@');
  if (instruction.conditional) text = trimmed(text.substr(std::min(text.find(' '), text.size())));
  instruction.operation = text.substr(0, text.find_first_of(" \t"));
}

/// "family/v05_tile2d.cu"
std::string tail_of(std::string_view file) {
  const std::filesystem::path path(file);
  return (path.parent_path().filename() / path.filename()).string();
}

}  // namespace

SourcePlace place_of(const std::vector<SourcePlace>& frames, std::string_view kernel_file) {
  const std::string own = tail_of(kernel_file);
  const SourcePlace* chosen = nullptr;
  for (const SourcePlace& frame : frames) {
    if (frame.line == 0) continue;
    if (tail_of(frame.file) == own) return frame;
    if (frame.file.find("/kernels/") == std::string::npos) continue;
    if (!chosen) chosen = &frame;
  }
  if (chosen) return *chosen;
  return frames.empty() ? SourcePlace{} : frames.front();
}

MachineCode parse_sass(std::string_view text, std::string_view kernel, std::string_view file) {
  MachineCode code;
  const std::string begin = ".text." + std::string(kernel) + ":";
  std::vector<SourcePlace> frames;
  SourcePlace place;
  bool inside = false, more = false;  // frames of the same instruction
  std::string_view line;
  for (Lines lines(text); lines.next(line);) {
    if (!inside) {
      inside = line == begin;
      continue;
    }
    if (line.starts_with("//-----")) break;  // the next section
    if (line.starts_with(".L_") && line.ends_with(':')) {
      code.labels.push_back(
          {std::string(line.substr(0, line.size() - 1)), code.instructions.size()});
    } else if (const auto path = between(line, "//## File \"", "\""); !path.empty()) {
      if (!more) frames.clear();
      more = true;
      frames.push_back({std::string(path), number<int>(line.substr(line.find("line ") + 5))});
    } else if (const auto address = between(trimmed(line), "/*", "*/");
               !address.empty() && trimmed(line).starts_with("/*")) {
      std::string_view rest = trimmed(line.substr(line.find("*/") + 2));
      const std::size_t end = rest.rfind(';');
      if (end == std::string_view::npos) continue;  // only the encoding
      if (more) place = place_of(frames, file);
      more = false;
      Instruction instruction;
      instruction.text = std::string(trimmed(rest.substr(0, end)));
      instruction.place = place;
      instruction.address = number<std::uint64_t>(address, 16);
      instruction.label = between(instruction.text, "`(", ")");
      take_words(instruction);
      code.instructions.push_back(std::move(instruction));
    }
  }
  // Behind the code are a branch to itself and NOPs, which nobody reaches.
  while (!code.instructions.empty() && code.instructions.back().name() == "NOP") {
    code.instructions.pop_back();
  }
  if (!code.instructions.empty() && code.instructions.back().name() == "BRA") {
    const std::size_t last = code.instructions.size() - 1;
    for (const auto& label : code.labels) {
      if (label.at == last && label.name == code.instructions[last].label) {
        code.instructions.pop_back();
        break;
      }
    }
  }
  std::erase_if(code.labels, [&](const auto& l) { return l.at >= code.instructions.size(); });
  return code;
}

std::vector<Instruction> parse_ptx(std::string_view text, std::string_view kernel,
                                   std::string_view file) {
  using Where = std::tuple<int, int, int>;  // file, line, column
  std::map<int, std::string> files;
  std::string_view line;
  for (Lines lines(text); lines.next(line);) {
    if (!trimmed(line).starts_with(".file")) continue;
    const std::string_view rest = trimmed(trimmed(line).substr(5));
    files[number<int>(rest)] = between(rest, "\"", "\"");
  }
  std::vector<Instruction> instructions;
  std::map<Where, std::vector<SourcePlace>> chains;
  const auto where = [](std::string_view words) {
    int n[3] = {};
    for (int& each : n) {
      words = trimmed(words);
      each = number<int>(words);
      words.remove_prefix(std::min(words.find_first_of(" \t"), words.size()));
    }
    return Where(n[0], n[1], n[2]);
  };
  SourcePlace place;
  bool named = false, inside = false;
  std::string pending;  // an instruction of several lines
  for (Lines lines(text); lines.next(line);) {
    const std::string_view words = trimmed(line);
    if (words.find(".entry") != std::string_view::npos) {
      named = between(words.substr(words.find(".entry")), ".entry ", "(") == kernel;
    } else if (named && words == "{" && !inside) {
      inside = true;
    } else if (inside && line == "}") {
      break;
    } else if (!inside || words.empty() || words.starts_with("//")) {
      continue;
    } else if (words.starts_with(".loc")) {
      const Where at = where(words.substr(4));
      std::vector<SourcePlace> frames{{files[std::get<0>(at)], std::get<1>(at)}};
      if (const std::size_t by = words.find("inlined_at "); by != std::string_view::npos) {
        const Where outer = where(words.substr(by + 11));
        auto chain = chains.find(outer);
        if (chain != chains.end()) {
          frames.insert(frames.end(), chain->second.begin(), chain->second.end());
        } else {
          frames.push_back({files[std::get<0>(outer)], std::get<1>(outer)});
        }
      }
      place = place_of(frames, file);
      chains[at] = std::move(frames);
    } else if (words.front() != '.' && words.front() != '$' && words.front() != '{' &&
               words.front() != '}') {
      pending += (pending.empty() ? "" : " ") + std::string(words);
      if (!pending.ends_with(';')) continue;
      pending.pop_back();
      std::replace(pending.begin(), pending.end(), '\t', ' ');
      Instruction instruction;
      instruction.text = std::move(pending);
      instruction.place = place;
      pending.clear();
      take_words(instruction);
      instructions.push_back(std::move(instruction));
    }
  }
  return instructions;
}

namespace {

struct Known {
  Work work;
  const char *words, *key;
  std::string_view names;  ///< each between spaces
};

constexpr Known kKnown[kWorks] = {
    {Work::tensor, "tensor cores", "tensor",
     " HMMA IMMA DMMA BMMA QMMA OMMA HGMMA QGMMA IGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA "},
    {Work::fma, "multiply-adds", "fma", " FFMA FFMA2 FFMA32I HFMA2 DFMA "},
    {Work::arithmetic, "other floating point", "arithmetic",
     " FADD FADD2 FMUL FMUL2 FMNMX FMNMX3 FCHK HADD2 HMUL2 HMNMX2 DADD DMUL DMNMX FSWZADD FADD32I "
     "FMUL32I "},
    {Work::special, "exponentials, roots, reciprocals", "special", " MUFU "},
    {Work::global_load, "loads from global memory", "global_load", " LDG LD "},
    {Work::global_store, "stores to global memory", "global_store", " STG ST "},
    {Work::shared_load, "loads from shared memory", "shared_load", " LDS LDSM "},
    {Work::shared_store, "stores to shared memory", "shared_store", " STS STSM STAS "},
    {Work::copy, "copies that go on by themselves", "copy",
     " LDGSTS UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF "},
    {Work::atomic, "atomic operations", "atomic", " ATOM ATOMG ATOMS RED REDG REDAS "},
    {Work::spill, "local memory: spills, arrays", "local", " LDL STL "},
    {Work::exchange, "exchange within the warp", "exchange", " SHFL VOTE MATCH REDUX CREDUX MOVM "},
    {Work::wait, "barriers and waiting", "wait",
     " BAR SYNCS DEPBAR LDGDEPBAR MEMBAR FENCE ERRBAR CCTL CCTLL CGAERRBAR UCGABAR_ARV "
     "UCGABAR_WAIT "
     "WARPSYNC WARPGROUP WARPGROUPSET NANOSLEEP UTMACMDFLUSH ARRIVES ACQBULK UTCBAR BMOV B2R R2B "
     "UTMACCTL PREEXIT YIELD "},
    {Work::integer, "addresses and other integers", "integer",
     " IMAD IADD IADD3 LEA SHF SHL SHR LOP LOP3 IMUL IABS IMNMX VIMNMX VIMNMX3 VIADD VIADDMNMX IDP "
     "BMSK SGXT POPC FLO BREV ISCADD IADD32I LOP32I VABSDIFF VABSDIFF4 "},
    {Work::compare, "comparisons, selections", "compare",
     " ISETP FSETP DSETP HSETP2 PLOP3 SEL FSEL P2R R2P FSET ISET HSET2 PSETP P2UR "},
    {Work::move, "moves, conversions, constants", "move",
     " MOV PRMT S2R S2UR CS2R R2UR UR2R LDC LDCU I2F F2I F2F F2FP I2FP FRND I2I I2IP F2IP MOV32I "
     "LEPC GETLMEMBASE "},
    {Work::control, "branches", "control",
     " BRA BRX JMP JMX EXIT BSSY BSYNC RET CALL BREAK KILL ELECT USETMAXREG BPT RPCMOV "},
    {Work::other, "nothing, or unknown here", "other", " "}};

}  // namespace

const char* words_of(Work work) { return kKnown[static_cast<int>(work)].words; }
const char* key_of(Work work) { return kKnown[static_cast<int>(work)].key; }

Work work_of(const Instruction& instruction) {
  if (instruction.text.starts_with("@!PT")) return Work::other;  // never carried out
  const std::string name = instruction.name();
  // Both are ways to set a register, in a pipe that is free.
  if (instruction.operation.starts_with("IMAD.MOV")) return Work::move;
  if (name == "HFMA2" && instruction.text.find("-RZ, RZ,") != std::string::npos) return Work::move;
  const auto find = [](std::string_view wanted) {
    const std::string word = " " + std::string(wanted) + " ";
    for (const Known& known : kKnown) {
      if (known.names.find(word) != std::string_view::npos) return known.work;
    }
    return Work::other;
  };
  const Work work = find(name);
  // Instructions of the whole warp are named like those of its threads: UIADD3.
  return work == Work::other && name.starts_with('U') ? find(name.substr(1)) : work;
}

}  // namespace ladder
