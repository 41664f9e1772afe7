// To be preloaded: counts the calls of a program and of the processes it forks that a full disk, a
// broken one or a lack of memory may fail, and makes one of them fail. What shall fail, and what
// happened, is in the file $FAILING_CALLS, a Plan.
//
// What stdio writes it writes by calls within libc, which no other function can take the place of.
// So these calls are stopped at the system's door: a filter (seccomp) turns those that come from
// libc's code into a signal, whose handler makes the call or refuses it. A program that is executed
// has its libc elsewhere, and is left alone. Memory, threads and what posix_spawn does with all
// signals blocked are functions that take the place of libc's.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

/// In the order of failing_calls_test.py's ERRORS.
enum Kind {
  kWrite,
  kSync,
  kRename,
  kLink,
  kUnlink,
  kTruncate,
  kSend,
  kReceive,
  kPoll,
  kClose,
  kFork,
  kSocketPair,
  kThread,
  kRead,
  kOpen,
  kMap,
  kAllocate,
  kKinds
};
constexpr int kMostProcesses = 4, kMostCalls = 1 << 14;

/// All numbers are 64 bits wide for the sake of who reads them in another language.
struct Plan {
  // What shall fail: a call of the n-th process, how, counted from 0
  std::int64_t process, kind, index;
  std::int64_t error;  // an errno; 0: half of what was to be written, read or sent
  // What happened
  std::int64_t ready;   // 1: calls are counted; -1: they cannot be
  std::int64_t failed;  // whether it was reached
  std::atomic<std::int64_t> processes;
  std::atomic<std::int64_t> counts[kMostProcesses][kKinds];
  // If nothing shall fail (kind -1), of each call of one of the last kinds: a number for who called
  // whom for it
  std::uint64_t callers[kMostProcesses][kKinds - kRead][kMostCalls];
};

Plan* plan = nullptr;
std::int64_t process = 0;

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;

/// A system call that does not come from libc.
long system_call(long number, const long (&a)[6]) {
  long result = number;
  register long fourth asm("r10") = a[3];
  register long fifth asm("r8") = a[4];
  register long sixth asm("r9") = a[5];
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
}

struct Registers {
  explicit Registers(void* context)
      : r(static_cast<ucontext_t*>(context)->uc_mcontext.gregs), arguments{r[REG_RDI], r[REG_RSI],
                                                                           r[REG_RDX], r[REG_R10],
                                                                           r[REG_R8],  r[REG_R9]} {}
  void set_result(long result) { r[REG_RAX] = result; }
  greg_t* r;
  long arguments[6];
};
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;

/// A system call that does not come from libc.
long system_call(long number, const long (&a)[6]) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a[0];
  register long x1 asm("x1") = a[1];
  register long x2 asm("x2") = a[2];
  register long x3 asm("x3") = a[3];
  register long x4 asm("x4") = a[4];
  register long x5 asm("x5") = a[5];
  asm volatile("svc 0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
}

struct Registers {
  explicit Registers(void* context) : r(static_cast<ucontext_t*>(context)->uc_mcontext.regs) {
    for (int i = 0; i < 6; ++i) arguments[i] = static_cast<long>(r[i]);
  }
  void set_result(long result) { r[0] = static_cast<unsigned long long>(result); }
  unsigned long long* r;
  long arguments[6];
};
#endif

struct Range {
  std::uintptr_t begin, end;
  bool holds(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - begin < end - begin;
  }
};

constexpr int kMostRanges = 32;
Range ours[kMostRanges];  // the code that counts: not that of the loader and of NVIDIA's libraries
int ranges = 0;

/// Adds a frame of the stack to a number: where in its library it is, wherever that was loaded.
_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto& number = *static_cast<std::uint64_t*>(to);
  const std::uintptr_t address = _Unwind_GetIP(context);
  for (int i = 0; i < ranges; ++i) {
    if (!ours[i].holds(reinterpret_cast<const void*>(address))) continue;
    number = (number ^ (address - ours[i].begin + static_cast<unsigned>(i))) * 0x100000001B3;
  }
  return _URC_NO_REASON;
}

