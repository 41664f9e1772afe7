#include "host_executor/module.hpp"

#include <link.h>

#include <filesystem>

namespace ladder::host {
namespace {

// The system sets up a thread's copy of the segment when the thread first accesses it; reading this
// makes sure that it has.
thread_local volatile char thread_local_probe;

// dl_iterate_phdr's callback: fills in a Module if `info` is about the binary with this function.
int visit(dl_phdr_info* info, std::size_t, void* result) {
  const auto self = reinterpret_cast<ElfW(Addr)>(&visit);
  Module module{.path = info->dlpi_name, .base = info->dlpi_addr};
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const Segment segment{info->dlpi_addr + header.p_vaddr, header.p_memsz};
    if (header.p_type == PT_TLS) {
      module.thread_local_data = {reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data),
                                  header.p_memsz};
    } else if (header.p_type == PT_LOAD) {
      found |= self - segment.begin < segment.size;
      if (header.p_flags & PF_W) module.variables = segment;
    }
  }
  if (found) *static_cast<Module*>(result) = module;
  return found;  // whether to stop looking
}

}  // namespace

Module find_module() {
  static_cast<void>(thread_local_probe);
  Module module;
  dl_iterate_phdr(&visit, &module);
  if (module.path.empty()) module.path = std::filesystem::canonical("/proc/self/exe");  // a program
  return module;
}

}  // namespace ladder::host
