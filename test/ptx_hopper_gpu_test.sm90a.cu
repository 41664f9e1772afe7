// The tests of Hopper's instructions, and of what is built on them, on a GPU.
#include "ptx_hopper_tests.hpp"
#include "rows_ahead_tests.hpp"
