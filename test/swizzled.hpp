// The swizzles in which TMA and wgmma see shared memory.
#pragma once

/// Where chunk `chunk` (16 bytes) of row `row` lies, in chunks: in the 128-byte swizzle, or in that
/// of 64 bytes for rows of 64 bytes.
inline int swizzled(int row, int chunk, int row_bytes = 128) {
  return row_bytes == 128 ? row * 8 + (chunk ^ row % 8) : row * 4 + (chunk ^ row / 2 % 4);
}
