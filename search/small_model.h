// A layout of a model of few layers that is otherwise like a given layout. Its recording stands for that one.
#pragma once
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/plan.h"
#include "engine/point/fields.h"
#include "engine/point/point.h"
#include "engine/sim/links.h"

namespace mbench::search {

// Where layers differ in their parts, a bound takes the layer with the least to do. The model loses its rules, and each part becomes
// the cheapest that any layer has. Which layers have experts is asked before (kinds_of).
inline void take_cheapest_parts(ModelSpec& m) {
  if (m.layers_of.empty()) return;
  ModelParts least = m.parts();
  for (const LayerRule& rule : m.layers_of) {
    const ModelParts& l = rule.parts;
    if (l.window > 0 && (least.window == 0 || l.window < least.window)) least.window = l.window;
    if (l.position == PositionKind::none) least.position = PositionKind::none;
    if (l.qk_norm == QkNorm::none) least.qk_norm = QkNorm::none;
    if (l.attention_softcap == 0) least.attention_softcap = 0;
    if (!l.attention_sinks) least.attention_sinks = false;
  }
  m.own_parts = least;
  m.layers_of.clear();
}

// So many layers of one kind in so many stages, and two micro batches.
inline Point small_model(const Point& point, std::int64_t layers, std::int64_t stages, bool dense) {
  Point p = at_default(point, {BearsOn::schedule});
  p.model.layers = layers;
  take_cheapest_parts(p.model);
  if (p.model.experts > 0) p.model.dense_layers = dense ? layers : 0;
  p.pp = stages;
  p.global_batch = p.micro_batch * p.dp * 2;
  return p;
}

// All fields except those that are the same for every layout of a search and cost most to write.
inline std::string key_of(Point p) {
  p.model = {};
  p.env.clear();
  p.machine.clear();
  return point_to_json(p).dump();
}

// Whether a chunk has an end of the model as small models have it. Their last chunk has the norm, the head and all depths of
// multi-token prediction. A bound counts nothing for an end that a layout splits.
inline bool has_known_end(const Point& point, const ChunkPlan& c) {
  return c.last ? c.norm && c.depths == point.model.mtp_layers : c.first;
}

// The numbers of layers of a chunk: dense ones, and those with experts.
inline std::array<double, 2> kinds_of(const Point& point, const ChunkPlan& c) {
  if (!point.model.layers_of.empty()) {
    std::array<double, 2> counts{};
    for (std::int64_t i = c.first_layer; i < c.first_layer + c.layers; ++i)
      ++counts[point.model.has_experts(i) ? 1 : 0];
    return counts;
  }
  const std::int64_t dense_layers = point.model.experts > 0 ? point.model.dense_layers : point.model.layers;
  const auto dense = static_cast<double>(std::clamp<std::int64_t>(dense_layers - c.first_layer, 0, c.layers));
  return {dense, static_cast<double>(c.layers) - dense};
}

// Which of the two kinds the model has.
inline std::array<bool, 2> kinds_of(const Point& point) {
  if (!point.model.layers_of.empty()) {
    std::array<bool, 2> has{};
    for (std::int64_t i = 0; i < point.model.layers; ++i) has[point.model.has_experts(i) ? 1 : 0] = true;
    return has;
  }
  const std::int64_t dense_layers = point.model.experts > 0 ? point.model.dense_layers : point.model.layers;
  return {dense_layers > 0, dense_layers < point.model.layers};
}

// The links of a small model's layout, never slower than those of the layout that it stands for. The groups of the first stage have the
// same ranks in both, on the same nodes. What only they ask of the spine is no more than what all groups ask. Where nodes are dealt to as
// many leaves as the job needs, a smaller job's nodes stand elsewhere, and nothing is known to cross.
inline Links small_links(const Machine& machine, const Point& point, const Plan& plan) {
  if (point.placement.order == NodePlacement::Order::cyclic) return Links(machine, peer_to_peer(point.env));
  return Links(machine, point, plan.mesh, plan.mesh.world() / plan.mesh.size(Axis::pp));
}

}  // namespace mbench::search
