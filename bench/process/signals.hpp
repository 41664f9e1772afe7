// Ctrl-C and `kill` end a sweep, not the program: what was measured is kept and summed up.
#pragma once

namespace ladder {

/// From now on SIGINT and SIGTERM are only remembered; the second one ends the process as ever. A
/// signal that the process was started to ignore stays ignored.
void remember_signals();

/// The signal that was remembered, 0 if there was none.
int remembered_signal();

}  // namespace ladder
