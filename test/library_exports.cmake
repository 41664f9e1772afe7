# libkernel_ladder.so may export the functions of its header and nothing else: it is loaded into
# programs with symbols of their own.
execute_process(COMMAND ${NM} --dynamic --defined-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
list(FILTER symbols EXCLUDE REGEX " A ")
list(TRANSFORM symbols REPLACE " .*" "")
list(SORT symbols)
file(STRINGS ${HEADER} declared REGEX "^[^ /].*kl_[a-z_]+\\(")
list(TRANSFORM declared REPLACE "^.*(kl_[a-z_]+)\\(.*$" "\\1")
list(SORT declared)
if(failed OR NOT declared OR NOT symbols STREQUAL declared)
  message(FATAL_ERROR "${LIBRARY} exports ${symbols}\nThe header declares ${declared}")
endif()
