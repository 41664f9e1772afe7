// A test's family of several devices in a ring: each adds to its own numbers those of the device before it,
// y[i] = x[i] + x[i - 1], and the first those of the last.
#pragma once

#include "device/kernel.hpp"

struct ring {
  static constexpr const char* family = "ring";
  static constexpr const char* op = "";
  static constexpr int kMost = 64;

  struct Problem {
    int devices;
    std::int64_t n;  // on each
  };

  template <class T>
  struct Args {
    const T* x[kMost];  // [devices][n]
    T* y[kMost];        // [devices][n]
    std::int64_t n;
  };
};
