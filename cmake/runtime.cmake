# What training for real takes, and simulating does not: MPI, OpenMP, a BLAS, and the program's command line.
find_package(MPI REQUIRED COMPONENTS C)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(CLI11 REQUIRED)

# Any CBLAS will do; OpenBLAS built on OpenMP shares its thread pool with the engine's own loops.
find_path(CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-openmp openblas REQUIRED)
find_library(CBLAS_LIBRARY NAMES openblas cblas PATH_SUFFIXES openblas-openmp openblas REQUIRED)

include(cmake/onednn.cmake)
