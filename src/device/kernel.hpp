// What a kernel file includes: the names of CUDA C++ on both backends, the registration of a version,
// and ladder::launch. Kept light, because every kernel file is compiled twice: by nvcc for the GPU,
// and by the host compiler for the host executor (with LADDER_HOST_EXECUTOR defined). <string>,
// <vector> and <stdexcept> would add half of what an empty kernel file costs nvcc.
#pragma once

#include "device/launch.hpp"
#include "device/registration.hpp"
#include "device/types.hpp"
