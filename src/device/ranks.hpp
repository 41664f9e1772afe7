// The devices of a launch that uses several.
#pragma once

#include "device/types.hpp"

namespace ladder {

/// One of them, and what a launch has there.
struct Rank {
  int index = 0;   ///< from 0 on, as Array::on() counts them
  int device = 0;  ///< CUDA's number of it
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;  ///< by which the streams wait for each other: see on_each()
  void* state = nullptr;        ///< as Call::state
  void* workspace = nullptr;    ///< scratch memory
};

/// All of them.
struct Ranks {
  const Rank* first = nullptr;
  int count = 0;

  const Rank& operator[](int index) const { return first[index]; }
  const Rank* begin() const { return first; }
  const Rank* end() const { return first + count; }
};

}  // namespace ladder
