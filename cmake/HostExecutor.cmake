# ladder_host_executor(TARGET [HEADERS_OF OTHER] KERNELS SOURCES): makes TARGET's KERNELS run on the CPU.
#
# The kernels are compiled as C++ with the compiler's thread-sanitizer instrumentation, whose entry
# points src/host_executor/hooks.cpp defines (libtsan itself is not linked): every memory access of a
# kernel becomes a call. -fno-tree-sra keeps a float4 one access; -O1 because higher levels merge
# and split accesses; -g1 tells lines, which messages name, and no variables, and with statement
# frontiers they are the lines that -g tells. Under LADDER_SANITIZE AddressSanitizer takes the
# instrumentation's place.
# kernel.hpp is precompiled: parsing it is most of what a kernel costs here. HEADERS_OF takes the precompiled
# headers of another such target.
function(ladder_host_executor target)
  cmake_parse_arguments(arg "" "HEADERS_OF" "KERNELS" ${ARGN})
  set_source_files_properties(${arg_KERNELS} PROPERTIES LANGUAGE CXX)
  add_library(${target}_kernels OBJECT ${arg_KERNELS})
  # No unity build (test/docs_test.py has one): files of kernels and of the executor share names.
  set_target_properties(${target}_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_link_libraries(${target}_kernels PRIVATE ladder_on_host)
  if(arg_HEADERS_OF)
    target_precompile_headers(${target}_kernels REUSE_FROM ${arg_HEADERS_OF}_kernels)
  else()
    target_precompile_headers(${target}_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src/device/kernel.hpp)
  endif()
  target_compile_options(${target}_kernels PRIVATE -O1 -gdwarf-4 -g1 -gstatement-frontiers -Wno-unknown-pragmas)
  if(NOT LADDER_SANITIZE)
    target_compile_options(${target}_kernels PRIVATE
      -fno-tree-sra -fno-thread-jumps -fno-reorder-blocks
      -fsanitize=thread -fsanitize-coverage=trace-pc --param=tsan-instrument-func-entry-exit=0
      --param=tsan-distinguish-volatile=1)
  endif()
  # The executor first: of functions that both have, such as std::string's, the linker takes the first,
  # and accesses that the executor makes are no kernel's.
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:host_executor>
                                   $<TARGET_OBJECTS:${target}_kernels>)
  target_link_libraries(${target} PRIVATE ladder_on_host)
endfunction()

# Of all code that is compiled for the host executor
add_library(ladder_on_host INTERFACE)
target_compile_definitions(ladder_on_host INTERFACE LADDER_HOST_EXECUTOR)
target_include_directories(ladder_on_host INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_include_directories(ladder_on_host SYSTEM INTERFACE ${LADDER_CUDA_INCLUDE_DIRS})
target_link_libraries(ladder_on_host INTERFACE ladder_warnings)

# The executor itself
set(sources asynchronous cluster cluster_order counting executor fiber global_races hooks
            launch_bounds mbarrier memory memory_order module ptx races recording setmaxnreg source steps
            tensor_map touches warp warpgroup wgmma)
list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/host_executor/\\1.cpp")
add_library(host_executor OBJECT ${sources} ${CMAKE_SOURCE_DIR}/src/support/out_of_memory.cpp
                                 ${CMAKE_SOURCE_DIR}/src/device/tensor_map.cpp
                                 ${CMAKE_SOURCE_DIR}/src/harness/registry.cpp)
set_target_properties(host_executor PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                               VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD OFF)
target_link_libraries(host_executor PRIVATE ladder_on_host)
target_compile_options(host_executor PRIVATE -O2) # a kernel's every access is a call of it
target_precompile_headers(host_executor PRIVATE
  <algorithm> <string> <vector> ${CMAKE_SOURCE_DIR}/src/host_executor/memory.hpp
  ${CMAKE_SOURCE_DIR}/src/host_executor/touches.hpp)
# It undefines a macro before any header.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/host_executor/fiber.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
