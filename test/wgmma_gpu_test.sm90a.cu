// The tests of wgmma on a GPU, apart from the others because they take nvcc long.
#include "wgmma_tests.hpp"
