// Google Benchmark's variables in the environment, BENCHMARK_FILTER and so on.
#pragma once

#include <string>

namespace ladder {

/// What the environment had under this name; empty if nothing. Google Benchmark does not see these
/// variables: it would read them before main begins, and print its own opinion of what is wrong.
std::string benchmark_variable(const std::string& name);

}  // namespace ladder
