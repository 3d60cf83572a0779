// The ranks of a simulated job: one for each pipeline stage, each with its device, clock and world.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "engine/comm/group.h"
#include "engine/sim/clock.h"
#include "engine/sim/cost_model.h"
#include "engine/sim/links.h"

namespace mbench {

struct Plan;
struct Point;

// Which figures that such a step needs the machine's file lacks, with what could be instead; nothing if it has all.
std::optional<std::string> why_lacking(const Point& point, const Machine& machine, const Framework& framework);
// Bytes that the framework's libraries hold of a rank's allocator for good, for such a step.
std::uint64_t library_memory(const Plan& plan, const Framework& framework);
// Bytes that the engine's own fused attention takes outside the allocator, on a GPU, at most: the workspace of its gradient.
std::uint64_t attention_workspace(const Point& point, const Machine& machine);
// What the point's host pays for its calls.
HostTimes host_times(const Point& point, const Machine& machine, const Framework& framework);
// The machine's links, as far as the point's environment leaves them.
Links links_of(const Point& point, const Machine& machine);
// What kernels take on the device that a rank has, or has a share of.
std::unique_ptr<sim::CostModel> costs_of(const Point& point, const Machine& machine,
                                         const Framework& framework);

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

}  // namespace mbench
