#include "include/mbench/plan.h"

#include "api/state.h"
#include "api/units.h"
#include "engine/plan/adapter_placement.h"
#include "engine/plan/plan.h"
#include "engine/point/adapter_weights.h"
#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"

namespace mbench {
namespace {

using api::kMiB;

Spread spread_of(const WeightSpec& weight, const Plan& plan) {
  const Spread& own = plan.role(weight.role).weight;
  return weight.adapter ? adapter_placement(own, weight) : own;
}

WeightPlacement placement_of(const WeightSpec& weight, const Plan& plan) {
  WeightPlacement p;
  p.name = weight.name;
  for (int i = 0; i < weight.shape.rank(); ++i) p.shape.push_back(weight.shape[i]);
  p.role = name_of(weight.role);
  p.placement = str(spread_of(weight, plan), plan.mesh);
  return p;
}

std::vector<WeightPlacement> weights_of_plan(const Point& point, const Plan& plan) {
  std::vector<WeightPlacement> all;
  const auto add = [&](const std::vector<WeightSpec>& weights) {
    for (const WeightSpec& w : weights) all.push_back(placement_of(w, plan));
  };
  add(weights_of(embedding_of(point.model, plan.vocab)));
  for (const std::int64_t kind : kinds_of_layers(point.model)) {
    const LayerSpec layer = layer_of(point.model, kind);
    add(weights_of(layer));
    add(adapter_weights_of(layer, point.adapter));
  }
  add(weights_of(head_of(point.model, plan.vocab)));
  if (point.model.mtp_layers > 0) add(weights_of(depth_of(point.model, 0, plan.vocab)));
  return all;
}

std::vector<StageMemory> memory_of(const Plan& plan) {
  const sim::MemoryForecast forecast = sim::forecast_memory(plan);
  std::vector<StageMemory> stages;
  const int ranks = plan.mesh.world() / static_cast<int>(forecast.peak_by_stage.size());
  for (std::size_t s = 0; s < forecast.peak_by_stage.size(); ++s) {
    const MemoryUse& peak = forecast.peak_by_stage[s];
    StageMemory m{static_cast<int>(s) * ranks,
                  ranks,
                  static_cast<double>(peak.total) / kMiB,
                  {},
                  static_cast<double>(forecast.reserved_by_stage[s]) / kMiB};
    for (int c = 0; c < kCategories; ++c)
      m.by_category_mib[std::string(name_of(static_cast<Category>(c)))] =
          static_cast<double>(peak.by_category[static_cast<std::size_t>(c)]) / kMiB;
    stages.push_back(std::move(m));
  }
  return stages;
}

}  // namespace

StepPlan make_plan(const Spec& spec, std::size_t index) {
  const sweeps::SpecPoint& at = spec.state().at(index);
  const Point& point = at.point;
  const Plan plan = strategies::make_plan(point);
  StepPlan step;
  step.id = at.id;
  step.devices = plan.mesh.world();
  step.parameters = parameter_count(point.model, 1, 1);
  step.vocab = plan.vocab;
  step.micro_batches = plan.training.micro_batches;
  for (const auto& stage : plan.chunks)
    for (const ChunkPlan& c : stage) step.stages.push_back({c.stage, c.first_layer, c.layers, c.first, c.last});
  step.weights = weights_of_plan(point, plan);
  step.memory = memory_of(plan);
  return step;
}

}  // namespace mbench
