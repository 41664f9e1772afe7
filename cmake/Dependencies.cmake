# Finds what the suite stands on: installed packages first, sources pinned by the hash of their commit
# second.
#
# ladder_cuda: the CUDA runtime, cuDNN 9.6 or newer if it is installed, and the headers; without LADDER_CUDA only the
# headers. cuBLAS, cuBLASLt and CUPTI are loaded when they are first called.
# LADDER_CUDA is on when a CUDA compiler is found; one that is there, or that the environment asks for, has to work.
# A build without one needs NVIDIA's headers (cuda_fp16.h and what it includes) in LADDER_CUDA_INCLUDE_DIRS or in a
# usual place.
include(CheckLanguage)
include(FetchContent)
find_package(Threads REQUIRED)

set(BENCHMARK_ENABLE_TESTING OFF)
set(BENCHMARK_ENABLE_INSTALL OFF)
set(INSTALL_GTEST OFF)
FetchContent_Declare(fmt
  GIT_REPOSITORY https://github.com/fmtlib/fmt.git
  GIT_TAG a33701196adfad74917046096bf5a2aa0ab0bb50 # 9.1.0
  FIND_PACKAGE_ARGS 8)
FetchContent_Declare(benchmark
  GIT_REPOSITORY https://github.com/google/benchmark.git
  GIT_TAG 344117638c8ff7e239044fd0fa7085839fc03021 # v1.8.3
  FIND_PACKAGE_ARGS 1.6)
FetchContent_Declare(GTest
  GIT_REPOSITORY https://github.com/google/googletest.git
  GIT_TAG f8d7d77c06936315286eb55f8de22cd23c188571 # v1.14.0
  FIND_PACKAGE_ARGS 1.11)
FetchContent_MakeAvailable(fmt benchmark GTest)
if(NOT TARGET GTest::gmock)
  message(FATAL_ERROR "GoogleTest is installed without GoogleMock: install it too (Debian: libgmock-dev)")
endif()

if(LADDER_CUDA OR NOT DEFINED LADDER_CUDA)
  foreach(architecture IN ITEMS ${CMAKE_CUDA_ARCHITECTURES} $ENV{CUDAARCHS})
    if(NOT architecture MATCHES "^([0-9]+[af]?(-real|-virtual)?|native|all|all-major)$")
      message(FATAL_ERROR "\"${architecture}\" is no GPU architecture; CMAKE_CUDA_ARCHITECTURES and, in the "
                          "environment, CUDAARCHS take their numbers, parted by semicolons: \"80;90\".")
    endif()
  endforeach()
endif()
if(NOT DEFINED LADDER_CUDA)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(nvcc_found ON)
  else() # because there is none, or because of what was chosen?
    find_program(nvcc nvcc NO_CACHE)
    set(chosen)
    foreach(variable IN ITEMS CUDACXX CUDAARCHS CUDAFLAGS)
      if(NOT "$ENV{${variable}}" STREQUAL "")
        string(APPEND chosen " ${variable}=$ENV{${variable}}")
      endif()
    endforeach()
    if(nvcc OR chosen)
      set(why)
      foreach(log IN ITEMS CMakeError.log CMakeConfigureLog.yaml) # the latter since CMake 3.26
        set(log ${CMAKE_BINARY_DIR}/CMakeFiles/CheckCUDA/CMakeFiles/${log})
        if(EXISTS ${log})
          file(STRINGS ${log} why REGEX "(error|nvcc fatal) *: " LIMIT_COUNT 1 ENCODING UTF-8)
        endif()
      endforeach()
      string(REGEX REPLACE ".*(error|nvcc fatal) *: *(.*)" ": \\2" why "${why}")
      string(REGEX REPLACE ".+" " with\\0" chosen "${chosen}")
      unset(CMAKE_CUDA_COMPILER CACHE) # the next time it is looked for again
      message(FATAL_ERROR "No CUDA compiler works${chosen}${why}. Change that, or choose a build for CPUs alone: "
                          "-DLADDER_CUDA=OFF")
    endif()
  endif()
endif()
option(LADDER_CUDA "Build the kernels for GPUs; needs nvcc" ${nvcc_found})
add_library(ladder_cuda INTERFACE)