[[gnu::tls_model("initial-exec")]] thread_local bool is_looking_up = false;

/// Counts a call. Returns whether it shall fail.
bool fails(Kind kind) {
  if (!plan || process >= kMostProcesses || is_looking_up) return false;
  const std::int64_t index = plan->counts[process][kind].fetch_add(1);
  if (plan->kind < 0 && kind >= kRead && index < kMostCalls) {
    is_looking_up = true;
    std::uint64_t number = 0xCBF29CE484222325;
    _Unwind_Backtrace(&add_frame, &number);
    plan->callers[process][kind - kRead][index] = number;
    is_looking_up = false;
  }
  if (plan->process != process || plan->kind != kind || plan->index != index) return false;
  plan->failed = 1;
  return true;
}

// --- Calls that come from libc ------------------------------------------------------------------

struct Call {
  long number;
  Kind kind;
};
constexpr Call kCalls[] = {
    {SYS_write, kWrite},
    {SYS_writev, kWrite},
    {SYS_read, kRead},
    {SYS_fsync, kSync},
    {SYS_renameat, kRename},
    {SYS_linkat, kLink},
    {SYS_unlinkat, kUnlink},
    {SYS_pwrite64, kWrite},
    {SYS_ftruncate, kTruncate},
    {SYS_sendto, kSend},
    {SYS_recvfrom, kReceive},
    {SYS_ppoll, kPoll},
    {SYS_socketpair, kSocketPair},
#if defined(SYS_rename)
    {SYS_rename, kRename},
    {SYS_link, kLink},
    {SYS_unlink, kUnlink},
    {SYS_poll, kPoll},
#endif
};

void on_call(int, siginfo_t* info, void* context) {
  Registers registers(context);
  auto& arguments = registers.arguments;
  for (const Call& call : kCalls) {
    if (call.number != info->si_syscall || !fails(call.kind)) continue;
    if (plan->error != 0) {
      registers.set_result(-plan->error);
      return;
    }
    if (arguments[2] > 1) arguments[2] /= 2;
  }
  registers.set_result(system_call(info->si_syscall, arguments));
}

