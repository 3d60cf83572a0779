#include "test/engine/sim/threaded/threaded_run.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/device/in_parts.h"
#include "engine/device/on_stream.h"
#include "engine/sim/allocator/caching_allocator.h"
#include "engine/sim/cost/device.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/run/step_costs.h"
#include "test/engine/sim/threaded/world.h"

namespace mbench::test {
namespace {

// One rank of each stage: its device, clock and world. They wait for each other, so each must leave() when it ends.
class Cluster {
 public:
  Cluster(const Plan& plan, const sim::Machine& machine, const sim::Links& links, int stages, int ranks_per_stage)
      : plan_(plan),
        machine_(machine),
        network_(stages, ranks_per_stage),
        clocks_(static_cast<std::size_t>(stages), sim::VirtualClock(sim::host_times(plan, machine))) {
    const int size = stages * ranks_per_stage;
    for (int s = 0; s < stages; ++s)
      worlds_.emplace_back(s * ranks_per_stage, size, network_, links, clocks_[static_cast<std::size_t>(s)]);
  }

  std::unique_ptr<Device> open_device(int stage, std::size_t memory_limit) {
    return std::make_unique<sim::SimDevice>(machine_.name, memory_limit, sim::costs_of(plan_, machine_),
                                            clocks_[static_cast<std::size_t>(stage)]);
  }
  comm::World& world(int stage) { return worlds_[static_cast<std::size_t>(stage)]; }
  void leave(int stage) { network_.leave(stage); }
  bool is_echo(const std::exception_ptr& error) const {
    try {
      std::rethrow_exception(error);
    } catch (const SimNetwork::Stopped&) {
      return true;
    } catch (...) {
      return false;
    }
  }

 private:
  const Plan& plan_;
  const sim::Machine& machine_;
  SimNetwork network_;
  std::vector<sim::VirtualClock> clocks_;
  std::vector<SimWorld> worlds_;
};

// What a device hands out, by PyTorch's allocator.
class Caching final : public AllocationObserver {
 public:
  Caching(const sim::CachingSettings& settings, std::size_t limit, const FrameworkMemory& framework)
      : allocator_(settings, limit), own_(framework.own_streams), recorded_(framework.recorded) {}
  void watch(Device& device) {
    if (const auto* simulated = dynamic_cast<const sim::SimDevice*>(&device)) in_graph_ = &simulated->in_graph();
    device.memory().observe(this);
  }
  void allocated(const std::byte* block, std::size_t size, Category category, std::string_view what) override {
    const MemoryStream stream = OnStream::now();
    const sim::CachingAllocator::For whom{
        .graph = in_graph_ && *in_graph_,
        .stream = own_[static_cast<std::size_t>(stream)] ? stream : MemoryStream::compute};
    Held& held = held_[block] = {{}, category, recorded_[static_cast<std::size_t>(whom.stream)]};
    const TensorParts& parts = InParts::now();
    const std::size_t all = parts[0] + std::size_t{parts[1]} + parts[2];
    std::size_t left = size;
    for (std::size_t i = parts.size(); i-- > 1 && all > 0;)
      if (parts[i] > 0) left -= size / all * parts[i];
    const auto take = [&](std::size_t bytes) {
      held.blocks.emplace_back(allocator_.take(bytes, category, what, whom), bytes);
    };
    take(left);
    for (std::size_t i = 1; i < parts.size(); ++i)
      if (parts[i] > 0) take(size / all * parts[i]);
  }
  void released(const std::byte* block) override {
    const auto held = held_.find(block);
    if (held == held_.end()) return;  // of a request that did not fit
    for (const auto& [block_of, bytes] : held->second.blocks)
      if (held->second.recorded)
        allocator_.give_recorded(block_of, bytes, held->second.category);
      else
        allocator_.give(block_of, bytes, held->second.category);
    held_.erase(held);
  }
  std::size_t reserved() const { return allocator_.reserved(); }

