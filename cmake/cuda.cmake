# The CUDA device: toolkit, compiler, and NCCL where it is found. Included with MBENCH_CUDA=ON only.
#
# Sets left_out to the sources that do not belong to this build; mbench_add_cuda() then adds what nvcc compiles.
find_package(CUDAToolkit 12 REQUIRED)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
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

find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/../lib)
set(left_out_names backend/cuda/stub)
if(NCCL_INCLUDE AND NCCL_LIBRARY)
  message(STATUS "NCCL: ${NCCL_LIBRARY}")
  list(APPEND left_out_names comm/nccl/nccl_missing)
else()
  message(STATUS "NCCL: not found; ranks with GPUs of their own will be unsupported")
  list(APPEND left_out_names comm/nccl/nccl_world comm/nccl/watch)
endif()
include(cmake/cudnn.cmake)
list(JOIN left_out_names "|" left_out)
set(left_out "/engine/(${left_out})\\.cpp$")

function(mbench_add_cuda)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/backend/cuda/*.cu)
  target_sources(mbench_device PRIVATE ${kernels})
  target_link_libraries(mbench_device PUBLIC CUDA::cudart_static CUDA::cublasLt)
  # fmt 9 takes nvcc for a compiler without constexpr.
  target_compile_options(mbench_device PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;-DFMT_USE_CONSTEXPR=1>)
  mbench_add_cudnn()
  if(NCCL_INCLUDE AND NCCL_LIBRARY)
    target_include_directories(mbench_engine SYSTEM PRIVATE ${NCCL_INCLUDE})
    target_link_libraries(mbench_engine PRIVATE ${NCCL_LIBRARY})
  endif()
endfunction()
