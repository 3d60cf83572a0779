#include "test/mpi/memory_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/sim/recording/recordings.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/rank_classes.h"
#include "engine/sim/run/simulate.h"
#include "engine/sim/run/step_costs.h"
#include "strategies/routing.h"
#include "test/engine/sim/simulated_run.h"

namespace mbench::test {
namespace {

// The ranks that stand for all others in a simulation. Others of their class may own other parts of sharded state, and then sum other
// gradients of norms over tp. Where every op was run it is the first of each stage.
std::vector<int> simulated_ranks(const Plan& plan, const sim::Machine& machine, const sim::Simulation& simulation) {
  std::vector<int> ranks;
  if (!simulation.compute_by_stage.empty()) {
    for (const auto& each : sim::rank_classes(plan, machine.node.devices).classes) ranks.push_back(each.rank);
    return ranks;
  }
  const int separate = plan.single_process ? 1 : plan.mesh.world() / plan.mesh.size(Axis::pp);
  for (int rank = 0; rank < plan.mesh.world(); rank += separate) ranks.push_back(rank);
  return ranks;
}

}  // namespace

bool sizes_follow_data(const Point& p) {
  const auto all = static_cast<double>(p.ep);
  const bool room_for_all =
      p.expert_rank_capacity >= all && (p.paged_stash == 0 || std::max(p.paged_stash, p.paged_stash_host) >= all);
  return strategies::reads_rows(p) && p.ep > 1 && !room_for_all;
}

LayoutForecast forecast_layout(Point point, const sim::Machine& machine, const std::string& framework_name) {
  Framework framework = find_framework(framework_name, "test");
  framework.memory.caching = false;  // of the allocator that the ranks have
  const Plan plan = plan_on(framework, point);
  const std::uint64_t libraries = sim::library_memory(plan);
  sim::Recordings recordings;
  sim::SimulateOptions options;
  options.recordings = &recordings;
  const int world = plan.mesh.world();
  const sim::Simulation s = sim::simulate_point(point, plan, machine, world, options);
  const sim::MemoryForecast f = sim::forecast_memory(plan);
  LayoutForecast out;
  const bool state_on_host = point.offload != Offload::none,
             activations_on_host = point.offload_activations.any() || point.paged_stash_host > 0;
  for (int rank = 0; rank < world; ++rank) {
    // Of replicas of one process each is a class of its own.
    const auto stage = static_cast<std::size_t>(plan.single_process ? rank : plan.mesh.coordinate(rank, Axis::pp));
    RankMemory simulated{s.peak_by_stage.at(stage), {}, s.reserved_by_stage.at(stage) - libraries, 0};
    simulated.peak.total -= libraries;
    simulated.peak.by_category[static_cast<std::size_t>(Category::workspace)] -= libraries;
    RankMemory counted{f.peak_by_stage.at(stage), {}, f.reserved_by_stage.at(stage), 0};
    if (state_on_host || activations_on_host) {
      simulated.host = s.host_peak_by_stage.at(stage), simulated.host_reserved = s.host_reserved_by_stage.at(stage);
      counted.host = f.host_peak_by_stage.at(stage), counted.host_reserved = f.host_reserved_by_stage.at(stage);
    }
    out.simulated.push_back(simulated), out.counted.push_back(counted);
    // Adafactor's sums and Muon's workspace are of the matrices that a rank owns; the first rank of a stage stands for all.
    const bool own_sums = (point.optimizer == OptimizerKind::adafactor || point.optimizer == OptimizerKind::muon) &&
                          (point.zero == Zero::oss || point.zero == Zero::oss_sdp);
    out.stands_for.push_back(!own_sums || rank % (world / plan.mesh.size(Axis::pp)) == 0);
  }
  out.outlined = sim::outline_point(point, plan, machine, world, &recordings).peak.total - libraries;
  if (!(strategies::reads_rows(point) && point.ep > 1) && s.result.communication_mib)
    out.sent = s.result.communication_mib->mib, out.senders = simulated_ranks(plan, machine, s);
  // A stage whose only layer is before the head has no activations to move.
  if (state_on_host || !activations_on_host) out.uses_host = state_on_host;
  return out;
}

std::string wrong_memory(const LayoutForecast& forecast, const Trained& mine) {
  std::string wrong;
  std::size_t fullest = 0;
  for (std::size_t rank = 0; rank < forecast.simulated.size(); ++rank) {
    if (!forecast.stands_for[rank]) continue;
    const RankMemory &real = mine.memory[rank], &simulated = forecast.simulated[rank],
                     &counted = forecast.counted[rank];
    fullest = std::max(fullest, real.peak.total);
    if (!same(real, simulated))
      wrong += fmt::format("\n  rank {}: real {}; simulated {}", rank, str(real), str(simulated));
    if (!same(real, counted)) wrong += fmt::format("\n  rank {}: real {}; counted {}", rank, str(real), str(counted));
    if (real.peak.total == 0) wrong += fmt::format("\n  rank {}: no memory", rank);
    if (forecast.uses_host && *forecast.uses_host != (real.host.total > 0))
      wrong += fmt::format("\n  rank {}: {} bytes on the host", rank, real.host.total);
  }
  if (forecast.outlined && *forecast.outlined != fullest)
    wrong += fmt::format("\n  fullest rank {}; outlined {}", fullest, *forecast.outlined);
  if (mine.grew) wrong += "\n  raw memory asked for after the second step";
  return wrong;
}

std::string wrong_sent(const LayoutForecast& forecast, const Trained& mine) {
  if (!forecast.sent) return "";
  ByAxis most{};
  for (const int rank : forecast.senders)
    if (const ByAxis& sent = mine.sent.at(static_cast<std::size_t>(rank)); sum_of(sent) > sum_of(most)) most = sent;
  std::string wrong;
  for (std::size_t axis = 0; axis < most.size(); ++axis)
    if (most[axis] / 1048576 != (*forecast.sent)[axis])
      wrong += fmt::format("\n  {}: {} MiB sent, simulated {}", kCommunicationNames[axis], most[axis] / 1048576,
                           (*forecast.sent)[axis]);
  return wrong;
}

}  // namespace mbench::test
