// Which of its kernels OpenBLAS runs. It chooses them by a list of CPU models. On a CPU that is newer than the list, some versions fall
// back to SSE. 0.3.21 takes an Emerald Rapids for a Prescott, at a quarter of the speed.
#pragma once
#include <string>
#include <vector>

namespace mbench::cpu {

// The cores of OpenBLAS whose kernels this CPU can run, best first. None without AVX2 and FMA, or on a CPU other than x86-64.
std::vector<std::string> fitting_blas_cores();

// Whether a core, as OpenBLAS names it ("Haswell"), has kernels of AVX2 or AVX-512, or is not an x86-64.
bool is_modern_blas_core(const std::string& core);

// If OpenBLAS has chosen a core older than AVX2 and this CPU has AVX2, makes it choose the best core that fits. Acts once in a process.
// Does nothing where OPENBLAS_CORETYPE is set, or where the BLAS is another one or holds the kernels of a single core.
void fit_blas_to_cpu();

// The core that fit_blas_to_cpu() replaced; empty if none.
std::string replaced_blas_core();

}  // namespace mbench::cpu
