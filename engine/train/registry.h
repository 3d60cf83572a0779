// Where the names of devices meet their code: the one file that knows every backend and communicator.
#pragma once
#include <exception>
#include <memory>
#include <string>

#include "engine/api/point.h"
#include "engine/comm/group.h"

namespace mbench {

struct Machine;
struct Framework;

// This process's part of the job that a launcher started (MPI).
class Job {
 public:
  virtual ~Job() = default;
  virtual World& world() = 0;
  // Ends every rank at once: for an error of this rank that the others cannot see.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};
std::unique_ptr<Job> join_job();

// A device of that kind ("cpu"), able to hold at most `memory_limit` bytes (0: all it has). Unsupported,
// naming what is missing, where this binary has no such device.
std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit);

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

std::string mpi_library();
std::string blas_library();

}  // namespace mbench
