# ladder_host_executor(TARGET KERNELS SOURCES): makes TARGET's KERNELS run on the CPU.
#
# The kernels are compiled as C++ with the compiler's thread-sanitizer instrumentation, whose entry
# points src/harness/host/hooks.cpp defines (libtsan itself is not linked): every memory access of a
# kernel becomes a call. -fno-tree-sra keeps a float4 one access; -O1 because higher levels merge
# and split accesses. Under LADDER_SANITIZE AddressSanitizer takes the instrumentation's place.
set(LADDER_HOST_FOLDER ${CMAKE_SOURCE_DIR}/src/harness/host)

function(ladder_host_executor target)
  cmake_parse_arguments(arg "" "" "KERNELS" ${ARGN})
  target_sources(${target} PRIVATE
    ${LADDER_HOST_FOLDER}/counters.cpp
    ${LADDER_HOST_FOLDER}/executor.cpp
    ${LADDER_HOST_FOLDER}/fiber.cpp
    ${LADDER_HOST_FOLDER}/hooks.cpp
    ${LADDER_HOST_FOLDER}/memory.cpp
    ${LADDER_HOST_FOLDER}/module.cpp
    ${LADDER_HOST_FOLDER}/ptx.cpp
    ${LADDER_HOST_FOLDER}/races.cpp
    ${LADDER_HOST_FOLDER}/source.cpp
    ${LADDER_HOST_FOLDER}/warp.cpp
    ${CMAKE_SOURCE_DIR}/src/harness/registry.cpp
    ${arg_KERNELS})
  set_source_files_properties(${arg_KERNELS} PROPERTIES LANGUAGE CXX)
  if(NOT LADDER_SANITIZE)
    set_source_files_properties(${arg_KERNELS} PROPERTIES COMPILE_OPTIONS
      "-O1;-g;-gdwarf-4;-fno-tree-sra;-fno-thread-jumps;-fno-reorder-blocks;-fsanitize=thread;-fsanitize-coverage=trace-pc;--param;tsan-instrument-func-entry-exit=0;-Wno-unknown-pragmas")
  else()
    set_source_files_properties(${arg_KERNELS} PROPERTIES COMPILE_OPTIONS "-O1;-g;-Wno-unknown-pragmas")
  endif()
  target_compile_definitions(${target} PRIVATE LADDER_HOST_EXECUTOR)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(${target} SYSTEM PRIVATE ${LADDER_CUDA_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE ladder_warnings)
endfunction()
