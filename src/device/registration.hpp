// How a version makes itself known.
#pragma once

#include "device/ranks.hpp"
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

/// What a version is launched with. Launches that may overlap share none of it but the plan, and no
/// scratch memory, to which args point.
struct Call {
  const void* args;            ///< the family's Args<T>
  const void* plan = nullptr;  ///< what the version's plan() made for such args on this device
  /// As many bytes as the version asks for, which were zero before its first launch with them; a launch
  /// leaves them as it found them. After one that failed or was ended they have to be zero again.
  void* state = nullptr;
  Ranks ranks{};  ///< the devices of the problem; the stream of a launch is the first one's
};

/// Problems of a version's family.
struct TestProblems {
  const void* first = nullptr;
  std::size_t count = 0;
};

/// A registered version of one family, op and element type; args and problem are the family's
/// Args<T> and Problem.
struct Kernel {
  const char* family;
  const char* op;  ///< "" where the family has one operation
  DType dtype;
  Version version;
  const char* file;  ///< the source file, as the compiler was given it
  Backend backend;
  void (*launch)(const Call& call, cudaStream_t stream);
  Support (*supports)(const void* problem);
  std::size_t (*workspace)(const Call& call) = nullptr;  ///< bytes of scratch memory
  std::size_t (*state)(const void* args) =
      nullptr;  ///< bytes of Call::state, the same of a problem
  /// Of the current device. Args need no workspace, and of the arrays the alignment alone. may_time:
  /// launches may be timed to decide, on memory that is the plan's own. Null: the version has no plan.
  const void* (*plan)(const void* args, bool may_time) = nullptr;
  void (*forget)(const void* plan) = nullptr;
  /// The version's own, besides its family's; and those of a larger GPU.
  TestProblems test_problems{}, many_sms_test_problems{};
};

void register_kernel(const Kernel& kernel);

/// Registers version V for Contract (a family, or one op of a family) and element types Ts.
///
/// V has `static constexpr Version version` and `static void launch(const Contract::Args<T>&,
/// cudaStream_t)`. It may have
///   static Support supports(const Contract::Problem&)    its limits; supports<T> if they depend on
///                                                        the type
///   static std::size_t workspace(const Args<T>&)         bytes of scratch memory that args.workspace
///                                                        must point to in launch
///   static std::size_t state(const Args<T>&)             bytes of Call::state, whatever the arrays'
///                                                        addresses; launch then takes `void* state`
///                                                        before the stream
///   static Plan plan(const Args<T>&, bool may_time)      what is decided once for a problem and a
///                                                        device; it then has a workspace, which
///                                                        like launch takes a `const Plan&` behind
///                                                        args
///   static void launch(const Args<T>&, Ranks)            instead, where it runs on several devices
///                                                        (device/on_each.hpp): workspace and state are
///                                                        then bytes on each, to which the ranks point
///   static constexpr Contract::Problem test_problems[]   tested with it alone: what its family's
///                                                        leave untried of its branches
///   static constexpr Contract::Problem many_sms_test_problems[]
///                                                        the same of branches that two SMs, as the
///                                                        host executor has, do not lead to: tried on
///                                                        132 of them
/// None of them but launch does anything that others can see, and launch only launches.
template <class V, class Contract, class... Ts>
struct Register {
  explicit Register(Backend backend = kBackend, const char* file = __builtin_FILE()) {
    (register_kernel({Contract::family, Contract::op, DTypeOf<Ts>::value, V::version, file, backend,
                      &launch<Ts>, &supports<Ts>, &workspace<Ts>, &state<Ts>, planner<Ts>().first,
                      planner<Ts>().second, own_problems(), many_sms_problems()}),
     ...);
  }

 private:
  static constexpr TestProblems own_problems() {
    if constexpr (requires { V::test_problems; }) {
      return {V::test_problems, sizeof V::test_problems / sizeof V::test_problems[0]};
    }
    return {};
  }
  static constexpr TestProblems many_sms_problems() {
    if constexpr (requires { V::many_sms_test_problems; }) {
      return {V::many_sms_test_problems,
              sizeof V::many_sms_test_problems / sizeof V::many_sms_test_problems[0]};
    }
    return {};
  }
  template <class T>
  using Args = typename Contract::template Args<T>;

  template <class T>
  static constexpr bool kPlans = requires(const Args<T>& a) {
    V::plan(a, true);
  };

  // A hook that takes something else would be left out without a word.
  static constexpr bool kNamesSupports = requires { &V::supports; };
  static constexpr bool kNamesWorkspace = requires { &V::workspace; };
  static constexpr bool kNamesState = requires { &V::state; };
  static constexpr bool kNamesPlan = requires { &V::plan; };

  template <class T>
  static const Args<T>& args_of(const Call& call) {
    return *static_cast<const Args<T>*>(call.args);
  }
  template <class T>
  static const auto& plan_of(const Call& call) {
    return *static_cast<const decltype(V::plan(args_of<T>(call), true))*>(call.plan);
  }
  template <class T>
  static void launch(const Call& call, cudaStream_t stream) {
#if defined(LADDER_HOST_EXECUTOR)
    const host::LaunchStream given(stream);
#endif
    const Args<T>& a = args_of<T>(call);
    if constexpr (requires { V::launch(a, call.ranks); }) {
      V::launch(a, call.ranks);
    } else if constexpr (kPlans<T>) {
      const auto& plan = plan_of<T>(call);
      if constexpr (requires { V::launch(a, plan, call.state, stream); }) {
        V::launch(a, plan, call.state, stream);
      } else {
        V::launch(a, plan, stream);
      }
    } else if constexpr (requires { V::launch(a, call.state, stream); }) {
      V::launch(a, call.state, stream);
    } else {
      V::launch(a, stream);
    }
  }
  template <class T>
  static std::size_t workspace([[maybe_unused]] const Call& call) {
    if constexpr (kPlans<T>) {
      return V::workspace(args_of<T>(call), plan_of<T>(call));
    } else if constexpr (requires(const Args<T>& a) { V::workspace(a); }) {
      return V::workspace(args_of<T>(call));
    } else {
      static_assert(!kNamesWorkspace, "workspace takes args, and the plan if there is one");
      return 0;
    }
  }
  template <class T>
  static std::size_t state([[maybe_unused]] const void* args) {
    if constexpr (requires(const Args<T>& a) { V::state(a); }) {
      return V::state(*static_cast<const Args<T>*>(args));
    } else {
      static_assert(!kNamesState, "state takes args");
      return 0;
    }
  }
  template <class T>
  static constexpr std::pair<const void* (*)(const void*, bool), void (*)(const void*)> planner() {
    if constexpr (kPlans<T>) {
      using Plan = decltype(V::plan(std::declval<const Args<T>&>(), true));
      return {[](const void* args, bool may_time) -> const void* {
                return new Plan(V::plan(*static_cast<const Args<T>*>(args), may_time));
              },
              [](const void* plan) { delete static_cast<const Plan*>(plan); }};
    } else {
      static_assert(!kNamesPlan, "plan takes args and whether it may time");
      return {};
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
      static_assert(!kNamesSupports, "supports takes the problem");
      return supported();
    }
  }
};

}  // namespace ladder