if(LADDER_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      # Without a GPU: every branch of the kernels is compiled, to PTX, of which a driver makes machine
      # code where there is a GPU. ptxas would take a quarter of the build's time.
      set(CMAKE_CUDA_ARCHITECTURES 90-virtual)
      set(choose_architecture ON)
    endif()
  endif()
  enable_language(CUDA)
  # CMake has asked the GPUs; from 3.28 on it has the words "No CUDA devices found" here without one.
  if(choose_architecture AND CMAKE_CUDA_ARCHITECTURES_NATIVE MATCHES "^[0-9]")
    set(CMAKE_CUDA_ARCHITECTURES native)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
    message(FATAL_ERROR "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.0 or newer is needed. "
                        "Without it: cmake --preset host")
  endif()
  # CMake 3.25 does not know nvcc's C++20 flag and would drop it silently.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit 12 REQUIRED)
  target_link_libraries(ladder_cuda INTERFACE CUDA::cudart)
  # CMake leaves nvcc's own library folder out of run paths; the loader need not know it.
  list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
  find_path(LADDER_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(LADDER_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  set(cudnn_version 0)
  if(LADDER_CUDNN_INCLUDE_DIR AND LADDER_CUDNN_LIBRARY)
    file(STRINGS ${LADDER_CUDNN_INCLUDE_DIR}/cudnn_version.h lines REGEX "define CUDNN_(MAJOR|MINOR) ")
    string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" cudnn_version "${lines}")
  endif()
  if(cudnn_version VERSION_GREATER_EQUAL 9.6)
    set(LADDER_CUDNN ON)
    target_include_directories(ladder_cuda SYSTEM INTERFACE ${LADDER_CUDNN_INCLUDE_DIR})
    target_link_libraries(ladder_cuda INTERFACE ${LADDER_CUDNN_LIBRARY})
  else()
    message(STATUS "cuDNN 9.6 or newer was not found: its baselines are left out")
  endif()
  if(TARGET CUDA::cupti AND EXISTS ${CUDAToolkit_CUPTI_INCLUDE_DIR}/cupti_range_profiler.h)
    set(LADDER_CUPTI ON)
  else()
    message(STATUS "CUPTI 12.6 or newer was not found: ./bench --counters is left out")
  endif()
  target_compile_definitions(ladder_cuda INTERFACE LADDER_CUDA_BACKEND)
  target_compile_options(ladder_cuda INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;-Xptxas=--warn-on-spills>")
  set(LADDER_CUDA_INCLUDE_DIRS ${CUDAToolkit_INCLUDE_DIRS})
  foreach(folder IN LISTS CUDAToolkit_INCLUDE_DIRS)
    if(EXISTS ${folder}/cccl) # since CUDA 13; nvcc finds it by itself, the host compiler does not
      list(APPEND LADDER_CUDA_INCLUDE_DIRS ${folder}/cccl)
    endif()
  endforeach()
elseif(NOT LADDER_CUDA_INCLUDE_DIRS)
  set(wheels ${CMAKE_PREFIX_PATH}) # `pip install .` has Python's packages there, NVIDIA's among them
  list(TRANSFORM wheels APPEND /nvidia/cu13)
  find_path(LADDER_CUDA_FP16_DIR cuda_fp16.h
            HINTS ${wheels} ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda ${CMAKE_SOURCE_DIR}/build/venv/cuda
            PATH_SUFFIXES include)
  find_path(LADDER_CUDA_CCCL_DIR nv/target
            HINTS ${LADDER_CUDA_FP16_DIR} PATH_SUFFIXES cccl include)
  if(NOT LADDER_CUDA_FP16_DIR OR NOT LADDER_CUDA_CCCL_DIR)
    message(FATAL_ERROR "NVIDIA's headers were not found. scripts/test and scripts/bench fetch them, and so does "
                        "`pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl` for the package; or set "
                        "LADDER_CUDA_INCLUDE_DIRS to the folders of cuda_fp16.h and nv/target.")
  endif()
  set(LADDER_CUDA_INCLUDE_DIRS ${LADDER_CUDA_FP16_DIR} ${LADDER_CUDA_CCCL_DIR})
endif()
foreach(folder IN LISTS LADDER_CUDA_INCLUDE_DIRS)
  if(NOT IS_DIRECTORY "${folder}")
    message(FATAL_ERROR "LADDER_CUDA_INCLUDE_DIRS: there is no folder ${folder}; without the variable CMake looks "
                        "in the usual places.")
  endif()
endforeach()
foreach(header cuda_fp16.h nv/target cuda.h)
  find_file(found ${header} PATHS ${LADDER_CUDA_INCLUDE_DIRS} NO_DEFAULT_PATH NO_CACHE)
  if(NOT found)
    message(FATAL_ERROR "LADDER_CUDA_INCLUDE_DIRS=${LADDER_CUDA_INCLUDE_DIRS}: ${header} is in none of these "
                        "folders; without the variable CMake looks in the usual places.")
  endif()
  if(header STREQUAL "cuda.h") # which has tensor maps since 12.0
    file(STRINGS ${found} version REGEX "^#define CUDA_VERSION")
    string(REGEX MATCH "[0-9]+$" version "${version}")
    if(version LESS 12000)
      message(FATAL_ERROR "${found} is of CUDA ${version}: 12000 (12.0) or newer is needed. scripts/test and "
                          "scripts/bench fetch such headers.")
    endif()
  endif()
  unset(found)
endforeach()
target_include_directories(ladder_cuda SYSTEM INTERFACE ${LADDER_CUDA_INCLUDE_DIRS})
