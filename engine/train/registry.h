// Where the names of devices meet their code: the one file that knows every backend and communicator.
#pragma once
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/point.h"
#include "engine/comm/group.h"
#include "engine/device/gpu.h"

namespace mbench {

struct Machine;
struct Framework;

// This process's part of the job that a launcher started (MPI).
class Job {
 public:
  virtual ~Job() = default;
  // All its ranks, by way of their hosts.
  virtual World& world() = 0;
  // This rank's device of that kind, as open_device(); of several GPUs the one that goes with this rank's
  // place among the ranks of its host. All ranks call it, once.
  virtual std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit,
                                              Precision precision) = 0;
  // All ranks, to make groups for tensors of that device, which this job opened.
  virtual World& world_of(const Device& device) = 0;
  // Ends every rank at once: for an error of this rank that the others cannot see.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};
// After `collective_timeout` seconds a collective or message between GPUs that has not ended is an error of
// kind timed_out that names it.
std::unique_ptr<Job> join_job(double collective_timeout);

// A device of that kind ("cpu" or "cuda": the first GPU), able to hold at most `memory_limit` bytes (0: all
// it has). Where `precision` is tf32, f32 matrix products run in it. Unsupported, naming what is missing,
// where this binary or this machine has no such device.
std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit,
                                    Precision precision = Precision::f32);

// A device that counts but does not compute, and a world without peers: to learn what a rank would allocate.
std::unique_ptr<Device> open_counting_device(std::size_t memory_limit);
std::unique_ptr<World> lone_world(int rank, int size);

// The ranks of a simulated job: one for each pipeline stage, to be run in a thread of its own. They wait for
// each other in their groups, so each must leave() when it ends.
class SimulatedCluster {
 public:
  virtual ~SimulatedCluster() = default;
  // The device of a stage, able to hold so many bytes; opened once.
  virtual std::unique_ptr<Device> open_device(int stage, std::size_t memory_limit) = 0;
  virtual World& world(int stage) = 0;
  virtual void leave(int stage) = 0;
  // Whether a stage failed only because another one had ended.
  virtual bool is_echo(const std::exception_ptr& error) const = 0;
};
// The machine and framework must outlive it.
std::unique_ptr<SimulatedCluster> open_cluster(const Point& point, const Machine& machine,
                                               const Framework& framework, int stages, int ranks_per_stage);

// What this process's threads reach on a large matrix product: the peak that MFU of a CPU run is held
// against.
double measured_peak_flops(const std::string& device, double seconds);

// Why this binary has no device of that kind on any machine; nothing where it has.
std::optional<std::string> why_not_built(const std::string& kind);
// The GPUs that a run may use here; none where there is no driver or no CUDA in this binary: why_no_gpu()
// says which.
std::vector<Gpu> gpus();
std::string why_no_gpu();
// What the driver tells of GPUs and the links between them, as text; whether or not this binary can use them.
std::string describe_gpus();
// The same for a result file's environment: the driver, and of the first GPU its memory, power cap and
// greatest clock.
nlohmann::ordered_json gpu_environment();

std::string mpi_library();
std::string cuda_libraries();  // CUDA, cuBLASLt, NCCL, as far as they are built in; empty if none is
std::string blas_library();

}  // namespace mbench
