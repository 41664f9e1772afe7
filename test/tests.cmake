# The tests that ctest runs. Included from the top folder, so that their programs lie beside ./bench.
# Those that name versions come with all families alone: LADDER_LEFT_OUT lists families that this build lacks.
include(GoogleTest)
find_package(Python3 3.10 COMPONENTS Interpreter)

function(ladder_test_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# Programs of the tests with the label quick: all that scripts/test -L quick builds
add_custom_target(quick_tests)

# Those of the families' versions: all that scripts/test --families=… builds
add_custom_target(kernel_tests)

# Each test of a program is a test of ctest's, labelled full, for which a contributor does not wait
# (scripts/test --full), on_host, if all that it runs is compiled with nvcc and without in the same way,
# or quick. What runs on a GPU as well, where there is one, may be on_host. Kernels that need one have the
# label gpu. Further arguments are properties; FILTER PATTERN takes some of the program's tests.
function(ladder_discover program label)
  if(label STREQUAL quick)
    add_dependencies(quick_tests ${program})
  endif()
  cmake_parse_arguments(arg "" "FILTER" "" ${ARGN})
  if(arg_FILTER)
    list(APPEND filter TEST_FILTER ${arg_FILTER})
  endif()
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES ${filter}
                       WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests
                       PROPERTIES LABELS ${label} ${arg_UNPARSED_ARGUMENTS})
endfunction()

function(ladder_test name)
  ladder_test_program(${name} ${ARGN})
  ladder_discover(${name} quick)
endfunction()

# Every registered kernel against its reference
ladder_test_program(kernels_on_host_test test/kernels_test.cpp test/kernel_counts.cpp)
target_link_libraries(kernels_on_host_test PRIVATE ladder)
target_precompile_headers(kernels_on_host_test PRIVATE
  <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> ${CMAKE_SOURCE_DIR}/src/harness/family.hpp)
ladder_discover(kernels_on_host_test on_host FILTER -*host_full)
ladder_discover(kernels_on_host_test full FILTER *host_full)
add_dependencies(kernel_tests kernels_on_host_test)
# The same on problems beyond 2^32, of which a few blocks run
if(NOT LADDER_SANITIZE) # whose allocations are memory, not address space
  ladder_test_program(limits_test test/limits_test.cpp)
  target_link_libraries(limits_test PRIVATE ladder)
  target_precompile_headers(limits_test REUSE_FROM kernels_on_host_test)
  ladder_discover(limits_test full)
