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
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--Werror all-warnings>"
  )
endif()
if(LADDER_SANITIZE)
  target_compile_options(ladder_warnings INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    -Wno-maybe-uninitialized) # the sanitizers' checks mislead this warning inside <regex>
  target_link_options(ladder_warnings INTERFACE -fsanitize=address,undefined)
endif()
