#include "engine/backend/cpu/blas_core.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

// Of every OpenBLAS that was built with DYNAMIC_ARCH (its setup of kernels, which runs as it is loaded); null in others.
extern "C" {
[[gnu::weak]] char* openblas_get_corename(void);
[[gnu::weak]] void gotoblas_dynamic_init(void);
[[gnu::weak]] void gotoblas_dynamic_quit(void);
}

namespace mbench::cpu {
namespace {

constexpr const char* kChoice = "OPENBLAS_CORETYPE";

std::string take_core() {
  if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit || std::getenv(kChoice)) return "";
  const std::string found = openblas_get_corename();
  if (is_modern_blas_core(found)) return "";
  for (const std::string& core : fitting_blas_cores()) {
    ::setenv(kChoice, core.c_str(), 1);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    // A host of another kind shall not inherit this one's choice.
    ::unsetenv(kChoice);
    if (openblas_get_corename() == core) return found;
  }
  return "";
}

}  // namespace

std::vector<std::string> fitting_blas_cores() {
  std::vector<std::string> cores;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) cores.push_back("Cooperlake");
  if (avx512) cores.push_back("SkylakeX");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) cores.push_back("Haswell");
#endif
  return cores;
}

bool is_modern_blas_core(const std::string& core) {
  // OpenBLAS's names of x86 cores before AVX2 (driver/others/dynamic.c). A name that is not among them is a newer core's.
  constexpr std::array old_cores = std::to_array<std::string_view>(
      {"Katmai", "Coppermine",  "Northwood", "Prescott",  "Banias",     "Atom",         "Core2",
       "Penryn", "Dunnington",  "Nehalem",   "Athlon",    "Opteron",    "Opteron_SSE3", "Barcelona",
       "Nano",   "Sandybridge", "Bobcat",    "Bulldozer", "Piledriver", "Steamroller"});
  return std::ranges::find(old_cores, core) == old_cores.end();
}

std::string replaced_blas_core() {
  static const std::string replaced = take_core();
  return replaced;
}

void fit_blas_to_cpu() {
  replaced_blas_core();
}

}  // namespace mbench::cpu
