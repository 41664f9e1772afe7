// The samples behind the rows of the CSV.
#pragma once

#include "measure/row.hpp"
#include "report/result_file.hpp"

namespace ladder {

/// The file of all samples: an array with an object for each timed row, which holds the row's
/// `family`, `op`, `kernel`, `dtype`, `problem`, `backend` and `cache` as in the CSV, and its samples
/// in microseconds, `us`; on a GPU also what the driver said while each was taken: `sm_mhz`, `power_w`
/// and `throttle`. Where several processes measured, they are one after the other, and `of_processes` has
/// how many each gave. After every row it is whole.
class SamplesJson {
 public:
  /// Writes an empty array. Throws std::runtime_error when it could not be written.
  explicit SamplesJson(ResultFile& file);

  /// The first row, timed or not, puts the file in place. Throws std::runtime_error when its samples
  /// could not be written.
  void write(const Row& row);

 private:
  void append(const Row& row);

  ResultFile& file_;
  const char* separator_ = "";
};

}  // namespace ladder
