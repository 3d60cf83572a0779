# The library: all that plans, simulates, searches and reads trainers' files, behind include/mbench. It needs no MPI and no BLAS.
#
#   mbench_api        what the program and the library have in common (static)
#   mbench::sim       the shared library libmbench_sim, which exports the face alone: cmake --install, find_package(mbench), pkg-config
mbench_library(mbench_api api)
target_link_libraries(mbench_api PUBLIC mbench_formats mbench_explain mbench_search mbench_strategies mbench_sweeps mbench_reports)
set_target_properties(mbench_api PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_definitions(mbench_api PRIVATE MBENCH_VERSION="${PROJECT_VERSION}")

add_library(mbench_shared SHARED $<TARGET_OBJECTS:mbench_api>)
add_library(mbench::sim ALIAS mbench_shared)
set_target_properties(mbench_shared PROPERTIES OUTPUT_NAME mbench_sim EXPORT_NAME sim LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# Nothing may be missing (a sanitizer's own functions are in the program), and what is no part of the face stays inside.
target_link_options(mbench_shared PRIVATE $<$<NOT:$<BOOL:${MBENCH_SANITIZE}>>:-Wl,-z,defs> -Wl,--exclude-libs,ALL)
target_link_libraries(mbench_shared PRIVATE mbench_api)
target_compile_features(mbench_shared INTERFACE cxx_std_20)
target_include_directories(mbench_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/mbench)
install(TARGETS mbench_shared EXPORT mbench COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/mbench DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT mbench NAMESPACE mbench:: FILE mbenchConfig.cmake DESTINATION ${package} COMPONENT library)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mbenchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mbenchConfigVersion.cmake DESTINATION ${package} COMPONENT library)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/mbench.pc CONTENT [[prefix=@CMAKE_INSTALL_PREFIX@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: mbench
Description: What a training step of a transformer costs on a machine, simulated
Version: @PROJECT_VERSION@
Libs: -L${libdir} -lmbench_sim
Cflags: -I${includedir} -std=c++20
]] @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mbench.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

if(MBENCH_PYTHON)
  include(cmake/python.cmake)
endif()
