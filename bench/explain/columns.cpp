#include "explain/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ladder {
namespace {

struct Spacing {
  std::size_t gap;
  std::string mark;  ///< of a bad cell
};

std::vector<std::string> set_columns(const std::vector<Column>& columns, const Spacing& spacing,
                                     const Paint& paint) {
  std::vector<std::string> lines(1 + columns.front().cells.size());
  for (const Column& column : columns) {
    std::size_t left_width = 0, right_width = 0, mark_width = 0;
    for (const Cell& cell : column.cells) {
      if (!cell.left.empty()) left_width = std::max(left_width, width_of(cell.left) + 1);
      right_width = std::max(right_width, width_of(cell.right));
      if (cell.bad) mark_width = width_of(spacing.mark);
    }
    const std::size_t width = std::max(left_width + right_width, width_of(column.title));
    lines[0] += spaces(spacing.gap) + right(column.title, width) + spaces(mark_width);
    for (std::size_t i = 0; i < column.cells.size(); ++i) {
      const Cell& cell = column.cells[i];
      const std::string value = right(cell.right, right_width);
      lines[i + 1] += spaces(spacing.gap) +
                      right(cell.left.empty() ? "" : cell.left + " ", width - right_width) +
                      (cell.bad ? paint.bad(value + spacing.mark) : value + spaces(mark_width));
    }
  }
  for (std::string& line : lines) line.resize(line.find_last_not_of(' ') + 1);
  return lines;
}

}  // namespace

std::vector<std::string> set_columns(const std::vector<Column>& columns, std::size_t width,
                                     const Paint& paint) {
  const std::array<Spacing, 5> spacings{{{4, " !"}, {3, " !"}, {2, " !"}, {2, "!"}, {1, "!"}}};
  const auto fits = [&](const Spacing& spacing) {
    const std::vector<std::string> plain = set_columns(columns, spacing, Paint(false));
    return std::all_of(plain.begin(), plain.end(),
                       [&](const std::string& line) { return width_of(line) <= width; });
  };
  const auto widest = std::find_if(spacings.begin(), spacings.end() - 1, fits);
  return set_columns(columns, *widest, paint);
}

std::string title(const Row& row) {
  const Kernel& kernel = *row.kernel;
  return fmt::format("{}{}{} {} {}", kernel.family, *kernel.op ? " " : "", kernel.op,
                     to_string(kernel.dtype), row.problem);
}

std::string refusal(const Row& row, std::size_t indent, const Paint& paint) {
  const bool unsupported = row.check.verdict == Verdict::unsupported;
  std::string text;
  for (const std::string& line :
       wrap(fmt::format("{}: {}", to_string(row.check.verdict), row.check.reason),
            kWidth - indent)) {
    text += spaces(text.empty() ? 0 : indent) + (unsupported ? line : paint.bad(line)) + "\n";
  }
  return text;
}

}  // namespace ladder
