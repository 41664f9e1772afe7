// The limits of the machine: what the family `roofs` measures, and the other families' work is held
// against.
#pragma once

#include "harness/dtype.hpp"

#include <compare>
#include <string>

namespace ladder {

/// A limit of the machine, by its name: "dram", "gather", "fma f32", "tensor bf16".
class Roof {
 public:
  /// Throws std::invalid_argument where no roof is called so.
  Roof(const char* name);
  Roof(const char* unit, DType dtype);  ///< "fma" or "tensor", of a type

  const std::string& name() const { return name_; }
  bool is_arithmetic() const { return name_.starts_with("fma ") || name_.starts_with("tensor "); }
  auto operator<=>(const Roof&) const = default;

 private:
  std::string name_;
};

/// How much of a roof a problem's work needs, in the unit that it is measured in: bytes, operations,
/// atomics, loads.
struct Demand {
  Roof roof;
  double amount;

  bool operator==(const Demand&) const = default;
};

/// The work a problem cannot do without: useful floating-point operations, and bytes when what is read
/// is read once and what is written is written once.
struct Cost {
  double flops, bytes_read, bytes_written;
  double bytes() const { return bytes_read + bytes_written; }
};

/// What an operation of the family `roofs` measures, in bytes, "B", or in what its flops are.
struct Measurement {
  Roof roof;
  const char* unit;

  double amount(const Cost& cost) const;
};

}  // namespace ladder
