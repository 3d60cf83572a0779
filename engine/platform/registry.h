// Where the names of devices meet their code: the one file that knows every backend and communicator.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/group.h"
#include "engine/comm/pulse.h"
#include "engine/device/energy.h"
#include "engine/device/gpu.h"
#include "engine/device/signature.h"
#include "engine/platform/timed_device.h"
#include "engine/point/choices.h"

namespace mbench {

struct Point;

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
  // The energy counter of what this rank computes on, once its device is open.
  virtual std::unique_ptr<EnergyMeter> open_energy() = 0;
  // The faults of the GPU that it opened; null where there is none, or NVML is not there.
  virtual std::unique_ptr<DeviceWatch> watch_faults() = 0;
  // What this rank communicates by way of its host: whether it comes further. It may outlive the job.
  virtual std::shared_ptr<const Pulse> pulse() const = 0;
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

// A device whose ops are those of `cpu`, an open_device("cpu"), with a clock around each. `cpu` outlives it.
std::unique_ptr<TimedDevice> open_timed_device(Device& cpu);

// Runs `rank` on so many threads of this process, which share its cores, each with its world: the ranks of a point whose
// replicas are of one process. Throws the first error of any of them.
void run_replicas(int ranks, const std::function<void(World&)>& rank);

// What this process's threads reach on a large matrix product in that precision: the peak that MFU of a CPU run is held
// against.
double measured_peak_flops(Precision precision, double seconds);

// Why this binary has no device of that kind on any machine; nothing where it has.
std::optional<std::string> why_not_built(const std::string& kind);
// Why a point, though its layout can be, cannot run on that kind of device: what its libraries do not have. Nothing for a
// simulated one.
std::optional<std::string> why_unsupported_on(const std::string& kind, const Point& point);
// The GPUs that a run may use here; none where there is no driver or no CUDA in this binary: why_no_gpu()
// says which.
std::vector<Gpu> gpus();
std::string why_no_gpu();
// Why a GPU's clock, power and temperature cannot be read here: NVML is not there, or too old. Empty if they can.
std::string why_no_gpu_sensors();
// What the driver tells of GPUs and the links between them, as text; whether or not this binary can use them.
std::string describe_gpus();
// The same for a result file's environment: the driver, and of the first GPU its memory, power cap and
// greatest clock.
nlohmann::ordered_json gpu_environment();

std::string mpi_library();
std::string cuda_libraries();  // CUDA, cuBLASLt, NCCL, as far as they are built in; empty if none is
std::string blas_library();
// What computes bf16 products on this CPU: "AMX, by oneDNN 2.6.3", or f32 and why.
std::string bf16_arithmetic();

}  // namespace mbench
