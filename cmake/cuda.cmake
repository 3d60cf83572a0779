# The CUDA device: finds the toolkit, its compiler, and NCCL. MBENCH_CUDA says how: AUTO takes what is there, ON needs it, OFF
# leaves it out.
#
# Sets mbench_with_cuda, and left_out to the sources that do not belong to this build; mbench_add_cuda() then adds what
# nvcc compiles.
set(mbench_with_cuda OFF)
# Backends and communicators whose libraries are not there are left out; a file that says so stands in for each.
set(left_out "/engine/(backend/cuda/.*|comm/nccl/(channel|nccl_world|watch))\\.cpp$")

# Sets `why_not` to what is missing for CUDA, empty if nothing is.
function(mbench_find_cuda why_not)
  set(${why_not} "" PARENT_SCOPE)
  find_package(CUDAToolkit 12 QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(${why_not} "no CUDA toolkit 12 or newer is found (CUDAToolkit_ROOT may say where it is)" PARENT_SCOPE)
  elseif(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
    set(${why_not} "the CUDA toolkit in ${CUDAToolkit_TARGET_DIR} has no cuBLASLt or no static runtime" PARENT_SCOPE)
  else()
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "CUDA compiler")
    endif()
    include(CheckLanguage)
    check_language(CUDA)  # compiles something: a host compiler that is too new for nvcc shows here
    if(NOT CMAKE_CUDA_COMPILER)
      set(${why_not} "the CUDA toolkit in ${CUDAToolkit_TARGET_DIR} has no nvcc that works with ${CMAKE_CXX_COMPILER}"
          PARENT_SCOPE)
    endif()
  endif()
endfunction()

if(MBENCH_CUDA STREQUAL "AUTO" AND MBENCH_SANITIZE)
  message(STATUS "CUDA: left out, since sanitizers cannot see what nvcc compiles")
elseif(MBENCH_CUDA)
  mbench_find_cuda(why_not)
  if(NOT why_not)
    set(mbench_with_cuda ON)
  elseif(MBENCH_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA: left out, ${why_not}")
  else()
    message(FATAL_ERROR "CUDA was asked for (MBENCH_CUDA=${MBENCH_CUDA}), but ${why_not}")
  endif()
endif()

if(mbench_with_cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
    find_package(CUDAToolkit 12 QUIET)
    if(CUDAToolkit_VERSION VERSION_LESS 13)
      list(PREPEND CMAKE_CUDA_ARCHITECTURES 70)  # Volta: CUDA 13 no longer compiles for it
    endif()
    set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE STRING "GPUs to compile for")
  endif()
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  find_package(CUDAToolkit 12 REQUIRED)
  message(STATUS "CUDA: ${CUDAToolkit_VERSION}, for compute capabilities ${CMAKE_CUDA_ARCHITECTURES}")

  find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/../lib)
  set(left_out_names backend/cuda/stub)
  if(NCCL_INCLUDE AND NCCL_LIBRARY)
    message(STATUS "NCCL: ${NCCL_LIBRARY}")
    list(APPEND left_out_names comm/nccl/nccl_missing)
  else()
    message(STATUS "NCCL: not found; ranks with GPUs of their own will be unsupported")
    list(APPEND left_out_names "comm/nccl/(channel|nccl_world|watch)")
  endif()
  include(cmake/cudnn.cmake)
  list(JOIN left_out_names "|" left_out)
  set(left_out "/engine/(${left_out})\\.cpp$")
endif()

# mbench_kernel_sources(RESULT): a source for each engine/backend/cuda/kernels/*.cuh, written to the build folder: an op's
# kernels are one file, and each is compiled by itself, since nvcc is slow.
function(mbench_kernel_sources result)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/engine/backend/cuda/kernels/*.cuh)
  set(sources)
  foreach(header ${headers})
    cmake_path(GET header STEM name)
    set(source ${CMAKE_BINARY_DIR}/cuda_kernels/${name}.cu)
    file(CONFIGURE OUTPUT ${source}
         CONTENT "#include \"${header}\"\n// After it.\n#include \"engine/backend/cuda/kernels/compute.h\"\n")
    list(APPEND sources ${source})
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

function(mbench_add_cuda)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/backend/cuda/*.cu)
  mbench_kernel_sources(kernel_sources)
  list(APPEND kernels ${kernel_sources})
  target_sources(mbench_device PRIVATE ${kernels})
  target_link_libraries(mbench_device PUBLIC CUDA::cudart_static CUDA::cublasLt)
  # fmt 9 takes nvcc for a compiler without constexpr.
  target_compile_options(mbench_device PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;-Xptxas=-warn-spills;--expt-relaxed-constexpr;-DFMT_USE_CONSTEXPR=1>)
  if(NCCL_INCLUDE AND NCCL_LIBRARY)
    target_include_directories(mbench_engine SYSTEM PRIVATE ${NCCL_INCLUDE})
    target_link_libraries(mbench_engine PRIVATE ${NCCL_LIBRARY})
  endif()
  mbench_add_cudnn()
endfunction()
