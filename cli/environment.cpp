#include "cli/environment.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/revision.h"
#include "engine/base/cpu_quota.h"
#include "engine/base/machine_memory.h"
#include "engine/platform/host_name.h"
#include "engine/platform/registry.h"
#include "engine/run/flops.h"

namespace mbench::cli {
namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string describe_version() {
  const std::string cuda = platform::cuda_libraries();
  return fmt::format("mbench {}\nrevision  {}\ncompiler  {}\nmpi       {}\ncuda      {}\nblas      {}", MBENCH_VERSION,
                     git_revision(), MBENCH_COMPILER, platform::mpi_library(), cuda.empty() ? "not built in" : cuda,
                     platform::blas_library());
}

nlohmann::ordered_json describe_environment(const std::string& device) {
  nlohmann::ordered_json e = {{"host", platform::host_name()},
                              {"cpu", cpu_model()},
                              {"cores", usable_cores()},
                              {"memory_bytes", physical_memory()},
                              {"device", device},
                              {"mpi", platform::mpi_library()},
                              {"blas", platform::blas_library()},
                              {"compiler", MBENCH_COMPILER},
                              {"git_revision", git_revision()},
                              {"mbench_version", MBENCH_VERSION},
                              {"flop_formula", kFlopFormula},
                              {"flop_formula_version", kFlopFormulaVersion}};
  if (const auto cores = cpu_quota()) e["cpu_quota"] = *cores;
  if (device == "cpu") e["bf16_arithmetic"] = platform::bf16_arithmetic();
  if (device == "cuda") {
    e["cuda"] = platform::cuda_libraries();
    for (const Gpu& gpu : platform::gpus()) e["gpus"].push_back(gpu.name);
    e.update(platform::gpu_environment());
  }
  return e;
}

}  // namespace mbench::cli