bool filter_calls(const Range& code) {
  struct sigaction action {};
  action.sa_sigaction = &on_call;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);

  constexpr unsigned char kCount = sizeof kCalls / sizeof *kCalls;
  constexpr unsigned kLoad = BPF_LD | BPF_W | BPF_ABS, kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr unsigned kNotBelow = BPF_JMP | BPF_JGE | BPF_K;
  constexpr unsigned kAt = offsetof(seccomp_data, instruction_pointer);
  const auto high = static_cast<unsigned>(code.begin >> 32);
  const auto low = static_cast<unsigned>(code.begin), end = static_cast<unsigned>(code.end);
  if (high != code.end >> 32) return false;
  sock_filter program[kCount + 10];
  sock_filter* at = program;
  auto add = [&](unsigned operation, unsigned value, int yes = 0, int no = 0) {
    *at++ = {static_cast<unsigned short>(operation), static_cast<unsigned char>(yes),
             static_cast<unsigned char>(no), value};
  };
  add(kLoad, offsetof(seccomp_data, arch));
  add(kEqual, kArchitecture, 0, kCount + 6);
  add(kLoad, kAt + 4);
  add(kEqual, high, 0, kCount + 4);
  add(kLoad, kAt);
  add(kNotBelow, low, 0, kCount + 2);
  add(kNotBelow, end, kCount + 1, 0);
  add(kLoad, offsetof(seccomp_data, nr));
  for (int i = 0; i < kCount; ++i) {
    add(kEqual, static_cast<unsigned>(kCalls[i].number), kCount - i, 0);
  }
  add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  add(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  const sock_fprog filter{static_cast<unsigned short>(at - program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

// --- Who calls ----------------------------------------------------------------------------------

Range libc_code;

int visit(dl_phdr_info* info, std::size_t, void*) {
  const char* name = std::strrchr(info->dlpi_name, '/');
  name = name ? name + 1 : info->dlpi_name;
  for (const char* other : {"ld-linux", "linux-vdso", "libcu", "libnv", "libgcc_s"}) {
    if (std::strncmp(name, other, std::strlen(other)) == 0) return 0;
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || !(header.p_flags & PF_X)) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const Range range{begin, begin + header.p_memsz};
    if (range.holds(reinterpret_cast<const void*>(&visit))) continue;
    if (std::strncmp(name, "libc.so", 7) == 0) libc_code = range;
    if (ranges < kMostRanges) ours[ranges++] = range;
  }
  return 0;
}

/// Memory is asked for before any constructor runs: then the plan is read.
void read_plan() {
  static bool tried = false;
  if (tried || !environ) return;
  tried = true;
  const char* path = getenv("FAILING_CALLS");
  if (!path) return;
  const long file =
      system_call(SYS_openat, {AT_FDCWD, reinterpret_cast<long>(path), O_RDWR | O_CLOEXEC});
  const long memory =
      system_call(SYS_mmap, {0, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0});
  if (memory < 0) std::abort();
  system_call(SYS_close, {file});
  dl_iterate_phdr(&visit, nullptr);
  plan = reinterpret_cast<Plan*>(memory);
}

bool allocation_fails(const void* caller) {
  if (!plan) read_plan();
  for (int i = 0; i < ranges; ++i) {
    if (!ours[i].holds(caller)) continue;
    if (!fails(kAllocate)) return false;
    errno = ENOMEM;
    return true;
  }
  return false;
}

/// libc's function of the same name.
template <class F>
F* real(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define REAL(function) real(&::function, #function)

[[gnu::constructor]] void begin() {
  read_plan();
  if (!plan) return;
  unsetenv("LD_PRELOAD");
  plan->ready = filter_calls(libc_code) ? 1 : -1;
}

}  // namespace

// --- Functions that take the place of libc's ----------------------------------------------------

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

#define CALLER __builtin_return_address(0)

void* malloc(std::size_t bytes) {
  return allocation_fails(CALLER) ? nullptr : __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  return allocation_fails(CALLER) ? nullptr : __libc_calloc(n, bytes);
}
void* realloc(void* pointer, std::size_t bytes) {
  return allocation_fails(CALLER) ? nullptr : __libc_realloc(pointer, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocation_fails(CALLER) ? nullptr : __libc_memalign(alignment, bytes);
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if (!fails(kMap)) {
    const long result =
        system_call(SYS_mmap, {reinterpret_cast<long>(address), static_cast<long>(bytes),
                               protection, flags, file, offset});
    if (result >= 0 || result < -4095) return reinterpret_cast<void*>(result);
    errno = static_cast<int>(-result);
    return MAP_FAILED;
  }
  errno = static_cast<int>(plan->error);
  return MAP_FAILED;
}

int open(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  static auto* const next = REAL(open);
  if (!fails(kOpen)) return next(path, flags, mode);
  errno = static_cast<int>(plan->error);
  return -1;
}

std::FILE* fopen(const char* path, const char* mode) {
  static auto* const next = REAL(fopen);
  if (!fails(kOpen)) return next(path, mode);
  errno = static_cast<int>(plan->error);
  return nullptr;
}

std::FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

int close(int file) {
  static auto* const next = REAL(close);
  const bool refused = fails(kClose);
  const int result = next(file);  // the system closes it in any case
  if (!refused) return result;
  errno = static_cast<int>(plan->error);
  return -1;
}

pid_t fork() {
  static auto* const next = REAL(fork);
  if (fails(kFork)) {
    errno = static_cast<int>(plan->error);
    return -1;
  }
  const std::int64_t number = plan ? plan->processes.fetch_add(1) + 1 : 0;
  const pid_t child = next();
  if (child == 0) process = number;
  return child;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  static auto* const next = REAL(pthread_create);
  return fails(kThread) ? static_cast<int>(plan->error) : next(thread, attributes, body, argument);
}

}  // extern "C"
