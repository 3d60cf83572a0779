#include "engine/sim/run/simulate.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "engine/base/text.h"
#include "engine/point/abilities.h"
#include "engine/point/fields.h"
#include "engine/run/energy.h"
#include "engine/sim/cost/device.h"
#include "engine/sim/cost/segment_calls.h"
#include "engine/sim/play/replay.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/recording/memory_log.h"
#include "engine/sim/recording/recordings.h"
#include "engine/sim/run/step_costs.h"

namespace mbench::sim {
namespace {

// What a framework's libraries hold of the allocator's memory is not the engine's to give.
std::uint64_t limit_of_step(const RunSpec& run, const Plan& plan, const Machine& machine) {
  const std::uint64_t all = memory_limit(run, plan, machine);
  const std::uint64_t libraries = library_memory(plan);
  if (all <= libraries)
    fail(ErrorKind::out_of_memory, "sim", "{} of {} MiB for the libraries of framework {}, need more", libraries >> 20,
         all >> 20, plan.framework->name);
  return all - libraries;
}

double peak_of(const Plan& plan, const Machine& machine) {
  const double own = machine.device.peak_flops[static_cast<std::size_t>(plan.precision.units)];
  return own > 0 ? own : machine.device.peak_flops[static_cast<std::size_t>(Precision::f32)];
}

// An out-of-memory names its rank; any other error is thrown as it is.
[[noreturn]] void throw_full(const std::exception_ptr& error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(ErrorKind::out_of_memory, fmt::format("rank {}", rank), e.what());
  }
}

// What the allocator's calls of the driver take where it is full. Nothing of any class where none is.
std::vector<HostPauses> pauses_of(const std::vector<ReplayedMemory>& memory) {
  if (std::ranges::none_of(memory, [](const ReplayedMemory& m) { return m.retries > 0; })) return {};
  std::vector<HostPauses> all(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i)
    for (const auto& [place, calls] : memory[i].calls) all[i][place] = whole_ticks(seconds_of(calls));
  return all;
}

// Which rank's class returns segments most often, and what that costs.
std::string why_slower(const std::vector<ReplayedMemory>& memory, const std::vector<HostPauses>& pauses) {
  const auto most =
      std::ranges::max_element(memory, {}, [](const ReplayedMemory& m) { return m.retries; }) - memory.begin();
  double seconds = 0;
  for (const auto& [_, pause] : pauses[static_cast<std::size_t>(most)]) seconds += pause;
  return fmt::format(
      "memory is nearly full: PyTorch returns cached segments {} times a step and requests them again, which takes {}",
      memory[static_cast<std::size_t>(most)].retries, format_duration(seconds));
}

void add_memory(Simulation& simulation, const MemoryUse& peak, std::size_t reserved, int ranks) {
  simulation.peak_by_stage.push_back(peak);
  simulation.reserved_by_stage.push_back(reserved);
  simulation.total_reserved += reserved * static_cast<std::uint64_t>(ranks);
}

void add_host_memory(Simulation& simulation, const MemoryUse& peak, std::size_t reserved, int ranks,
                     const Machine& machine) {
  simulation.host_peak_by_stage.push_back(peak);
  simulation.host_reserved_by_stage.push_back(reserved);
  if (machine.immediate) simulation.total_reserved += reserved * static_cast<std::uint64_t>(ranks);
}

void add_libraries(MemoryUse& peak, std::uint64_t libraries) {
  peak.total += libraries;
  peak.by_category[static_cast<std::size_t>(Category::workspace)] += libraries;
}

// By name, the largest first; what few bytes are left is one.
std::vector<PeakTensor> by_name(const PeakByTensor& peak) {
  constexpr std::size_t kNamed = 12;
  std::unordered_map<std::string, std::size_t> bytes;
  for (const TensorsAtPeak& t : peak.tensors) bytes[t.what] += t.bytes;
  std::vector<PeakTensor> tensors;
  for (const auto& [name, size] : bytes) tensors.push_back({name, static_cast<double>(size) / 1048576});
  std::sort(tensors.begin(), tensors.end(), is_before);
  if (tensors.size() <= kNamed) return tensors;
  PeakTensor others{"all others"};
  for (std::size_t i = kNamed; i < tensors.size(); ++i) others.mib += tensors[i].mib;
  tensors.resize(kNamed);
  tensors.insert(std::lower_bound(tensors.begin(), tensors.end(), others, is_before), others);
  return tensors;
}

std::shared_ptr<const Recording> recorded(const Point& p, const Plan& plan, const Machine& machine, const Links& links,
                                          Recordings* recordings) {
  const MakeCosts costs = [&] { return costs_of(plan, machine); };
  // The key: every field but those that no step depends on.
  if (recordings)
    return recordings->of(point_to_json(at_default(p, {})).dump(), plan, machine.node.devices, costs, &links);
  return std::make_shared<const Recording>(record(plan, machine.node.devices, costs, &links));
}

// Throws for the first class of ranks whose memory is too small.
void check_fits(const std::vector<ReplayedMemory>& memory, const std::vector<RankClasses::Class>& classes) {
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (memory[i].full) throw_full(memory[i].full, classes[i].rank);
}

Simulation replay(const Point& p, const Plan& plan, const Machine& machine, const Links& links,
                  const Recording& recording, const SimulateOptions& options) {
  const bool offloads = uses_host(plan);
  const auto& classes = recording.classes.classes;
  const auto caching = caching_of(plan, p.env);
  auto memory = replay_memory(plan, recording, limit_of_step(p, plan, machine), caching, options.threads);
  check_fits(memory, classes);
  const auto host = offloads ? replay_host_memory(plan, recording, costs_of(plan, machine)->host_memory())
                             : std::vector<ReplayedMemory>();
  check_fits(host, classes);
  const std::uint64_t libraries = library_memory(plan);
  for (ReplayedMemory& m : memory) {
    add_libraries(m.peak, libraries);
    m.reserved += libraries;
  }
  std::vector<Timeline> timelines;
  const std::vector<HostPauses> pauses = pauses_of(memory);
  const auto times =
      replay_time(plan, recording, host_times(plan, machine), &links, options.trace ? &timelines : nullptr, pauses);

  Simulation simulation;
  PointResult& r = simulation.result;
  r.point = p;
  r.id = point_id(p);
  r.world = plan.mesh.world();
  r.device = machine.name;
  r.simulated = true;
  std::vector<RankFigures> ranks;
  double slowest = 0;
  for (const int c : recording.classes.of_rank) {
    const ReplayedMemory& m = memory[static_cast<std::size_t>(c)];
    const ReplayedTime& t = times[static_cast<std::size_t>(c)];
    slowest = std::max(slowest, t.step);
    RankFigures f;
    f.peak = m.peak;
    f.reserved = m.reserved;
    if (offloads) f.set_host(host[static_cast<std::size_t>(c)].peak);
    f.communication_fraction = t.step > 0 ? t.communication / t.step : 0;
    f.bubble_fraction = t.step > 0 ? t.bubble / t.step : 0;
    f.matmul_flops = t.matmul_flops;
    f.peak_flops = peak_of(plan, machine);
    f.step = t.step;
    f.parts = t.parts;
    f.sent = t.sent;
    ranks.push_back(f);
  }
  sum_up(p, ranks, {slowest}, machine.peak_source(p.precision), r);
  const auto most_of = [&](double RankFigures::*share) {
    return std::max_element(ranks.begin(), ranks.end(),
                            [&](const RankFigures& a, const RankFigures& b) { return a.*share < b.*share; }) -
           ranks.begin();
  };
  simulation.rank_of_communication = most_of(&RankFigures::communication_fraction);
  simulation.rank_of_bubble = most_of(&RankFigures::bubble_fraction);
  add_energy(ranks, machine.device.watts, r);
  if (options.tensors) {
    const auto fullest =
        std::max_element(memory.begin(), memory.end(),
                         [](const ReplayedMemory& a, const ReplayedMemory& b) { return a.peak.total < b.peak.total; });
    r.peak_tensors_mib =
        by_name(peak_by_tensor(plan, recording, classes[static_cast<std::size_t>(fullest - memory.begin())], caching));
  }
  if (!pauses.empty()) r.reason = why_slower(memory, pauses);
  simulation.compute_by_stage.assign(static_cast<std::size_t>(plan.mesh.size(Axis::pp)), 0);
  const int ranks_of_stage = plan.mesh.world() / plan.mesh.size(Axis::pp);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    double& most = simulation.compute_by_stage[static_cast<std::size_t>(classes[i].rank / ranks_of_stage)];
    TimeByPart parts = times[i].parts;
    most =
        std::max(most, at(parts, TimePart::gemms) + at(parts, TimePart::attention) + at(parts, TimePart::elementwise));
  }
  // Of the first rank of each stage; replicas of one process do different things.
  const int apart = plan.single_process ? 1 : ranks_of_stage;
  if (options.trace)
    for (int rank = 0; rank < plan.mesh.world(); rank += apart)
      simulation.timeline_by_stage.push_back(
          timelines[static_cast<std::size_t>(recording.classes.of_rank[static_cast<std::size_t>(rank)])]);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    add_memory(simulation, memory[i].peak, memory[i].reserved, classes[i].ranks);
    if (offloads) add_host_memory(simulation, host[i].peak, host[i].reserved, classes[i].ranks, machine);
  }
  return simulation;
}

}  // namespace

