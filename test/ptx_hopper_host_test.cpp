// The tests of Hopper's instructions, and of what is built on them, on the host executor. This file is
// compiled as kernels are.
#if !defined(__SANITIZE_ADDRESS__)  // under which there are no clusters
#include "ptx_hopper_tests.hpp"
#include "rows_ahead_tests.hpp"
#endif
#include "wgmma_tests.hpp"
