# The Python module, over the public face alone. nanobind is a package of the Python that builds it.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "MBENCH_PYTHON needs nanobind: ${Python_EXECUTABLE} -m pip install nanobind")
endif()
find_package(nanobind CONFIG REQUIRED)
set(unity ${CMAKE_UNITY_BUILD})
set(CMAKE_UNITY_BUILD OFF)
nanobind_add_module(mbench_python NB_STATIC python/module.cpp $<TARGET_OBJECTS:mbench_api>)
set(CMAKE_UNITY_BUILD ${unity})
set_target_properties(mbench_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/mbench)
target_include_directories(mbench_python PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(mbench_python PRIVATE mbench_api)
nanobind_add_stub(mbench_stub MODULE _core OUTPUT ${PROJECT_BINARY_DIR}/python/mbench/_core.pyi DEPENDS mbench_python
                  PYTHON_PATH ${PROJECT_BINARY_DIR}/python/mbench)
# Beside the module, so that the build folder can be imported from.
add_custom_target(mbench_python_files ALL
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/python/mbench ${PROJECT_BINARY_DIR}/python/mbench)
install(TARGETS mbench_python LIBRARY DESTINATION mbench COMPONENT python)
install(FILES ${PROJECT_BINARY_DIR}/python/mbench/_core.pyi DESTINATION mbench COMPONENT python)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/mbench/ DESTINATION mbench COMPONENT python PATTERN __pycache__ EXCLUDE)
