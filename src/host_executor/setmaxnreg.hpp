// Registers that warpgroups give back and take: setmaxnreg. A block begins with all that a
// multiprocessor has, in equal shares (device/ptx/setmaxnreg.hpp); who takes more waits until others
// have given enough back.
#pragma once

#include <source_location>

namespace ladder::host {

/// A new block runs.
void reset_registers();
/// All its threads have ended: ends the launch if some of a warpgroup have not done as the others.
void expect_same_registers();

void setmaxnreg_dec(unsigned registers);
void setmaxnreg_inc(unsigned registers, std::source_location at);

}  // namespace ladder::host
