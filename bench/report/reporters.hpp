// Google Benchmark's reporters around ours.
#pragma once

#include "report/console.hpp"

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

namespace ladder {

/// Our tables are printed as groups are measured; of Google Benchmark's runs only the aggregates of
/// --benchmark_repetitions remain to be shown.
std::unique_ptr<benchmark::BenchmarkReporter> console_reporter(const Console& console);

/// Takes what a reporter has to write. Returns whether more can be written.
using Write = std::function<bool(const std::string& text)>;

/// Google Benchmark's json or csv reporter, without the "/iterations:1/manual_time" that it appends
/// to every name here, and with the measured time as the CPU's, too: that of this process, which waits, tells
/// nothing. Its JSON is strict. Null for any other format.
std::unique_ptr<benchmark::BenchmarkReporter> file_reporter(const std::string& format, Write write);

}  // namespace ladder
