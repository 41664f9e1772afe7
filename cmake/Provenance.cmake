# ladder_add_provenance(TARGET): what was compiled and how, a source of TARGET that the build writes: the
# build type, the flags that a user has set, and of each version a hash of what decides its compiled kernels.
#
# Hashed are the version's file, the headers under src/device and src/kernels that it includes, directly
# or by another, and with a header of launchers the files of versions up to its own number that include it
# too: of those it calls what that header declares. Comments and white space outside of strings don't count.
# scripts/ladder_code.py does the same.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(LADDER_PROVENANCE_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(ladder_add_provenance target)
    set(flags)
    foreach(language IN ITEMS CXX CUDA)
      if(NOT "${CMAKE_${language}_FLAGS}" STREQUAL "")
        list(APPEND flags "CMAKE_${language}_FLAGS=${CMAKE_${language}_FLAGS}")
      endif()
      if(NOT "${CMAKE_${language}_FLAGS_RELEASE}" STREQUAL LADDER_FLAGS_RELEASE)
        list(APPEND flags "CMAKE_${language}_FLAGS_RELEASE=${CMAKE_${language}_FLAGS_RELEASE}")
      endif()
    endforeach()
    foreach(variable IN ITEMS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS) # which nvcc takes from the environment
      if(NOT "$ENV{${variable}}" STREQUAL "")
        list(APPEND flags "${variable}=$ENV{${variable}}")
      endif()
    endforeach()
    list(JOIN flags " " flags)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/*.cu
         ${CMAKE_SOURCE_DIR}/src/kernels/*.hpp ${CMAKE_SOURCE_DIR}/src/device/*.hpp)
    string(SHA256 names "${sources}") # in the command, which runs when files come or go, too
    set(written ${CMAKE_BINARY_DIR}/generated/ladder_provenance.cpp)
    add_custom_command(OUTPUT ${written} DEPENDS ${sources} ${LADDER_PROVENANCE_SCRIPT} VERBATIM
      COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/src -DBUILD=${CMAKE_BUILD_TYPE} -DFLAGS=${flags}
              -DOUTPUT=${written} -DNAMES=${names} -P ${LADDER_PROVENANCE_SCRIPT})
    set_source_files_properties(${written} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    target_sources(${target} PRIVATE ${written})
  endfunction()
  return()
endif()

cmake_minimum_required(VERSION 3.24)
set(token "[^ \t\r\n\"'/]+|\"([^\"\\\n]|\\\\.)*\"|'([^'\\\n]|\\\\.)'|[\"'/]")
set(ignored "//[^\n]*|/\\*[^*]*\\*+([^/*][^*]*\\*+)*/|[ \t\r\n]+")
file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/kernels/*.cu ${SOURCE}/kernels/*.hpp ${SOURCE}/device/*.hpp)
foreach(file IN LISTS files)
  file(READ ${SOURCE}/${file} text)
  string(REGEX REPLACE "(${token})(${ignored})*" "\\1" code ";${text}") # a token before what may be ignored
  string(SHA256 hash_${file} "${code}")
  get_filename_component(folder ${file} DIRECTORY)
  string(REGEX MATCHALL "\n#include \"[^\"\n]+\"" lines "\n${text}")
  set(included_${file})
  foreach(line IN LISTS lines)
    string(REGEX REPLACE ".*\"(.+)\"" "\\1" name "${line}")
    foreach(one ${folder}/${name} ${name})
      if(one IN_LIST files)
        list(APPEND included_${file} ${one})
        list(APPEND including_${one} ${file})
      endif()
    endforeach()
  endforeach()
endforeach()

set(lines)
list(FILTER files INCLUDE REGEX "^kernels/[^/]+/v[0-9][^/]*\\.cu$")
foreach(version IN LISTS files)
  string(REGEX MATCH "/v[0-9]+[a-z]?" number ${version})
  set(found)
  set(left ${version})
  while(left)
    list(POP_FRONT left file)
    if(file IN_LIST found)
      continue()
    endif()
    list(APPEND found ${file})
    list(APPEND left ${included_${file}})
    if(file MATCHES "launchers\\.hpp$")
      foreach(other IN LISTS including_${file})
        string(REGEX MATCH "/v[0-9]+[a-z]?" its_number ${other})
        if(other MATCHES "\\.cu$" AND its_number STRLESS_EQUAL number)
          list(APPEND left ${other})
        endif()
      endforeach()
    endif()
  endwhile()
  set(hashes)
  foreach(file IN LISTS found)
    list(APPEND hashes ${hash_${file}})
  endforeach()
  list(SORT hashes)
  list(JOIN hashes "\n" hashes)
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 16 hash)
  string(REGEX REPLACE "^kernels/" "" version ${version})
  string(APPEND lines "    {\"${version}\", \"${hash}\"},\n")
endforeach()
string(REGEX REPLACE "([\"\\\\])" "\\\\\\1" FLAGS "${FLAGS}")
file(WRITE ${OUTPUT} "#include \"report/provenance.hpp\"

namespace ladder {

const char* const kBuild = \"${BUILD}\";
const char* const kFlags = \"${FLAGS}\";

const std::map<std::string_view, const char*> kCodes{
${lines}};

}  // namespace ladder
")
