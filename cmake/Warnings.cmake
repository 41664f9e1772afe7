# ladder_warnings: the warnings of all our code, and the sanitizers of the asan preset.
option(LADDER_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)
option(LADDER_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)

add_library(ladder_warnings INTERFACE)
target_compile_options(ladder_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
)
if(LADDER_WARNINGS_AS_ERRORS)
  target_compile_options(ladder_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    # Not all-warnings: ptxas warns of spilled registers, which a kernel may have weighed up.
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--Werror cross-execution-space-call,reorder,deprecated-declarations>"
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcudafe=--promote_warnings>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror>
  )
endif()
if(LADDER_SANITIZE)
  target_compile_options(ladder_warnings INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    -Wno-maybe-uninitialized) # the sanitizers' checks mislead this warning inside <regex>
  target_link_options(ladder_warnings INTERFACE -fsanitize=address,undefined)
endif()
