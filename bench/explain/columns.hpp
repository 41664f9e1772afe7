// Tables of a ladder's versions, in 100 columns.
#pragma once

#include "cli/text.hpp"
#include "measure/row.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ladder {

inline constexpr std::size_t kWidth = 100;

struct Cell {
  std::string left, right;
  bool bad = false;
};

struct Column {
  std::string title;
  std::vector<Cell> cells;
};

/// A table's columns as text, as wide apart as `width` allows: the heading first, then a line per cell.
std::vector<std::string> set_columns(const std::vector<Column>& columns, std::size_t width,
                                     const Paint& paint);

/// "gemm f32 128x128x128"
std::string title(const Row& row);

/// "failed: …", with its lines after the first indented.
std::string refusal(const Row& row, std::size_t indent, const Paint& paint);

}  // namespace ladder
