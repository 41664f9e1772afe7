# The host executor's library may export its one function and nothing else: a second symbol could
# replace, or be replaced by, its twin that nvcc compiled.
execute_process(COMMAND ${NM} --dynamic --defined-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
list(FILTER symbols EXCLUDE REGEX " A ")
list(TRANSFORM symbols REPLACE " .*" "")
if(failed OR NOT symbols STREQUAL "ladder_host_api")
  message(FATAL_ERROR "${LIBRARY} exports: ${symbols}")
endif()
