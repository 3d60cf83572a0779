#include "engine/backend/cpu/blas_core.h"

#include <cstdlib>

#include "engine/platform/registry.h"
#include "test/catch.h"

namespace mbench {
namespace {

TEST_CASE("blas core: kernels before AVX2 are known by OpenBLAS's names, newer ones and other CPUs' are not among them",
          "[blas_core]") {
  for (const char* old : {"Prescott", "Nehalem", "Sandybridge", "Barcelona", "Piledriver"})
    CHECK_FALSE(cpu::is_modern_blas_core(old));
  for (const char* modern : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids", "neoversen1", "POWER9"})
    CHECK(cpu::is_modern_blas_core(modern));
}

TEST_CASE("blas core: on a CPU with AVX2 products do not run on older kernels, and the environment is left as it was",
          "[blas_core]") {
  if (std::getenv("OPENBLAS_CORETYPE")) return;  // who sets it has chosen
  cpu::fit_blas_to_cpu();
  CHECK(std::getenv("OPENBLAS_CORETYPE") == nullptr);
  const std::string reported = platform::blas_library();
  INFO(reported);
  if (!reported.starts_with("OpenBLAS") || reported.find("DYNAMIC_ARCH") == std::string::npos) return;
  if (cpu::fitting_blas_cores().empty()) return;
  for (const char* old : {" Prescott ", " Core2 ", " Nehalem ", " Sandybridge ", " Barcelona "})
    CHECK(reported.find(old) == std::string::npos);
  CHECK((reported.find("older") != std::string::npos) == !cpu::replaced_blas_core().empty());
}

}  // namespace
}  // namespace mbench
