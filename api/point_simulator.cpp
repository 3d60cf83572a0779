#include "api/point_simulator.h"

#include "engine/base/error.h"
#include "engine/sim/machine/what_if.h"
#include "explain/peers.h"
#include "search/advice.h"
#include "strategies/strategies.h"

namespace mbench::api {
namespace {

constexpr double kLeastOfLoader = 0.02;  // of the step, as in mbench plan

}  // namespace

void add_interval(PointResult& r, const sim::Machine& machine) {
  if (!r.iteration_ms) return;
  const explain::RatioInterval ratio = explain::interval_of(explain::kind_of(r.point, machine.node.devices));
  r.iteration_ms_interval = {r.iteration_ms->mean * ratio.low, r.iteration_ms->mean * ratio.high,
                             static_cast<std::int64_t>(ratio.rows), ratio.about};
}

const sim::Machine& PointSimulator::machine_of(const Point& point) {
  const std::string name = sim::parse_simulated(point.device, "device").machine;
  const auto key = std::tuple(name, point.machine, point.ranks_per_node);
  const auto it = machines_.find(key);
  if (it != machines_.end()) return it->second;
  sim::Machine machine = sim::find_machine(name, point.machine, "device");
  if (point.ranks_per_node > 0) machine = sim::cut_to(std::move(machine), point.ranks_per_node, "ranks_per_node");
  return machines_.emplace(key, std::move(machine)).first->second;
}

void PointSimulator::check(const Point& point) {
  machine_of(point);
  framework_of(point.framework);
}

sim::Simulation PointSimulator::simulate(const Point& point, const sim::SimulateOptions& options) {
  sim::Simulation s = sim::simulate_point(point, strategies::make_plan(point), machine_of(point),
                                          sim::parse_simulated(point.device, "device").count, options);
  add_interval(s.result, machine_of(point));
  return s;
}

sim::Simulation PointSimulator::attempt(const Point& point, const sim::SimulateOptions& options) {
  try {
    return simulate(point, options);
  } catch (const Error& e) {
    const auto outcome = outcome_of(e.kind());
    if (!outcome) throw;
    sim::Simulation none;
    none.result = not_run(point, *outcome, e.what());
    return none;
  }
}

void PointSimulator::name_loader(sim::Simulation& simulation) {
  PointResult& r = simulation.result;
  if (r.outcome != Outcome::ok) return;
  const auto again = [this](const Point& other) { return simulate(other); };
  if (const auto loader = search::loader_decides(r.point, simulation, again, kLeastOfLoader))
    r.reason += (r.reason.empty() ? "" : "; ") + *loader;
}

PointResult PointSimulator::run(const Point& point) {
  sim::SimulateOptions options;
  options.tensors = true;
  sim::Simulation simulation = attempt(point, options);
  name_loader(simulation);
  return simulation.result;
}

}  // namespace mbench::api
