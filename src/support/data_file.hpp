// A file that problems are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ladder {

/// Read once in a process, whoever names it.
template <class Data>
struct DataFile {
  std::string name;  ///< without its folder, as in a problem's text
  std::uint64_t hash = 0;
  std::shared_ptr<const Data> data{};
};

}  // namespace ladder
