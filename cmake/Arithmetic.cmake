# Refuses flags for the host's code under which a comparison with NaN may be left out, a sum reordered or a small
# number taken for 0: the code that judges kernels would let wrong ones pass. nvcc's --use_fast_math is of kernels
# alone, and a column of the CSV (Provenance.cmake).
#
# LADDER_EXACT_CUDA: options that undo it, of files that judge kernels.
set(LADDER_EXACT_CUDA --ftz=false --prec-div=true --prec-sqrt=true)
string(TOUPPER ${CMAKE_BUILD_TYPE} type)
set(inexact -ffast-math -Ofast -ffinite-math-only -funsafe-math-optimizations -fassociative-math -freciprocal-math
            -fno-signed-zeros -fsingle-precision-constant -mdaz-ftz)
list(JOIN inexact "|" inexact)
set(of_environment CUDAFLAGS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS)
foreach(variable IN LISTS of_environment)
  set(${variable} "$ENV{${variable}}")
endforeach()
foreach(variable IN ITEMS CMAKE_CXX_COMPILER_ARG1 CMAKE_CXX_FLAGS CMAKE_CXX_FLAGS_${type} CMAKE_CUDA_FLAGS
                          CMAKE_CUDA_FLAGS_${type} CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS
                          ${of_environment})
  if("${${variable}}" MATCHES "(^|[ ,='\"])(${inexact})($|[ ,'\"])")
    message(FATAL_ERROR "${variable} has ${CMAKE_MATCH_2}, under which a kernel that writes nothing may pass its "
                        "checks: leave it out. For kernels on a GPU there is CUDAFLAGS=--use_fast_math.")
  endif()
endforeach()
