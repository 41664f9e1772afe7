// The swizzles in which TMA and wgmma see shared memory.
#pragma once

/// Where chunk `chunk` (16 bytes) of row `row` lies, in chunks, in the swizzle of as many bytes as a
/// row has: 128, 64 or 32.
inline int swizzled(int row, int chunk, int row_bytes = 128) {
  return row_bytes == 128  ? row * 8 + (chunk ^ row % 8)
         : row_bytes == 64 ? row * 4 + (chunk ^ row / 2 % 4)
                           : row * 2 + (chunk ^ row / 4 % 2);
}
