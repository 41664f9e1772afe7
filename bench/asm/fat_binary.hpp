// What nvcc put into a program: PTX and machine code, in fat binaries.
#pragma once

#include <string>
#include <vector>

namespace ladder {

struct Image {
  bool is_ptx;       ///< or else machine code, a cubin
  int architecture;  ///< 90 for compute_90 and sm_90
  std::string contents;
};

/// The images in a program's section of fat binaries. Throws std::runtime_error where one cannot be
/// decompressed.
std::vector<Image> images_in(std::string_view section);

}  // namespace ladder
