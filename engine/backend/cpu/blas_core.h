// Which of its kernels OpenBLAS runs. It chooses them by a list of CPU models, and on one that it does not know, newer than
// itself, some versions fall back to SSE: 0.3.21 takes an Emerald Rapids for a Prescott, at a quarter of the speed.
#pragma once
#include <string>
#include <vector>

namespace mbench::cpu {

// The cores of OpenBLAS whose kernels this CPU can run, best first; none without AVX2 and FMA, or where it is not an x86-64.
std::vector<std::string> fitting_blas_cores();

// Whether a core, as OpenBLAS names it ("Haswell"), has kernels of AVX2 or AVX-512, or is of another kind than x86-64.
bool is_modern_blas_core(const std::string& core);

// Where OpenBLAS has taken a core older than AVX2 and this CPU is not, has it take the best that fits, once in a process.
// Nothing is done where OPENBLAS_CORETYPE is set, or where the BLAS is another or holds the kernels of one core alone.
void fit_blas_to_cpu();

// What fit_blas_to_cpu put another in place of; empty where nothing was.
std::string replaced_blas_core();

}  // namespace mbench::cpu
