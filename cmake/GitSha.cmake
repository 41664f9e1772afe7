# ladder_git_sha: the header ladder_git_sha.hpp, written anew at every build, with the commit the
# build was made of ("-dirty" when the tree differs from it); "unknown" where the source folder is no
# repository itself, even if it lies in one. Set LADDER_GIT_SHA where git or the repository is not at
# hand.
if(CMAKE_SCRIPT_MODE_FILE)
  set(sha "${LADDER_GIT_SHA}")
  if(NOT sha)
    get_filename_component(above "${SOURCE}" DIRECTORY)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE
                            "GIT_CEILING_DIRECTORIES=${above}"
                            git describe --always --dirty --abbrev=12 --exclude=*
                    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE sha ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT sha)
    set(sha unknown)
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\ninline constexpr char kGitSha[] = \"${sha}\";\n")
  return()
endif()

set(LADDER_GIT_SHA "" CACHE STRING "The commit to record in results; empty asks git")
set(header ${CMAKE_BINARY_DIR}/generated/ladder_git_sha.hpp)
add_custom_target(ladder_write_git_sha BYPRODUCTS ${header}
  COMMAND ${CMAKE_COMMAND} -DLADDER_GIT_SHA=${LADDER_GIT_SHA} -DSOURCE=${CMAKE_SOURCE_DIR}
          -DOUTPUT=${header} -P ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)
add_library(ladder_git_sha INTERFACE)
target_include_directories(ladder_git_sha INTERFACE ${CMAKE_BINARY_DIR}/generated)
add_dependencies(ladder_git_sha ladder_write_git_sha)
