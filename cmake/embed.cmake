# Data files inside the program.
#
#   mbench_embed(TARGET NAMESPACE FOLDER GLOB)    e.g. mbench_embed(mbench_reports table_files reports/tables/declarations *.json)
#
# adds to TARGET a generated source with every file of FOLDER (relative to the source tree) that GLOB matches:
#
#   #include "engine/base/embedded.h"
#   namespace mbench::table_files { const EmbeddedFiles& files(); }    // declare this where it is used
#
# files() is ordered by name; a name is the file's without its last extension, a content its bytes as they are. A new,
# changed or removed file is seen by the next build.

# As a script (cmake -P), this file writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(entries "")
  foreach(file IN LISTS FILES)
    cmake_path(GET file STEM LAST_ONLY name)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${hex}")
    string(LENGTH "${hex}" digits)
    math(EXPR size "${digits} / 2")
    string(APPEND entries "      {\"${name}\", {\"${bytes}\", ${size}}},\n")
  endforeach()
  file(WRITE "${SOURCE}" "// Written by cmake/embed.cmake.\n#include \"engine/base/embedded.h\"\n\n"
       "namespace mbench::${NAMESPACE} {\n\nconst EmbeddedFiles& files();\nconst EmbeddedFiles& files() {\n"
       "  static const EmbeddedFiles all = {\n${entries}  };\n  return all;\n}\n\n}  // namespace mbench::${NAMESPACE}\n")
  return()
endif()

set(MBENCH_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(mbench_embed target namespace folder glob)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/${glob}")
  if(NOT files)
    message(FATAL_ERROR "mbench_embed: no file is called ${folder}/${glob}")
  endif()
  set(names)
  foreach(file IN LISTS files)
    cmake_path(GET file STEM LAST_ONLY name)
    if(name IN_LIST names)
      message(FATAL_ERROR "mbench_embed: two files of ${folder} are called ${name}")
    endif()
    list(APPEND names "${name}")
  endforeach()
  set(source "${PROJECT_BINARY_DIR}/embedded/${namespace}.cpp")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" "-DNAMESPACE=${namespace}" "-DSOURCE=${source}"
            -P "${MBENCH_EMBED_SCRIPT}"
    DEPENDS ${files} "${MBENCH_EMBED_SCRIPT}"
    COMMENT "Embedding ${folder}/${glob}"
    VERBATIM)
  target_sources(${target} PRIVATE "${source}")
endfunction()