void check_possible(const Point& p, const Plan& plan, const Machine& machine, int devices) {
  if (p.world() > devices)
    fail(ErrorKind::infeasible, "sim", "{} ranks on {} devices of {}, need sim:{}x{}", p.world(), devices, machine.name,
         p.world(), machine.name);
  if (const auto why =
          why_lacking({p.precision, p.attention, p.offload, p.fp8_recipe, p.offload_activations, p.paged_stash_host},
                      machine, *plan.framework))
    fail(ErrorKind::unsupported, "sim", "{}", *why);
  if (const std::string why = why_not_placed(machine, p.world(), p); !why.empty())
    fail(ErrorKind::infeasible, "sim", "{}", why);
}

void describe(const Point& p, const Plan& plan, const Machine& machine, PointResult& result) {
  const double outside = static_cast<double>(machine.device.memory_outside_allocator >> 20);
  if (const auto& reserved = result.reserved_memory_mib) result.device_memory_mib = *reserved + outside;
  if (const std::string missing = lacking(plan.framework->can, p); !missing.empty() && result.reason.empty())
    result.reason = fmt::format("not in {}: {}", plan.framework->name, missing);
}

Simulation simulate_point(const Point& p, const Plan& of_step, const Machine& machine, int devices,
                          const SimulateOptions& options) {
  const Plan plan = plan_for(of_step, machine);
  check_possible(p, plan, machine, devices);
  const Links links(machine, p, plan.mesh);
  const auto recording = recorded(p, plan, machine, links, options.recordings);
  Simulation simulation = replay(p, plan, machine, links, *recording, options);
  describe(p, plan, machine, simulation.result);
  return simulation;
}

