// Memory that could not be had. In this program operator new throws OutOfMemory, which says how much
// it was asked for; and an exception that nobody can catch ends the process with a sentence.
#pragma once

namespace ladder {

/// The exit code of a worker to which memory lacked where nobody could catch it.
inline constexpr int kNoMemoryExit = 12;

/// Throws OutOfMemory if operator new ever did in this process: a stream of the C++ library forgets
/// it, and goes on without what it could not hold.
void expect_no_lack();

/// Forgets what lacked up to now.
void forgive_lack();

/// From now on this process is a worker: how it ended is told by the one that forked it.
void leave_last_words_to_parent();

}  // namespace ladder
