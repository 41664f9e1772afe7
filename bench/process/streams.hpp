// stdin, stdout and stderr, which may be closed, full or a pipe that nobody reads.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

namespace ladder {

/// Opens /dev/null for those of them that are closed, as under cron: or the next file to be opened
/// would get their number and what is printed to them. From now on a write that fails is an error,
/// not a signal. Returns whether stdout was open.
bool open_standard_streams();

/// Throws std::runtime_error when something that was printed to stdout or stderr could not be written.
void expect_written(std::FILE* stream);

/// What an exception says; that stdout cannot be written if that is why it was thrown.
std::string reason(const std::exception& error);

/// Prints "bench: " and a sentence to stderr, if that can be written.
void complain(const std::string& sentence);

}  // namespace ladder