std::vector<PeakTensor> peak_tensors(const Plan& plan) {
  const Recording recording = record(plan, 0, nullptr, nullptr);
  const auto peaks = count_memory(plan, recording);
  const auto most = std::max_element(peaks.begin(), peaks.end(),
                                     [](const MemoryUse& a, const MemoryUse& b) { return a.total < b.total; });
  return by_name(
      peak_by_tensor(plan, recording, recording.classes.classes[static_cast<std::size_t>(most - peaks.begin())], {}));
}

Outline outline_point(const Point& p, const Plan& of_step, const Machine& machine, int devices,
                      Recordings* recordings) {
  const Plan plan = plan_for(of_step, machine);
  check_possible(p, plan, machine, devices);
  const Links links(machine, p, plan.mesh);
  const auto made = recorded(p, plan, machine, links, recordings);
  const Recording& recording = *made;
  Outline outline;
  const auto times = replay_time(plan, recording, host_times(plan, machine), &links);
  for (const ReplayedTime& t : times) outline.seconds = std::max(outline.seconds, t.step);
  for (std::size_t i = 0; machine.device.watts && i < times.size(); ++i)
    outline.joules +=
        recording.classes.classes[i].ranks * joules_of(times[i].parts, outline.seconds, *machine.device.watts);
  const auto peaks = count_memory(plan, recording);
  const auto fullest = std::max_element(peaks.begin(), peaks.end(),
                                        [](const MemoryUse& a, const MemoryUse& b) { return a.total < b.total; });
  outline.peak = *fullest;
  add_libraries(outline.peak, library_memory(plan));
  outline.rank = recording.classes.classes[static_cast<std::size_t>(fullest - peaks.begin())].rank;
  return outline;
}

std::optional<std::size_t> reserved_on(int rank, const Point& p, const Plan& of_step, const Machine& machine,
                                       Recordings* recordings) {
  const Plan plan = plan_for(of_step, machine);
  const Links links(machine, p, plan.mesh);
  const auto recording = recorded(p, plan, machine, links, recordings);
  const auto c = static_cast<std::size_t>(recording->classes.of_rank[static_cast<std::size_t>(rank)]);
  const ReplayedMemory memory = replay_memory_of(plan, *recording, recording->classes.classes[c],
                                                 limit_of_step(p, plan, machine), caching_of(plan, p.env));
  if (memory.full) return std::nullopt;
  return memory.reserved + library_memory(plan);
}

}  // namespace mbench::sim
