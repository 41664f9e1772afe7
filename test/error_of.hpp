// The messages of errors, for the tests of what must fail.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace ladder::test {

/// The message of the error that work() ends with; "" if it does not throw.
template <class F>
std::string error_of(F work) {
  try {
    work();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not contain \"" << part << '"';
}

}  // namespace ladder::test