 private:
  struct Held {
    std::vector<std::pair<std::size_t, std::size_t>> blocks;  // and their bytes
    Category category;
    bool recorded = false;
  };
  sim::CachingAllocator allocator_;
  OwnStreams own_, recorded_;
  const bool* in_graph_ = nullptr;
  std::unordered_map<const std::byte*, Held> held_;
};

// What came of one stage.
struct Stage {
  PointResult result;
  MemoryUse peak;
  std::size_t reserved = 0;
  std::optional<MemoryUse> host_peak;
  std::size_t host_reserved = 0;
  Timeline timeline;
  std::exception_ptr error;
  bool stopped = false;  // because another stage ended
};

double peak_of(const Plan& plan, const sim::Machine& machine) {
  const double own = machine.device.peak_flops[static_cast<std::size_t>(plan.precision.units)];
  return own > 0 ? own : machine.device.peak_flops[static_cast<std::size_t>(Precision::f32)];
}

void add_memory(sim::Simulation& simulation, const Stage& s, int ranks, const sim::Machine& machine) {
  simulation.peak_by_stage.push_back(s.peak);
  simulation.reserved_by_stage.push_back(s.reserved);
  simulation.total_reserved += s.reserved * static_cast<std::uint64_t>(ranks);
  if (!s.host_peak) return;
  simulation.host_peak_by_stage.push_back(*s.host_peak);
  simulation.host_reserved_by_stage.push_back(s.host_reserved);
  if (machine.immediate) simulation.total_reserved += s.host_reserved * static_cast<std::uint64_t>(ranks);
}

// An out-of-memory names its rank; any other error is thrown as it is.
[[noreturn]] void throw_full(const std::exception_ptr& error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(ErrorKind::out_of_memory, fmt::format("rank {}", rank), e.what());
  }
}

// Every op of every micro batch, a thread for each stage.
sim::Simulation run_all(const Point& p, const Plan& plan, const sim::Machine& machine, bool trace) {
  // Of replicas of one process each is a stage here: they do different things.
  const int stages = plan.single_process ? plan.mesh.world() : plan.mesh.size(Axis::pp),
            ranks_per_stage = plan.mesh.world() / stages;
  const sim::Links links(machine, p, plan.mesh);
  Cluster cluster(plan, machine, links, stages, ranks_per_stage);
  std::vector<Stage> stage(static_cast<std::size_t>(stages));
  const auto caching = sim::caching_of(plan, p.env);
  const auto run_stage = [&](int s) {
    Stage& mine = stage[static_cast<std::size_t>(s)];
    try {
      const std::uint64_t limit = sim::memory_limit(p, plan, machine);
      std::optional<Caching> pytorch;
      if (caching) pytorch.emplace(*caching, limit, plan.framework->memory);
      const auto device = cluster.open_device(s, caching ? 0 : limit);
      if (pytorch) pytorch->watch(*device);
      RunOptions options;
      options.measure_peak_flops = [&](double) { return peak_of(plan, machine); };
      options.peak_source = machine.peak_source(p.precision);
      options.watts = machine.device.watts;
      if (trace) options.timeline = &mine.timeline;
      const std::uint64_t held = sim::library_memory(plan);
      const Tensor libraries = held == 0
                                   ? Tensor()
                                   : device->empty({static_cast<std::int64_t>(held)}, DType::u8, Category::workspace,
                                                   "workspaces of the framework's libraries");
      mine.result = run_point(p, plan, *device, cluster.world(s), options);
      mine.peak = device->memory().peak();
      mine.reserved = pytorch ? pytorch->reserved() : device->memory().reserved();
      if (const Device* host = device->opened_host()) {
        mine.host_peak = host->memory().peak();
        mine.host_reserved = host->memory().reserved();
      }
    } catch (...) {
      mine.error = std::current_exception();
      mine.stopped = cluster.is_echo(mine.error);
    }
    cluster.leave(s);
  };
  std::vector<std::thread> threads;
  std::string no_thread;
  for (int s = 1; s < stages && no_thread.empty(); ++s) {
    try {
      threads.emplace_back(run_stage, s);
    } catch (const std::system_error& e) {
      no_thread = e.what();
      cluster.leave(0);
      for (int left = s; left < stages; ++left) cluster.leave(left);  // which stops those that have begun
    }
  }
  if (no_thread.empty()) run_stage(0);
  for (std::thread& t : threads) t.join();
  if (!no_thread.empty())
    fail(ErrorKind::launch_failed, "sim", "no thread for stage {} of {}: {}, need fewer stages or a higher limit",
         threads.size() + 1, stages, no_thread);

  for (int s = 0; s < stages; ++s) {
    if (!stage[s].error || stage[s].stopped) continue;
    throw_full(stage[s].error, s * ranks_per_stage);
  }
  sim::Simulation simulation;
  simulation.result = std::move(stage[0].result);
  if (caching)
    simulation.result.reserved_memory_mib =
        static_cast<double>(std::max_element(stage.begin(), stage.end(),
                                             [](const Stage& a, const Stage& b) { return a.reserved < b.reserved; })
                                ->reserved) /
        1048576;
  for (Stage& s : stage) {
    add_memory(simulation, s, ranks_per_stage, machine);
    if (trace) simulation.timeline_by_stage.push_back(std::move(s.timeline));
  }
  return simulation;
}

}  // namespace

sim::Simulation run_in_threads(const Point& p, const Plan& of_step, const sim::Machine& machine, int devices,
                               bool trace) {
  const Plan plan = sim::plan_for(of_step, machine);
  sim::check_possible(p, plan, machine, devices);
  sim::Simulation simulation = run_all(p, plan, machine, trace);
  sim::describe(p, plan, machine, simulation.result);
  return simulation;
}

}  // namespace mbench::test
