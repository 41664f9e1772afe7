// Fills the L2 caches of GPUs with lines that no kernel has asked for.
#pragma once

#include "device/ranks.hpp"

#include <cstddef>
#include <map>

namespace ladder {

/// Of other data, twice the size of the L2, which is enqueued to be read or written. Throws
/// std::runtime_error where memory is short.
class L2Flush {
 public:
  explicit L2Flush(std::size_t l2_bytes);
  ~L2Flush();
  L2Flush(const L2Flush&) = delete;
  L2Flush& operator=(const L2Flush&) = delete;

  /// Leaves clean lines only: what was dirty is written back meanwhile. Of the GPU that is current, and of
  /// those that `ranks` has after the first, on their streams.
  void read(cudaStream_t stream, Ranks ranks = {});

  /// Leaves dirty lines, which whoever needs their place has to write back.
  void write(cudaStream_t stream, Ranks ranks = {});

 private:
  void* buffer_of(int device);

  std::size_t bytes_;
  std::map<int, void*> buffers_;  ///< by CUDA's numbers of the GPUs
};

}  // namespace ladder
