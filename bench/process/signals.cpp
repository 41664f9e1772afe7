#include "process/signals.hpp"

#include <csignal>
#include <initializer_list>

namespace ladder {
namespace {

volatile std::sig_atomic_t remembered = 0;

}  // namespace

void remember_signals() {
  for (int number : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = [](int signal) { remembered = signal; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(number, &action, nullptr);
  }
}

int remembered_signal() { return remembered; }

}  // namespace ladder
