# cuDNN and the headers of its C++ frontend, for attention "flash" on GPUs. Included by cmake/cuda.cmake.
#
# Both are headers alone here: cuDNN is loaded when it is first used. Looked for, in this order: what CUDNN_INCLUDE and
# CUDNN_FRONTEND_INCLUDE name; third_party/cudnn-frontend (scripts/install-cudnn-frontend); the folder of installed Python
# packages that MBENCH_PYTHON_PACKAGES names (".../site-packages"); the toolkit; the system. Appends to left_out_names the
# stems of the sources that do not belong to this build.
set(MBENCH_PYTHON_PACKAGES "" CACHE PATH "Folder of installed Python packages that may hold cuDNN and its frontend")
find_path(CUDNN_INCLUDE cudnn.h HINTS ${MBENCH_PYTHON_PACKAGES}/nvidia/cudnn/include ${CUDAToolkit_INCLUDE_DIRS}
          DOC "Folder of cudnn.h")
find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
          HINTS ${PROJECT_SOURCE_DIR}/third_party/cudnn-frontend/include ${MBENCH_PYTHON_PACKAGES}/include
          ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder of cudnn_frontend.h")

# cudnn_number(FILE MACRO RESULT): the number that a header defines MACRO as, 0 if it does not.
function(cudnn_number file macro result)
  set(${result} 0 PARENT_SCOPE)
  if(EXISTS ${file})
    file(STRINGS ${file} line REGEX "^#define ${macro} +[0-9]+")
    if(line MATCHES "([0-9]+)")
      set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()

set(MBENCH_CUDNN OFF)
if(NOT CUDNN_INCLUDE)
  message(STATUS "cuDNN: cudnn.h is not found; attention flash on GPUs will be unsupported")
elseif(NOT CUDNN_FRONTEND_INCLUDE)
  message(STATUS "cuDNN: its frontend is not found (scripts/install-cudnn-frontend fetches it); attention flash on GPUs will "
                 "be unsupported")
else()
  cudnn_number(${CUDNN_INCLUDE}/cudnn_version.h CUDNN_MAJOR major)
  cudnn_number(${CUDNN_INCLUDE}/cudnn_version.h CUDNN_MINOR minor)
  cudnn_number(${CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h CUDNN_FRONTEND_MAJOR_VERSION frontend_major)
  cudnn_number(${CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h CUDNN_FRONTEND_MINOR_VERSION frontend_minor)
  if(NOT major EQUAL 9 OR minor LESS 8)
    message(STATUS "cuDNN: ${CUDNN_INCLUDE} has ${major}.${minor}, need 9.8 or newer of 9; attention flash on GPUs will be "
                   "unsupported")
  elseif(NOT frontend_major EQUAL 1 OR frontend_minor LESS 14)
    message(STATUS "cuDNN: ${CUDNN_FRONTEND_INCLUDE} has frontend ${frontend_major}.${frontend_minor}, need 1.14 or newer "
                   "of 1; attention flash on GPUs will be unsupported")
  else()
    set(MBENCH_CUDNN ON)
    message(STATUS "cuDNN: ${major}.${minor} in ${CUDNN_INCLUDE}, frontend ${frontend_major}.${frontend_minor} in "
                   "${CUDNN_FRONTEND_INCLUDE}")
  endif()
endif()
if(MBENCH_CUDNN)
  list(APPEND left_out_names backend/cuda/attention/flash_missing)
else()
  list(APPEND left_out_names backend/cuda/attention/flash backend/cuda/attention/flash_graph
       backend/cuda/attention/cudnn_library)
endif()

function(mbench_add_cudnn)
  if(MBENCH_CUDNN)
    target_include_directories(mbench_backend SYSTEM PRIVATE ${CUDNN_FRONTEND_INCLUDE} ${CUDNN_INCLUDE})
  endif()
endfunction()
