# The git revision of what is built, asked at every build: `git describe` of the sources, or what -DMBENCH_REVISION= says, for who
# builds from an archive.
#
#   mbench_revision(TARGET)    adds to TARGET a source that defines mbench::cli::git_revision()
#
# It is written again, and compiled, only when the revision has changed.

# As a script (cmake -P), this file writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  if(NOT REVISION)
    execute_process(COMMAND git -C ${FOLDER} describe --always --dirty --abbrev=12
                    OUTPUT_VARIABLE REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE trouble RESULT_VARIABLE failed)
    if(failed)
      string(STRIP "${trouble}" trouble)
      message(STATUS "git revision: unknown, ${trouble}; -DMBENCH_REVISION= names it")
      set(REVISION unknown)
    endif()
  endif()
  string(CONCAT text "// Written by cmake/revision.cmake.\n#include \"cli/revision.h\"\n\nnamespace mbench::cli {\n\n"
         "const char* git_revision() {\n  return \"${REVISION}\";\n}\n\n}  // namespace mbench::cli\n")
  set(before)
  if(EXISTS ${SOURCE})
    file(READ ${SOURCE} before)
  endif()
  if(NOT text STREQUAL before)
    file(WRITE ${SOURCE} "${text}")
  endif()
  return()
endif()

set(MBENCH_REVISION "" CACHE STRING "Revision of the sources, for builds without their git repository; empty: git describe")
set(MBENCH_REVISION_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(mbench_revision target)
  set(source ${PROJECT_BINARY_DIR}/generated/revision.cpp)
  set(command ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR} -DREVISION=${MBENCH_REVISION} -DSOURCE=${source}
              -P ${MBENCH_REVISION_SCRIPT})
  execute_process(COMMAND ${command})  # so that it is there for the first build
  add_custom_target(mbench_revision COMMAND ${command} BYPRODUCTS ${source} COMMENT "" VERBATIM)
  target_sources(${target} PRIVATE ${source})
  add_dependencies(${target} mbench_revision)
endfunction()
