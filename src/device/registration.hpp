// How a version makes itself known.
#pragma once

#include "device/types.hpp"

#include <cstddef>
#include <utility>

namespace ladder {

/// What a version says of itself; its number and name are its file's: vNN_name.cu.
struct Version {
  const char* idea;        ///< what this version does, in a few words
  bool baseline = false;   ///< a vendor's library, against which the others are compared
  bool capturable = true;  ///< its launches may be captured into a CUDA graph, to be timed hot
  /// The result, if any, that blocks add to in the order in which they come: its last bits vary.
  const char* unordered_sum = "";
  const char* variant = "";  ///< of several that a file registers: the end of its label
};

/// The digits of a positive number, as the text of a variant.
template <int n, char... digits>
struct Digits : Digits<n / 10, '0' + n % 10, digits...> {};
template <char... digits>
struct Digits<0, digits...> {
  static constexpr char text[] = {digits..., '\0'};
};

/// Whether a version can run a problem, and if not, why.
struct Support {
  bool ok = true;
  const char* reason = "";  ///< lives as long as the program
};
inline Support supported() { return {}; }

/// The reason is formatted as printf does.
[[gnu::format(printf, 1, 2)]] Support unsupported(const char* format, ...);

/// A registered version of one family, op and element type; args and problem are the family's
/// Args<T> and Problem.
struct Kernel {
  const char* family;
  const char* op;  ///< "" where the family has one operation
  DType dtype;
  Version version;
  const char* file;  ///< the source file, as the compiler was given it
  Backend backend;
  void (*launch)(const void* args, cudaStream_t stream);
  Support (*supports)(const void* problem);
  std::size_t (*workspace)(const void* args) = nullptr;  ///< bytes of scratch memory
  const void* test_problems = nullptr;  ///< the version's own, besides its family's
  std::size_t test_problem_count = 0;
};

void register_kernel(const Kernel& kernel);

/// Registers version V for Contract (a family, or one op of a family) and element types Ts.
///
/// V has `static constexpr Version version` and `static void launch(const Contract::Args<T>&,
/// cudaStream_t)`; where it has limits `static Support supports(const Contract::Problem&)`, or, if
/// they depend on the type, `supports<T>`; where it needs scratch memory
/// `static std::size_t workspace(const Contract::Args<T>&)`, the bytes that args.workspace must
/// point to in launch; where its family's test problems leave a branch of it untried
/// `static constexpr Contract::Problem test_problems[]`, which are tested with it alone.
template <class V, class Contract, class... Ts>
struct Register {
  explicit Register(Backend backend = kBackend, const char* file = __builtin_FILE()) {
    (register_kernel({Contract::family, Contract::op, DTypeOf<Ts>::value, V::version, file, backend,
                      &launch<Ts>, &supports<Ts>, &workspace<Ts>, own_problems().first,
                      own_problems().second}),
     ...);
  }

 private:
  static constexpr std::pair<const void*, std::size_t> own_problems() {
    if constexpr (requires { V::test_problems; }) {
      return {V::test_problems, sizeof V::test_problems / sizeof V::test_problems[0]};
    } else {
      return {};
    }
  }
  template <class T>
  static void launch(const void* args, cudaStream_t stream) {
#if defined(LADDER_HOST_EXECUTOR)
    const host::LaunchStream given(stream);
#endif
    V::launch(*static_cast<const typename Contract::template Args<T>*>(args), stream);
  }
  template <class T>
  static std::size_t workspace([[maybe_unused]] const void* args) {
    using Args = typename Contract::template Args<T>;
    if constexpr (requires(const Args& a) { V::workspace(a); }) {
      return V::workspace(*static_cast<const Args*>(args));
    } else {
      return 0;
    }
  }
  template <class T>
  static Support supports([[maybe_unused]] const void* problem) {
    using Problem = typename Contract::Problem;
    if constexpr (requires(const Problem& p) { V::template supports<T>(p); }) {
      return V::template supports<T>(*static_cast<const Problem*>(problem));
    } else if constexpr (requires(const Problem& p) { V::supports(p); }) {
      return V::supports(*static_cast<const Problem*>(problem));
    } else {
      return supported();
    }
  }
};

}  // namespace ladder