endif()
if(LADDER_CUDA)
  # One ctest entry per family: on a GPU, starting a process costs more than testing a kernel.
  ladder_test_program(kernels_on_gpu_test test/kernels_test.cpp)
  target_link_libraries(kernels_on_gpu_test PRIVATE ladder)
  target_precompile_headers(kernels_on_gpu_test REUSE_FROM kernels_on_host_test)
  target_compile_definitions(kernels_on_gpu_test PRIVATE LADDER_TEST_GPU)
  add_dependencies(kernel_tests kernels_on_gpu_test)
  foreach(family IN LISTS LADDER_BUILT_FAMILIES)
    add_test(NAME ${family}.gpu COMMAND kernels_on_gpu_test --gtest_filter=${family}/*)
    set_tests_properties(${family}.gpu PROPERTIES LABELS gpu
      COST 1000 # begins first: the GPU is busy while cores are with the host executor's tests
      SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
  endforeach()

  add_executable(huge_test test/huge_test.cpp)
  target_link_libraries(huge_test PRIVATE ladder GTest::gtest_main)
  target_precompile_headers(huge_test REUSE_FROM kernels_on_host_test)
  set_target_properties(huge_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME elementwise.beyond_2_to_31 COMMAND huge_test)
  set_tests_properties(elementwise.beyond_2_to_31 PROPERTIES LABELS full
    SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
endif()

# The harness itself
ladder_test(harness_test
  test/asm_test.cpp
  test/check_test.cpp
  test/console_test.cpp
  test/contract_test.cpp
  test/device_variables_test.cpp
  test/divisor_test.cpp
  test/explain_test.cpp
  test/fields_test.cpp
  test/nearest_test.cpp
  test/options_test.cpp
  test/problems_test.cpp
  test/report_test.cpp
  test/resume_test.cpp
  test/row_partition_test.cpp
  test/statistics_test.cpp
  test/sweep_test.cpp
)
if(NOT LADDER_LEFT_OUT)
  target_sources(harness_test PRIVATE test/counters_test.cpp test/hard_inputs_test.cpp test/registry_test.cpp
                                      test/suite_test.cpp)
endif()
set_target_properties(harness_test PROPERTIES UNITY_BUILD ON)
target_link_libraries(harness_test PRIVATE ladder_bench ladder $<TARGET_NAME_IF_EXISTS:other_families>
                      GTest::gtest_main)
target_precompile_headers(harness_test REUSE_FROM kernels_on_host_test)
set(list ${CMAKE_BINARY_DIR}/tests/kernel_files.txt) # a file, so that another version compiles nothing again
list(TRANSFORM LADDER_KERNEL_FILES REPLACE "^.*/" "" OUTPUT_VARIABLE names)
list(JOIN names "\n" names)
file(WRITE ${list} "${names}\n")
target_compile_definitions(harness_test PRIVATE "LADDER_KERNEL_FILES=\"${list}\""
                                                "LADDER_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\"")

# What holds for the results of sums and of functions of rows whatever the inputs
if(NOT LADDER_LEFT_OUT)
  ladder_test_program(properties_test test/attention_gradients_test.cpp test/properties_test.cpp
    test/reduction_test.cpp)
  ladder_discover(properties_test on_host)
  target_link_libraries(properties_test PRIVATE ladder GTest::gtest_main)
  target_precompile_headers(properties_test REUSE_FROM kernels_on_host_test)
endif()

# Random problems, command lines and damages; of the quick ones in Python the same at every run
ladder_test_program(fuzz_problems_test test/fuzz_problems_test.cpp)
ladder_discover(fuzz_problems_test on_host)
target_link_libraries(fuzz_problems_test PRIVATE ladder GTest::gtest)
target_precompile_headers(fuzz_problems_test REUSE_FROM kernels_on_host_test)
if(Python3_Interpreter_FOUND AND NOT LADDER_LEFT_OUT)
  add_test(NAME bench.random_flags
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/fuzz_flags_test.py $<TARGET_FILE:bench>
      --seed=1)
  set(fuzz_files Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/fuzz_files_test.py $<TARGET_FILE:bench>)
  add_test(NAME scripts.damaged_files COMMAND ${fuzz_files} --seed=1)
  add_test(NAME scripts.many_damaged_files COMMAND ${fuzz_files} --seconds=60)
  set_tests_properties(scripts.many_damaged_files PROPERTIES
    LABELS full COST 500) # long ones do not begin last
endif()

# The command line of ./bench, and the driver that its GPU's clocks are locked by
if(NOT LADDER_LEFT_OUT)
  foreach(library cuda nvidia-ml)
    add_library(fake_${library} SHARED test/fake_driver.cpp)
    set_target_properties(fake_${library} PROPERTIES OUTPUT_NAME ${library} SOVERSION 1
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_driver)
  endforeach()
  ladder_test_program(bench_cli_test test/bench_cli_test.cpp)
  set(of_host_executor "*Expla*")
  ladder_discover(bench_cli_test on_host FILTER ${of_host_executor})
  ladder_discover(bench_cli_test quick FILTER -${of_host_executor})
  target_link_libraries(bench_cli_test PRIVATE GTest::gtest_main)
  target_compile_definitions(bench_cli_test PRIVATE "LADDER_BENCH=\"$<TARGET_FILE:bench>\""
                                                    "LADDER_PYTHON=\"${Python3_EXECUTABLE}\""
                                                    "LADDER_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\""
                                                    "LADDER_FAKE_DRIVER=\"${CMAKE_BINARY_DIR}/tests/fake_driver\"")
  add_dependencies(bench_cli_test bench fake_cuda fake_nvidia-ml)
endif()

# ./bench where a call fails, at every point of a small sweep
if(Python3_Interpreter_FOUND AND NOT LADDER_LEFT_OUT AND NOT LADDER_SANITIZE # whose allocator must come first
   AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$")
  add_library(failing_calls SHARED test/failing_calls.cpp)
  target_link_libraries(failing_calls PRIVATE ladder_warnings ${CMAKE_DL_LIBS})
  set_target_properties(failing_calls PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(failing_calls Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/failing_calls_test.py
      $<TARGET_FILE:bench> $<TARGET_FILE:failing_calls>)
  add_test(NAME bench.some_calls_fail COMMAND ${failing_calls} --seed=1)
  add_test(NAME bench.every_call_fails COMMAND ${failing_calls} --seconds=60)
  set_tests_properties(bench.every_call_fails PROPERTIES LABELS full COST 500)
  set_tests_properties(bench.some_calls_fail bench.every_call_fails PROPERTIES PROCESSORS 2)
endif()

# ./bench with kernels that fault, each in its own way
if(NOT LADDER_LEFT_OUT)
  add_executable(faulty_bench $<TARGET_OBJECTS:bench_main> test/faulting_host_kernels.cpp)
  target_link_libraries(faulty_bench PRIVATE ladder_bench ladder)
  if(LADDER_CUDA)
    target_sources(faulty_bench PRIVATE test/faulting_kernels.cu)
  endif()
  set_target_properties(faulty_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  ladder_test(faults_test test/faults_test.cpp)
  target_link_libraries(faults_test PRIVATE GTest::gtest_main)
  target_compile_definitions(faults_test PRIVATE
                             "LADDER_FAULTY_BENCH=\"$<TARGET_FILE:faulty_bench>\"")
  add_dependencies(faults_test faulty_bench)
endif()

# The host executor
ladder_test_program(host_executor_test test/tensor_map_test.cpp test/host_wgmma_test.cpp)
ladder_discover(host_executor_test on_host)
ladder_host_executor(host_executor_test KERNELS
  test/host_cluster_faults_test.cpp test/host_counters_test.cpp test/host_executor_test.cpp
  test/host_faults_test.cpp test/host_global_faults_test.cpp test/host_hopper_faults_test.cpp
  test/host_overlap_test.cpp)
target_link_libraries(host_executor_test PRIVATE GTest::gtest_main)
target_link_libraries(host_executor_test_kernels PRIVATE GTest::gtest)
target_precompile_headers(host_executor_test_kernels PRIVATE <gtest/gtest.h>)
# Of this file alone: others take the precompiled header, which would know of it
set_property(SOURCE test/host_counters_test.cpp PROPERTY COMPILE_DEFINITIONS
             "LADDER_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\"")
add_test(NAME host_library.exports_one_function
  COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:ladder_host>
          -P ${CMAKE_SOURCE_DIR}/test/host_library_exports.cmake)

# The library for other programs: its header is C, and its functions are all that it exports
check_language(C)
if(CMAKE_C_COMPILER AND NOT LADDER_LEFT_OUT)
  enable_language(C)
  add_executable(library_test test/library_test.c)
  target_compile_options(library_test PRIVATE -std=c11 -Wall -Wextra -Wpedantic -Werror)
  target_link_libraries(library_test PRIVATE kernel_ladder ladder_warnings)
  set_target_properties(library_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME library.from_c COMMAND library_test)
endif()
add_test(NAME library.exports_its_functions
  COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:kernel_ladder>
          -DHEADER=${CMAKE_SOURCE_DIR}/src/library/kernel_ladder.h
          -P ${CMAKE_SOURCE_DIR}/test/library_exports.cmake)

# The PTX wrappers, on both backends; and what is done to the results of one that the host lacks
ladder_test_program(ptx_on_host_test)
ladder_discover(ptx_on_host_test on_host)
ladder_host_executor(ptx_on_host_test HEADERS_OF host_executor_test KERNELS
  test/epilogue_test.cpp test/ptx_hopper_host_test.cpp test/ptx_host_test.cpp)
target_link_libraries(ptx_on_host_test PRIVATE GTest::gtest_main)
target_link_libraries(ptx_on_host_test_kernels PRIVATE GTest::gtest)

# The GPU's references of attention, on the host executor
ladder_test_program(attention_reference_test
  src/harness/device.cpp src/harness/dtype.cpp src/harness/family.cpp src/harness/fields.cpp
  src/harness/inputs.cpp src/harness/roof.cpp
  src/support/large_array.cpp src/support/parallel.cpp)
ladder_discover(attention_reference_test on_host)
ladder_host_executor(attention_reference_test HEADERS_OF host_executor_test KERNELS test/attention_reference_test.cpp)
target_link_libraries(attention_reference_test PRIVATE
  fmt::fmt GTest::gtest_main Threads::Threads)
target_link_libraries(attention_reference_test_kernels PRIVATE GTest::gtest)

# Problems on several devices, of a family of the test's own
add_subdirectory(test/ring)
if(LADDER_CUDA)
  ladder_test_program(devices_on_gpu_test test/devices_test.cpp test/ring/family.cpp test/ring/v01_push.cu
    test/ring/v02_flags.cu)
  target_link_libraries(devices_on_gpu_test PRIVATE ladder GTest::gtest_main)
  target_compile_definitions(devices_on_gpu_test PRIVATE LADDER_TEST_GPU)
  add_test(NAME devices.gpu COMMAND devices_on_gpu_test)
  set_tests_properties(devices.gpu PROPERTIES LABELS gpu RUN_SERIAL ON
    SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
endif()

# What gemm_tensor's v20 chooses from, of the kernels as the host executor's library has them
if(NOT LADDER_LEFT_OUT AND NOT LADDER_SANITIZE) # under which it has no clusters
  foreach(program gemm_choice_test gemm_estimates)
    ladder_test_program(${program} test/${program}.cpp)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:host_executor>
      $<FILTER:$<TARGET_OBJECTS:ladder_host_kernels>,INCLUDE,/gemm_tensor/>)
    target_link_libraries(${program} PRIVATE ladder_on_host)
  endforeach()
  ladder_discover(gemm_choice_test on_host)
endif()
if(LADDER_CUDA)
  add_executable(ptx_on_gpu_test test/ptx_gpu_test.cu src/harness/registry.cpp)
  target_include_directories(ptx_on_gpu_test PRIVATE src)
  target_link_libraries(ptx_on_gpu_test PRIVATE ladder_cuda ladder_warnings GTest::gtest_main)
  set_target_properties(ptx_on_gpu_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ptx.gpu COMMAND ptx_on_gpu_test)
  set_tests_properties(ptx.gpu PROPERTIES LABELS gpu SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
endif()
if(LADDER_HOPPER)
  add_executable(ptx_on_hopper_test
    test/ptx_hopper_gpu_test.sm90a.cu test/wgmma_gpu_test.sm90a.cu test/tensor_map_gpu_test.cpp
    src/device/tensor_map.cpp src/harness/registry.cpp src/host_executor/tensor_map.cpp)
  target_include_directories(ptx_on_hopper_test PRIVATE src)
  target_link_libraries(ptx_on_hopper_test PRIVATE ladder_cuda ladder_warnings GTest::gtest_main)
  set_target_properties(ptx_on_hopper_test PROPERTIES
    CUDA_ARCHITECTURES 90a-real RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ptx.hopper COMMAND ptx_on_hopper_test)
  set_tests_properties(ptx.hopper PROPERTIES LABELS gpu SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
endif()

# Versions that cheat in launches that are timed
if(LADDER_CUDA)
  ladder_test_program(timed_launches_test test/timed_launches_test.cpp test/cheats.cu)
  target_link_libraries(timed_launches_test PRIVATE ladder_bench ladder GTest::gtest_main)
  target_precompile_headers(timed_launches_test REUSE_FROM kernels_on_host_test)
  add_test(NAME bench.timed_launches COMMAND timed_launches_test)
  set_tests_properties(bench.timed_launches PROPERTIES LABELS gpu RUN_SERIAL ON
    SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
endif()

# The timer, against CUPTI's record of the same launches, and against cheats
if(LADDER_CUDA AND TARGET CUDA::cupti)
  ladder_test_program(timer_test test/timer_test.cpp test/timer_cheats_test.cu)
  target_link_libraries(timer_test PRIVATE ladder GTest::gtest_main CUDA::cupti)
  target_precompile_headers(timer_test REUSE_FROM kernels_on_host_test)
  ladder_discover(timer_test quick RUN_SERIAL ON) # its times are of a GPU that does nothing else
endif()

# Launches of two launchers at the same time
if(LADDER_CUDA AND TARGET CUDA::cupti)
  ladder_test_program(overlap_test test/overlap_test.cpp test/holding_kernels.cu)
  target_link_libraries(overlap_test PRIVATE ladder CUDA::cupti)
  target_precompile_headers(overlap_test REUSE_FROM kernels_on_host_test)
  add_dependencies(kernel_tests overlap_test)
  foreach(family IN LISTS LADDER_BUILT_FAMILIES)
    if(NOT family STREQUAL "roofs")
      add_test(NAME ${family}.overlap COMMAND overlap_test --gtest_filter=${family}/*:all.*)
      set_tests_properties(${family}.overlap PROPERTIES LABELS gpu RUN_SERIAL ON
        SKIP_REGULAR_EXPRESSION "nothing ran on a GPU")
    endif()
  endforeach()
endif()

# Why counters of a GPU cannot be read, of a CUPTI that is not there or refuses
if(LADDER_CUPTI)
  add_library(fake_cupti SHARED test/fake_cupti.cpp)
  set_target_properties(fake_cupti PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  ladder_test(hardware_counters_test test/hardware_counters_test.cpp src/harness/hardware_counts.cpp)
  target_include_directories(hardware_counters_test PRIVATE src)
  target_include_directories(hardware_counters_test SYSTEM PRIVATE ${CUDAToolkit_CUPTI_INCLUDE_DIR})
  target_link_libraries(hardware_counters_test PRIVATE
    fmt::fmt GTest::gtest_main ladder_cuda ladder_warnings ${CMAKE_DL_LIBS})
  target_compile_definitions(hardware_counters_test PRIVATE
    "LADDER_FAKE_CUPTI_FOLDER=\"$<TARGET_FILE_DIR:fake_cupti>\"")
  add_dependencies(hardware_counters_test fake_cupti)
endif()

# The scripts that draw, and that write the tables of the READMEs
if(Python3_Interpreter_FOUND)
  add_test(NAME scripts.roofline_and_readme
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/scripts_test.py)
  add_test(NAME scripts.setup_test_and_bench
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/setup_test.py)
  add_test(NAME cmake.refusals_and_recorded_commit
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/configure_test.py)
  add_test(NAME scripts.report
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/report_page_test.py)
  add_test(NAME scripts.website
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/website_test.py)
  set_tests_properties(scripts.report PROPERTIES COST 500)
  if(NOT LADDER_LEFT_OUT AND NOT LADDER_SANITIZE) # which does not count, and has no clusters
    add_test(NAME scripts.tuning_estimates_as_v20
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/estimates_agree_test.py
              $<TARGET_FILE:gemm_estimates>)
    set(stepper Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/stepper_test.py $<TARGET_FILE:bench>)
    add_test(NAME scripts.stepper COMMAND ${stepper})
    add_test(NAME scripts.stepper_site COMMAND ${stepper} --full Pages)
    set_tests_properties(scripts.stepper_site PROPERTIES LABELS full)
    set_tests_properties(scripts.stepper scripts.stepper_site PROPERTIES COST 500)
  endif()
  add_test(NAME scripts.validate_counters
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/validate_counters_test.py)
  add_test(NAME scripts.autotune
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/autotune_test.py)
  add_test(NAME scripts.upkeep
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/upkeep_test.py)
  add_test(NAME scripts.mutate
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/mutate_test.py)
  add_test(NAME scripts.check_architectures
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/check_architectures_test.py)
  ladder_test_program(paired_ratios test/paired_ratios.cpp src/harness/statistics.cpp)
  target_include_directories(paired_ratios PRIVATE src)
  add_test(NAME scripts.statistics_as_in_cpp
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/statistics_agree_test.py
            $<TARGET_FILE:paired_ratios>)
  add_test(NAME scripts.code_of_rows
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/code_test.py
            ${CMAKE_BINARY_DIR}/generated/ladder_provenance.cpp)
  add_test(NAME source.includes_go_down
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/includes_test.py)
  add_test(NAME cmake.adding_a_version
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/adding_a_version_test.py ${CMAKE_BINARY_DIR})
  add_test(NAME scripts.palette
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/palette_test.py)
  foreach(drawn IN ITEMS attention gemm gemm_tensor reduction softmax start transpose)
    add_test(NAME scripts.draw_${drawn}
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/draw_${drawn}_test.py)
  endforeach()
  if(NOT LADDER_LEFT_OUT)
    add_test(NAME scripts.compare
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/compare_test.py $<TARGET_FILE:bench>)
    add_test(NAME scripts.random_shapes
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/random_shapes_test.py $<TARGET_FILE:bench>)
    add_test(NAME scripts.peers_torch
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/peers_torch_test.py
              $<TARGET_FILE:kernel_ladder>)
    if(NOT LADDER_SANITIZE) # whose runtime must be in a process from the start
      add_test(NAME library.from_python
        COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/library_test.py
                $<TARGET_FILE:kernel_ladder>)
      add_test(NAME library.best_is_the_fastest
        COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/best_test.py $<TARGET_FILE:kernel_ladder>)
    endif()
    if(LADDER_CUDA)
      add_test(NAME scripts.peers_agree_with_bench.gpu
        COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/peers_agree_test.py
                $<TARGET_FILE:bench> $<TARGET_FILE:kernel_ladder>)
      set_tests_properties(scripts.peers_agree_with_bench.gpu PROPERTIES
        RUN_SERIAL ON) # its times are of a GPU that does nothing else
    endif()
    add_test(NAME docs.commands_and_examples
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/docs_test.py ${CMAKE_BINARY_DIR})
    set_tests_properties(docs.commands_and_examples PROPERTIES LABELS full)
    set_tests_properties(docs.commands_and_examples scripts.compare scripts.peers_torch
                         PROPERTIES COST 500)
  endif()
  # Of the package that `pip install .` makes, where it is installed
  add_test(NAME python.operators
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/torch_test.py)
  foreach(part derivatives patch)
    add_test(NAME python.${part}
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/torch_${part}_test.py)
  endforeach()
  add_test(NAME scripts.torch_operators
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/torch_operators_test.py)
  # Of examples/: with a GPU there, else in simulators; and the operators for PyTorch, which nvcc compiles
  foreach(part simulated built)
    add_test(NAME examples.${part}
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/examples_test.py ${part})
  endforeach()
  set_tests_properties(examples.built PROPERTIES LABELS full)
  add_test(NAME scripts.readme_is_up_to_date
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/scripts/upkeep/update_readme.py --check)
  if(LADDER_CUDA AND NOT LADDER_LEFT_OUT) # the widths of the accesses that the host executor counts, against nvcc's
    add_test(NAME kernels.access_widths
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/access_widths_test.py
              $<TARGET_FILE:bench> ${CMAKE_BINARY_DIR}/compile_commands.json)
    set_tests_properties(kernels.access_widths PROPERTIES LABELS full COST 500)
    add_test(NAME kernels.wgmma_code
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/test/wgmma_code_test.py
              ${CMAKE_BINARY_DIR}/compile_commands.json)
    set_tests_properties(kernels.wgmma_code PROPERTIES LABELS full COST 500)
  endif()
endif()

# All that has no label yet: scripts, ./bench as they call it, and the library
get_property(tests DIRECTORY PROPERTY TESTS)
foreach(test IN LISTS tests)
  set_property(TEST ${test} PROPERTY SKIP_RETURN_CODE 77) # test/skips.py
  get_property(labels TEST ${test} PROPERTY LABELS)
  if(NOT labels)
    set_property(TEST ${test} PROPERTY LABELS quick)
  endif()
endforeach()
add_dependencies(quick_tests bench kernel_ladder)
foreach(program failing_calls faulty_bench library_test)
  if(TARGET ${program})
    add_dependencies(quick_tests ${program})
  endif()
endforeach()
