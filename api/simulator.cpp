#include "include/mbench/simulator.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/free_layout.h"
#include "api/point_simulator.h"
#include "api/prepare_search.h"
#include "api/state.h"
#include "api/units.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/run/flops.h"
#include "engine/sim/machine/what_if.h"
#include "engine/sim/recording/recordings.h"
#include "include/mbench/mbench.h"
#include "search/space.h"
#include "strategies/strategies.h"

namespace mbench {
namespace {

using api::kMiB;

std::string device_name(const std::string& machine) {
  return sim::full_device_name(machine.starts_with("sim:") ? machine : "sim:" + machine, "machine");
}

}  // namespace

struct Simulator::State {
  std::string device;  // "sim:8xH100-SXM5-80GB"
  SimulatorOptions options;
  api::PointSimulator simulator;
  // What was recorded, by framework: between calls nothing else may differ.
  std::map<std::string, sim::Recordings> recordings = {};

  // The spec's point on this machine.
  Point place(Point point) const {
    point.device = device;
    if (!options.framework.empty()) search::set_field(point, "framework", options.framework, "framework");
    for (const auto& [figure, value] : options.figures) point.machine[figure] = value;
    return point;
  }
  sim::Recordings* recordings_of(const Point& point) {
    return point.machine == options.figures ? &recordings[name_of(point.framework)] : nullptr;
  }
  nlohmann::ordered_json environment(const Point& point) {
    const sim::Machine& machine = simulator.machine_of(point);
    return {{"device", device},
            {"machine", machine.description},
            {"devices_per_node", machine.node.devices},
            {"device_memory_mib", machine.device.memory_bytes >> 20},
            {"framework", name_of(point.framework)},
            {"mbench_version", version()},
            {"flop_formula", kFlopFormula},
            {"flop_formula_version", kFlopFormulaVersion}};
  }
  Result simulate(const Point& point, const std::string& label) {
    simulator.check(point);
    sim::Simulation s = simulator.attempt(point, {.recordings = recordings_of(point)});
    simulator.name_loader(s);
    return api::make_result(std::move(s.result), label, environment(point));
  }
  std::vector<Result> rows(const search::Space& space, const std::vector<search::Tried>& layouts) {
    std::vector<Result> rows;
    for (const search::Tried& t : layouts) {
      PointResult row = t.result;
      api::add_interval(row, simulator.machine_of(t.point));
      rows.push_back(api::make_result(std::move(row), search::label_of(space, t.point), environment(t.point)));
    }
    return rows;
  }
};

Simulator::Simulator(const std::string& machine, const SimulatorOptions& options)
    : state_(std::make_unique<State>(State{device_name(machine), options, {}})) {
  sim::find_machine(sim::parse_simulated(state_->device, "machine").machine, options.figures, "machine");
  if (!options.framework.empty()) find_framework(options.framework, "framework");
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

std::string Simulator::machine() const {
  return state_->device.substr(std::string_view("sim:").size());
}
int Simulator::devices() const {
  return sim::parse_simulated(state_->device, "machine").count;
}

Result Simulator::simulate(const Spec& spec, std::size_t point) {
  const sweeps::SpecPoint& p = spec.state().at(point);
  return state_->simulate(state_->place(p.point), p.label);
}

std::vector<Result> Simulator::simulate_all(const Spec& spec, const std::function<bool()>& interrupted) {
  std::vector<Result> rows;
  for (std::size_t i = 0; i < spec.size() && !(interrupted && interrupted()); ++i) rows.push_back(simulate(spec, i));
  return rows;
}

Estimate Simulator::estimate(const Spec& spec, std::size_t index) {
  const Point point = state_->place(spec.state().at(index).point);
  state_->simulator.check(point);
  const Plan plan = strategies::make_plan(point);
  const sim::Machine& machine = state_->simulator.machine_of(point);
  const sim::Outline outline = sim::outline_point(point, plan, machine, devices(), state_->recordings_of(point));
  return {outline.seconds * 1e3, static_cast<double>(outline.peak.total) / kMiB, outline.rank};
}

Result Simulator::what_if(const std::map<std::string, double>& figures, const Spec& spec, std::size_t index) {
  const sweeps::SpecPoint& p = spec.state().at(index);
  Point point = state_->place(p.point);
  for (const auto& [figure, value] : figures) point.machine[figure] = value;
  return state_->simulate(point, p.label);
}

SearchResult Simulator::search(const std::string& spec, const SearchOptions& options) {
  search::SpaceOptions space{spec, options.set, state_->device};
  bool of_trainer = false;
  if (const std::size_t first = spec.find_first_not_of(" \t\r\n"); first != std::string::npos && spec[first] == '{') {
    space.path = "spec";
    space.json = api::spec_of_text(spec).spec;
  } else {
    formats::ImportOptions how;
    how.devices = devices();
    if (auto imported = formats::spec_of_file(spec, how)) {
      space.json = std::move(imported->spec);
      of_trainer = imported->of_trainer;
    }
  }
  api::free_fields(space.json, space.path, space.set, of_trainer);
  if (!state_->options.framework.empty()) space.set.push_back("framework=" + state_->options.framework);
  for (const auto& [figure, value] : state_->options.figures)
    space.set.push_back(fmt::format("machine.{}={}", figure, value));

  sim::Recordings recordings;
  const api::PreparedSearch prepared = api::prepare_search(space, options.memory_margin, state_->simulator, recordings);
  search::SearchOptions how;
  how.objective = search::read_objective(options.objective, "objective");
  if (how.objective == search::Objective::devices && options.rate <= 0)
    fail(ErrorKind::bad_input, "objective", "devices needs a rate to reach, need `rate` in tokens/s");
  search::check_objective(how.objective, prepared.place.machine, "objective");
  how.rate = options.rate;
  how.best = options.best;
  how.front = options.front;
  how.threads = std::max(1, options.threads);
  how.interrupted = options.interrupted ? options.interrupted : [] { return false; };
  how.progress = [&](const search::SearchOptions::Progress& p) {
    if (options.progress) options.progress({p.meshes, p.decided_meshes, p.layouts, p.decided, p.simulated, p.best_ms});
  };
  const search::SearchEnd end = search::search(prepared.space, prepared.place, how);

  SearchResult result;
  result.best = state_->rows(prepared.space, end.best);
  result.front = state_->rows(prepared.space, end.front);
  for (const auto& [kind, refused] : end.refused) result.refused[refused.example] += refused.count;
  for (const auto& [reason, large] : end.too_large) result.too_large[reason] = large.count;
  result.layouts = end.layouts;
  result.simulated = end.simulated;
  result.by_lower_bound = end.by_lower_bound;
  result.seconds = end.total_seconds;
  result.interrupted = end.interrupted;
  return result;
}

std::vector<std::string> machines() {
  return sim::machine_names();
}
std::vector<std::string> frameworks() {
  return framework_names();
}
std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const ModelSpec& model : model_presets()) names.push_back(model.name);
  return names;
}
std::string machine_json(const std::string& name) {
  return dump_json(
      sim::load_machine(name.find('/') == std::string::npos ? sim::full_machine_name(name, "machine") : name, "machine")
          .first);
}
std::string version() {
  return MBENCH_VERSION;
}

}  // namespace mbench
