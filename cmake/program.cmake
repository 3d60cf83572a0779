# What trains for real (devices, MPI, NCCL), what checks machines by it, and the program.
mbench_library(mbench_backend engine/backend)
target_link_libraries(mbench_backend PUBLIC mbench_ops OpenMP::OpenMP_CXX ${CBLAS_LIBRARY} ${CMAKE_DL_LIBS})
if(NOT mbench_with_cuda)
  target_sources(mbench_backend PRIVATE engine/backend/cuda/stub.cpp)
endif()
target_include_directories(mbench_backend SYSTEM PUBLIC ${CBLAS_INCLUDE})
if(MBENCH_ONEDNN)
  target_include_directories(mbench_backend SYSTEM PRIVATE ${ONEDNN_INCLUDE})
  target_link_libraries(mbench_backend PUBLIC ${ONEDNN_LIBRARY})
endif()
file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/backend/cpu/*.cpp)
# Kernels pass vectors among themselves, of one build: what older CPUs' convention for them is does not matter.
set(kernel_options -O3 -fno-math-errno -fno-trapping-math -Wno-psabi)
set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${kernel_options}")
# Compilers take vectors of 256 bits where the CPU has longer ones. What exponentials bound is a quarter faster with those of 512 bits; what
# memory bounds is not, and casts are slower.
check_cxx_compiler_flag(-mprefer-vector-width=512 has_vector_width)
if(has_vector_width)
  foreach(kernel activation attention attention_grad bias_gelu delta_scan gelu_erf softmax state_scan)
    set_source_files_properties(engine/backend/cpu/${kernel}.cpp PROPERTIES
      COMPILE_OPTIONS "${kernel_options};-mprefer-vector-width=512")
  endforeach()
endif()
mbench_library(mbench_platform engine/platform engine/comm/mpi engine/comm/nccl)
target_link_libraries(mbench_platform PUBLIC mbench_backend mbench_comm mbench_point MPI::MPI_C)
# The C interface alone, without the long-removed C++ bindings.
target_compile_definitions(mbench_platform PUBLIC OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
if(mbench_with_cuda)
  mbench_add_cuda()
endif()

# What trains for real links this: the engine on its devices.
add_library(mbench_engine INTERFACE)
target_link_libraries(mbench_engine INTERFACE mbench_sim mbench_platform)

mbench_library(mbench_health health)
target_link_libraries(mbench_health PUBLIC mbench_sim mbench_reports)

mbench_library(mbench_cli cli)
target_link_libraries(mbench_cli PUBLIC mbench_api mbench_health mbench_engine CLI11::CLI11)
target_compile_definitions(mbench_cli PUBLIC MBENCH_VERSION="${PROJECT_VERSION}")
set_source_files_properties(cli/environment.cpp PROPERTIES COMPILE_DEFINITIONS
  "MBENCH_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")
set_source_files_properties(cli/launch.cpp PROPERTIES COMPILE_DEFINITIONS "MBENCH_MPIEXEC=\"${MPIEXEC_EXECUTABLE}\"")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(cli/cpu_check.cpp PROPERTIES COMPILE_OPTIONS -march=x86-64)
endif()
include(cmake/revision.cmake)
mbench_revision(mbench_cli)
add_executable(mbench cli/main.cpp)
target_link_libraries(mbench PRIVATE mbench_cli)
