// What was compiled and how; cmake/Provenance.cmake writes it.
#pragma once

#include "harness/device.hpp"

#include <map>
#include <string>
#include <string_view>

namespace ladder {

extern const char* const kBuild;  ///< the build type
extern const char* const kFlags;  ///< the compilers', those that a user has set
extern const std::map<std::string_view, const char*> kCodes;  ///< by family/vNN_name.cu

/// A hash of what decides a version's compiled kernels: its source and what that includes. Empty if it
/// is not of src/kernels.
std::string code_of(const Kernel& kernel);

}  // namespace ladder
