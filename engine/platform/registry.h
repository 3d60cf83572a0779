// The one file that knows every backend and communicator: it maps the names of devices to their code.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
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
}

namespace mbench::platform {

// This process's part of the job that a launcher started (MPI).
class Job {
 public:
  virtual ~Job() = default;
  // All its ranks, communicating through their hosts.
  virtual comm::World& world() = 0;
  // This rank's device of that kind, as open_device(). Of several GPUs it is the one at this rank's place among the ranks of its host. All
  // ranks call it, once.
  virtual std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit,
                                              Precision precision) = 0;
  // All ranks, to make groups for tensors of that device. This job must have opened it.
  virtual comm::World& world_of(const Device& device) = 0;
  // The energy counter of what this rank computes on, once its device is open.
  virtual std::unique_ptr<EnergyMeter> open_energy() = 0;
  // The faults of the GPU that it opened; null where there is none or no NVML.
  virtual std::unique_ptr<DeviceWatch> watch_faults() = 0;
  // Whether this rank's communication through its host makes progress. It may outlive the job.
  virtual std::shared_ptr<const comm::Pulse> pulse() const = 0;
  // Ends every rank at once: for an error of this rank that the others cannot see.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};
// A collective or message between GPUs that has not ended after `collective_timeout` seconds is an error of kind timed_out that names it.
std::unique_ptr<Job> join_job(double collective_timeout);

// A device of that kind: "cpu", or "cuda" for the first GPU. It can hold at most `memory_limit` bytes (0: all it has). Where `precision` is
// tf32, f32 GEMMs run in it. Unsupported, naming what is missing, where this binary or this machine has no such device.
std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit,
                                    Precision precision = Precision::f32);

// A device that runs its ops on `cpu`, an open_device("cpu"), with a clock around each. `cpu` outlives it.
std::unique_ptr<TimedDevice> open_timed_device(Device& cpu);

// Runs `rank` on `ranks` threads of this process, which share its cores, each with its world. These are the ranks of a point whose replicas
// belong to one process. Throws the first error of any of them.
void run_replicas(int ranks, const std::function<void(comm::World&)>& rank);

// FLOP/s that this process's threads reach on a large GEMM in that precision: the denominator of a CPU run's MFU.
double measured_peak_flops(Precision precision, double seconds);

// Why this binary has no device of that kind on any machine; nothing where it has one.
std::optional<std::string> why_not_built(const std::string& kind);
// Why a point with a possible layout cannot run on that kind of device: what its libraries lack. Nothing for a simulated device.
std::optional<std::string> why_unsupported_on(const std::string& kind, const Point& point);
// The GPUs that a run may use here. None where there is no driver or no CUDA in this binary: why_no_gpu() says which.
std::vector<Gpu> gpus();
std::string why_no_gpu();
// Why a GPU's clock, power and temperature cannot be read here: there is no NVML, or it is too old. Empty if they can.
std::string why_no_gpu_sensors();
// What the driver reports of GPUs and the links between them, as text, whether or not this binary can use them.
std::string describe_gpus();
// The same for a result file's environment: the driver, and the first GPU's memory, power cap and highest clock.
nlohmann::ordered_json gpu_environment();

std::string mpi_library();
std::string cuda_libraries();  // the versions of CUDA, cuBLASLt and NCCL that are built in; empty if none is
std::string blas_library();
// How this CPU computes bf16 GEMMs: "AMX, by oneDNN 2.6.3", or f32 and why.
std::string bf16_arithmetic();

}  // namespace mbench::platform
