// A layout of a model of few layers that has all else in common with a layout: what is recorded to tell of that one.
#pragma once
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/plan.h"
#include "engine/point/fields.h"
#include "engine/point/point.h"

namespace mbench::search {

// As many layers in so many stages, all of one kind, and two micro batches.
inline Point small_model(const Point& point, std::int64_t layers, std::int64_t stages, bool dense) {
  Point p = at_default(point, {BearsOn::schedule});
  p.model.layers = layers;
  if (p.model.experts > 0) p.model.dense_layers = dense ? layers : 0;
  p.pp = stages;
  p.global_batch = p.micro_batch * p.dp * 2;
  return p;
}

// All fields but what is the same for every layout of a search, and costs most to write.
inline std::string key_of(Point p) {
  p.model = {};
  p.env.clear();
  p.machine.clear();
  return point_to_json(p).dump();
}

// The layers of a chunk, dense ones and those with experts.
inline std::array<double, 2> kinds_of(const Point& point, const ChunkPlan& c) {
  const std::int64_t dense_layers = point.model.experts > 0 ? point.model.dense_layers : point.model.layers;
  const auto dense = static_cast<double>(std::clamp<std::int64_t>(dense_layers - c.first_layer, 0, c.layers));
  return {dense, static_cast<double>(c.layers) - dense};
}

// Which of them the model has.
inline std::array<bool, 2> kinds_of(const Point& point) {
  const std::int64_t dense_layers = point.model.experts > 0 ? point.model.dense_layers : point.model.layers;
  return {dense_layers > 0, dense_layers < point.model.layers};
}

}  // namespace mbench::search
