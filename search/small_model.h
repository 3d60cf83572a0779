// A layout of a model of few layers that is otherwise like a given layout. Its recording stands for that one.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "engine/plan/plan.h"
#include "engine/point/fields.h"
#include "engine/point/point.h"
#include "engine/sim/cost/links.h"

namespace mbench::search {

// What a layer is made of, for a bound: what it mixes positions with, if anything, and whether it has experts. A kind is 2 * mixer +
// experts; kNoMixer stands for a layer that is a feed-forward block only.
inline constexpr std::size_t kNoMixer = 6, kLayerKinds = 2 * (kNoMixer + 1);
static_assert(static_cast<std::size_t>(MixerKind::lightning) + 1 == kNoMixer);
inline constexpr std::size_t kind_of(std::size_t mixer, bool experts) {
  return 2 * mixer + (experts ? 1 : 0);
}
inline constexpr bool has_experts(std::size_t kind) {
  return kind % 2 == 1;
}
inline constexpr std::size_t mixer_of(std::size_t kind) {
  return kind / 2;
}
using ByKind = std::array<double, kLayerKinds>;  // numbers of layers
using Kinds = std::array<bool, kLayerKinds>;     // which there are

inline std::size_t kind_at(const ModelSpec& m, std::int64_t layer) {
  const std::optional<MixerKind> mixer = m.mixer_at(layer);
  return kind_of(mixer ? static_cast<std::size_t>(*mixer) : kNoMixer, m.has_experts(layer));
}

// Where layers differ in their parts, a bound takes the layer with the least to do. The model loses its rules, and each part becomes
// the cheapest that any layer has. Mixers and experts are those of the kind (small_model).
inline void take_cheapest_parts(ModelSpec& m) {
  if (m.layers_of.empty()) return;
  ModelParts least = m.parts();
  for (const LayerRule& rule : m.layers_of) {
    const ModelParts& l = rule.parts;
    if (l.window > 0 && (least.window == 0 || l.window < least.window)) least.window = l.window;
    if (l.attention_chunk > 0 && (least.attention_chunk == 0 || l.attention_chunk < least.attention_chunk))
      least.attention_chunk = l.attention_chunk;
    if (l.attention_temperature.scale == 0) least.attention_temperature = {};
    if (l.position == PositionKind::none) least.position = PositionKind::none;
    if (l.qk_norm == QkNorm::none) least.qk_norm = QkNorm::none;
    if (l.attention_softcap == 0) least.attention_softcap = 0;
    if (!l.attention_sinks) least.attention_sinks = false;
    if (least.norm_place == NormPlace::sandwich) least.norm_place = l.norm_place;
  }
  m.own_parts = least;
  m.layers_of.clear();
}

// The model with layers of that kind only.
inline void take_kind(ModelSpec& m, std::int64_t layers, std::size_t kind) {
  m.layers = layers;
  take_cheapest_parts(m);
  if (!m.hybrid_pattern.empty()) {
    const char letter = mixer_of(kind) == kNoMixer && has_experts(kind) ? 'E' : "*MGSCL-"[mixer_of(kind)];
    m.hybrid_pattern = std::string(static_cast<std::size_t>(layers), letter);
    return;
  }
  if (m.experts > 0) m.dense_layers = has_experts(kind) ? 0 : layers;
  const auto mixer = static_cast<MixerKind>(mixer_of(kind));
  if (m.parts().mixer == mixer) return;
  ModelParts parts = m.parts();
  parts.mixer = mixer;
  m.own_parts = parts;
}

template <class Enum>
Flags<Enum> without(const Flags<Enum>& flags, Enum left_out, int count) {
  Flags<Enum> rest;
  for (int i = 0; i < count; ++i)
    if (const auto value = static_cast<Enum>(i); value != left_out && flags.has(value)) rest.add(value);
  return rest;
}

// So many layers of one kind in so many stages, and two micro batches. Of what layers compute again or are captured by parts, a kind has
// the parts that it has. `behind_dense`: dense layers will come in front of them.
inline Point small_model(const Point& point, std::int64_t layers, std::int64_t stages, std::size_t kind,
                         bool behind_dense = false) {
  Point p = at_default(point, {BearsOn::schedule});
  take_kind(p.model, layers, kind);
  const bool dense = !has_experts(kind) && (p.model.hybrid_pattern.empty() || mixer_of(kind) == kNoMixer);
  if (!dense && !behind_dense) {
    p.recompute.regions = without(p.recompute.regions, Region::mlp, kRegions);
    p.capture.parts = without(p.capture.parts, CapturedPart::mlp, kCapturedParts);
  }
  p.pp = stages;
  p.global_batch = p.micro_batch * p.dp * 2;
  return p;
}

// A layer without experts does not ask how the experts of other layers are spread over ranks.
inline Point spread(Point p, std::size_t kind) {
  if (has_experts(kind)) return p;
  return at_default(std::move(p), {BearsOn::experts});
}

// Whether a chunk has an end of the model as small models have it. Their last chunk has the norm, the head and all depths of
// multi-token prediction. A bound counts nothing for an end that a layout splits.
inline bool has_known_end(const Point& point, const ChunkPlan& c) {
  return c.last ? c.norm && c.depths == point.model.mtp_layers : c.first;
}

// Whether all layers are alike but for dense ones in front: kinds are known without asking each.
inline bool has_plain_layers(const ModelSpec& m) {
  return m.layers_of.empty() && m.hybrid_pattern.empty();
}

// The numbers of layers of a chunk, by kind.
inline ByKind kinds_of(const Point& point, const ChunkPlan& c) {
  const ModelSpec& m = point.model;
  ByKind counts{};
  if (!has_plain_layers(m)) {
    for (std::int64_t i = c.first_layer; i < c.first_layer + c.layers; ++i) ++counts[kind_at(m, i)];
    return counts;
  }
  const std::int64_t dense_layers = m.experts > 0 ? m.dense_layers : m.layers;
  const auto dense = std::clamp<std::int64_t>(dense_layers - c.first_layer, 0, c.layers);
  const auto mixer = static_cast<std::size_t>(m.parts().mixer);
  counts[kind_of(mixer, false)] = static_cast<double>(dense);
  counts[kind_of(mixer, true)] = static_cast<double>(c.layers - dense);
  return counts;
}

// Which kinds the model has.
inline Kinds kinds_of(const Point& point) {
  const ModelSpec& m = point.model;
  Kinds has{};
  if (!has_plain_layers(m)) {
    for (std::int64_t i = 0; i < m.layers; ++i) has[kind_at(m, i)] = true;
    return has;
  }
  const std::int64_t dense_layers = m.experts > 0 ? m.dense_layers : m.layers;
  const auto mixer = static_cast<std::size_t>(m.parts().mixer);
  has[kind_of(mixer, false)] = dense_layers > 0;
  has[kind_of(mixer, true)] = dense_layers < m.layers;
  return has;
}

// The kind that small models with ends of the model have.
inline std::size_t first_kind(const Kinds& kinds) {
  return static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), true) - kinds.begin());
}

// Whether layers of several kinds take turns. Where they do not, dense layers come first and those with experts last.
inline bool alternates(const Point& point, const Kinds& kinds) {
  return !has_plain_layers(point.model) && std::count(kinds.begin(), kinds.end(), true) > 1;
}

// The links of a small model's layout, never slower than those of the layout that it stands for. The groups of the first stage have the
// same ranks in both, on the same nodes. What only they ask of the spine is no more than what all groups ask. Where nodes are dealt to as
// many leaves as the job needs, a smaller job's nodes stand elsewhere, and nothing is known to cross.
inline sim::Links small_links(const sim::Machine& machine, const Point& point, const Plan& plan) {
  if (point.placement.order == NodePlacement::Order::cyclic) return sim::Links(machine, sim::peer_to_peer(point.env));
  return sim::Links(machine, point, plan.mesh, plan.mesh.world() / plan.mesh.size(Axis::pp));
}

}  // namespace mbench::search
