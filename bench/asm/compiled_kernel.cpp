#include "asm/compiled_kernel.hpp"

#include "asm/fat_binary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

namespace ladder {
namespace {

namespace fs = std::filesystem;

/// On PATH, or else where toolkits are installed.
std::optional<std::string> find_tool(const std::string& name) {
  std::string folders = std::getenv("PATH") ? std::getenv("PATH") : "";
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(home)) folders += std::string(":") + folder + "/bin";
  }
  folders += ":/usr/local/cuda/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path path = fs::path(folders.substr(begin, end - begin)) / name;
    if (access(path.c_str(), X_OK) == 0 && !fs::is_directory(path)) return path.string();
    begin = end + 1;
  }
  return std::nullopt;
}

std::string missing(const std::string& tool, const std::string& what, const std::string& package) {
  return fmt::format(
      "{0}, which {1}, was found neither on PATH nor in /usr/local/cuda/bin: install the CUDA "
      "toolkit's {0}, or PyPI's {2}, and put its folder on PATH.",
      tool, what, package);
}

/// A folder that is gone at the end.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "ladder-asm-XXXXXX").string();
    if (!mkdtemp(name.data())) {
      throw std::runtime_error(fmt::format("{} cannot be made: {}", name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string write(const char* name, std::string_view contents) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out << contents;
    if (!out.flush()) throw std::runtime_error((path_ / name).string() + " cannot be written");
    return (path_ / name).string();
  }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// What a tool prints. No argument has a quote in it: all are ours, or found in folders of PATH.
std::string output_of(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += "'" + word + "' ";
  std::FILE* const pipe = popen((command + "2>/dev/null").c_str(), "re");
  if (!pipe) throw std::runtime_error(words.front() + " cannot be run");
  std::string text;
  char part[1 << 14];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
  if (pclose(pipe) != 0) {
    throw std::runtime_error(
        fmt::format("{} has failed; run it by hand to see why", fmt::join(words, " ")));
  }
  return text;
}

/// "_ZN…" of the kernels that an image has code of.
std::vector<std::string> kernels_in(const Image& image) {
  std::vector<std::string> names;
  if (image.is_ptx) {
    constexpr std::string_view entry = ".entry ";
    for (std::size_t at = image.contents.find(entry); at != std::string::npos;
         at = image.contents.find(entry, at)) {
      at += entry.size();
      names.push_back(image.contents.substr(at, image.contents.find('(', at) - at));
    }
    return names;
  }
  const Elf cubin(image.contents);
  for (const Elf::Section& section : cubin.sections()) {
    constexpr std::string_view text = ".text.";
    if (section.name.starts_with(text)) names.emplace_back(section.name.substr(text.size()));
  }
  return names;
}

/// A version's file as nvcc writes it into the names of an anonymous namespace: "v05_tile2d_cu".
std::string mark_of(std::string_view file) {
  std::string mark = fs::path(file).filename().string();
  std::replace(mark.begin(), mark.end(), '.', '_');
  return mark;
}

struct Found {
  const Image* image;
  std::string name;
};

/// The kernel in the images, of one name in several files that of `file`; machine code before PTX.
std::optional<Found> find_kernel(const std::vector<Image>& images, const Function& function,
                                 std::string_view file) {
  const std::string wanted = demangled(function.name);
  const std::string mark = mark_of(file);
  const std::string local = mark_of(function.file);
  // The folder stands in PTX as "…/gemm/v01.cu", in the lines of machine code by itself.
  const std::string folder = "/" + fs::path(file).parent_path().filename().string();
  std::optional<Found> best;
  int best_rank = -1;
  for (const Image& image : images) {
    for (std::string& name : kernels_in(image)) {
      if (demangled(name) != wanted) continue;
      const int rank = 8 * (name.find(mark) != std::string::npos) +
                       4 * (!local.empty() && name.find(local) != std::string::npos) +
                       2 * (image.contents.find(folder + "/") != std::string::npos ||
                            image.contents.find(folder + '\0') != std::string::npos) +
                       !image.is_ptx;
      if (rank <= best_rank) continue;
      best = Found{&image, std::move(name)};
      best_rank = rank;
    }
  }
  return best;
}

const std::vector<Image>& images_of_this_program() {
  static const std::vector<Image> images = [] {
    const Elf program(read_bytes("/proc/self/exe"));
    const Elf::Section* const section = program.section(".nv_fatbin");
    return section ? images_in(section->contents) : std::vector<Image>{};
  }();
  return images;
}

/// "sm_90a", of what nvdisasm prints and of PTX; empty if neither says so.
std::string target_of(std::string_view text) {
  constexpr std::string_view directive = ".target";
  const std::size_t at = text.find(directive);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = at + directive.size() + 1;
  return std::string(text.substr(begin, text.find_first_of(", \t\n", begin) - begin));
}

int capability_of(const std::string& architecture) { return std::atoi(architecture.c_str() + 3); }

}  // namespace

Resources resources_in(const Elf& cubin, std::string_view kernel, int compute_capability) {
  // As EIATTR_… of NVIDIA's tools: kind of the value, name, its size or the value itself.
  constexpr unsigned char kSized = 4, kRegisters = 0x2f, kFrame = 0x11, kMaxThreads = 0x05,
                          kBarriers = 0x4c;
  Resources resources;
  const auto each_attribute = [&](const Elf::Section* section, auto&& use) {
    for (std::size_t at = 0; section && at + 4 <= section->contents.size();) {
      std::uint16_t value;
      std::memcpy(&value, section->contents.data() + at + 2, sizeof value);
      const auto kind = static_cast<unsigned char>(section->contents[at]);
      const auto name = static_cast<unsigned char>(section->contents[at + 1]);
      at += 4;
      std::vector<std::uint32_t> words;
      if (kind == kSized) {
        words.resize(value / 4);
        if (at + value > section->contents.size()) return;
        std::memcpy(words.data(), section->contents.data() + at, words.size() * 4);
        at += value;
      }
      use(name, value, words);
    }
  };
  const auto& symbols = cubin.symbols();
  bool found = false;
  each_attribute(cubin.section(".nv.info"), [&](unsigned char name, std::uint16_t,
                                                const std::vector<std::uint32_t>& words) {
    if (words.size() < 2 || words[0] >= symbols.size() || symbols[words[0]].name != kernel) return;
    if (name == kRegisters) {
      resources.registers = static_cast<int>(words[1]);
      found = true;
    }
    if (name == kFrame) resources.local_bytes = words[1];
  });
  if (!found) throw std::runtime_error("the machine code does not tell its registers");
  each_attribute(cubin.section(fmt::format(".nv.info.{}", kernel)),
                 [&](unsigned char name, std::uint16_t value, const auto& words) {
                   if (name == kBarriers) resources.barriers = value & 0xff;
                   if (name == kMaxThreads && words.size() >= 3) {
                     resources.max_threads = static_cast<int>(words[0] * words[1] * words[2]);
                   }
                 });
  if (const auto* const shared = cubin.section(fmt::format(".nv.shared.{}", kernel))) {
    // From 9.0 on the section begins with what is the system's own.
    const std::size_t reserved = compute_capability >= 90 ? 1024 : 0;
    resources.static_shared = shared->size - std::min<std::size_t>(shared->size, reserved);
  }
  return resources;
}

CompiledKernel compiled_kernel(const Function& function, std::string_view file) {
  const std::optional<Found> found = find_kernel(images_of_this_program(), function, file);
  if (!found) {
    throw std::runtime_error(
        file.ends_with(".sm90a.cu")
            ? "it is compiled for sm_90a alone, and this build has nothing for that: it takes nvcc "
              "12.4 or newer; configure again with one."
            : fmt::format("this program has no compiled code of {}, for any GPU",
                          demangled(function.name)));
  }
  CompiledKernel kernel;
  kernel.name = found->name;
  const Scratch scratch;
  std::string cubin;
  if (found->image->is_ptx) {
    kernel.ptx = found->image->contents.substr(0, found->image->contents.find('\0'));
    kernel.architecture = target_of(kernel.ptx);
    const auto ptxas = find_tool("ptxas");
    if (!ptxas) {
      throw std::runtime_error("this program holds PTX alone, and " +
                               missing("ptxas", "makes machine code of it", "nvidia-cuda-nvcc"));
    }
    const std::string from = scratch.write("kernel.ptx", kernel.ptx), to = scratch / "kernel.cubin";
    output_of({*ptxas, "-lineinfo", "-arch=" + kernel.architecture, from, "-o", to});
    kernel.assembled = true;
    cubin = read_bytes(to);
  } else {
    kernel.architecture = fmt::format("sm_{}", found->image->architecture);
    cubin = found->image->contents;
    for (const Image& image : images_of_this_program()) {
      if (image.is_ptx && image.contents.find(kernel.name) != std::string::npos) {
        kernel.ptx = image.contents.substr(0, image.contents.find('\0'));
      }
    }
  }
  kernel.compute_capability = capability_of(kernel.architecture);
  const std::string path = scratch.write("kernel.cubin", cubin);
  kernel.resources = resources_in(Elf(std::move(cubin)), kernel.name, kernel.compute_capability);
  if (const auto nvdisasm = find_tool("nvdisasm")) {
    kernel.sass = output_of({*nvdisasm, "-gi", "-c", path});
  } else {
    kernel.lack = missing("nvdisasm", "makes machine code readable", "nvidia-cuda-nvdisasm");
    if (!kernel.ptx.empty()) kernel.lack += " --asm-form=ptx shows the PTX without it.";
  }
  // Of sm_90a an image says 90, and so do some versions of nvdisasm.
  for (const std::string& text : {kernel.sass, kernel.ptx}) {
    if (const std::string target = target_of(text); target.starts_with(kernel.architecture)) {
      kernel.architecture = target;
    }
  }
  return kernel;
}

}  // namespace ladder
