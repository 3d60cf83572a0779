// What a result was measured on: the machine, the libraries and the program, as stored in result files.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mbench::cli {

// host, cpu, cores, memory_bytes, device, mpi, blas, compiler, git_revision, mbench_version, flop_formula,
// flop_formula_version. `device` is the kind that points run on.
nlohmann::ordered_json describe_environment(const std::string& device);

// "mbench 0.1.0" and a line each for the revision, the compiler, MPI, CUDA and BLAS.
std::string describe_version();

int usable_cores();  // that this process may run on

}  // namespace mbench::cli
