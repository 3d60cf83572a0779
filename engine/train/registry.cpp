#include "engine/train/registry.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/backend/sim/sim_device.h"
#include "engine/comm/mpi/mpi_world.h"
#include "engine/comm/sim/sim_world.h"

namespace mbench {
namespace {

// Divides the cores among the ranks of this host, unless whoever started the job has chosen a number of
// threads.
void share_cores(int ranks_here) {
  if (std::getenv("OMP_NUM_THREADS")) return;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  omp_set_num_threads(std::clamp(cores / ranks_here, 1, omp_get_max_threads()));
}

class MpiJob final : public Job {
 public:
  MpiJob() { share_cores(session_.ranks_here()); }
  World& world() override { return world_; }
  void abort(int exit_code) override { MpiSession::abort(exit_code); }

 private:
  MpiSession session_;
  MpiWorld world_;
};

}  // namespace

std::unique_ptr<Job> join_job() {
  return std::make_unique<MpiJob>();
}

std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit) {
  if (kind == "cpu") return std::make_unique<cpu::CpuDevice>(memory_limit);
  fail(ErrorKind::unsupported, "device", "this binary has no device \"{}\", need cpu", kind);
}

std::unique_ptr<Device> open_counting_device(std::size_t memory_limit) {
  return std::make_unique<sim::SimDevice>(memory_limit);
}

std::unique_ptr<World> lone_world(int rank, int size) {
  return std::make_unique<SimWorld>(rank, size);
}

double measured_peak_flops(const std::string&, double seconds) {
  return cpu::measure_gemm_peak(seconds);
}

std::string mpi_library() {
  return MpiSession::library();
}

std::string blas_library() {
#ifdef OPENBLAS_VERSION
  return openblas_get_config();
#else
  return "CBLAS";
#endif
}

}  // namespace mbench
