// One point of a sweep: everything that decides what is trained and how. Data only; JSON in and out. It has its parts as bases, so
// that a function takes the part that it needs and a field is still `point.tp`. What each field means, its names and values
// stand in one table (fields.cpp).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/point/framework_spec.h"
#include "engine/point/layout_spec.h"
#include "engine/point/model_spec.h"
#include "engine/point/precision_spec.h"
#include "engine/point/run_spec.h"
#include "engine/point/training_spec.h"

namespace mbench {

struct Point : TrainingSpec, LayoutSpec, PrecisionSpec, RunSpec {
  ModelSpec model;
  FrameworkSpec framework;

  std::int64_t micro_batches() const { return global_batch / (micro_batch * dp); }
  std::int64_t vocab_multiple_used() const;  // the framework's where the field leaves it to that
  bool operator==(const Point&) const = default;
};

// Reads a point from JSON. `where` names the file and JSON path for messages ("p.json: $"). An unknown key, a
// wrong type, an unknown choice or a value out of range is bad_input with the nearest valid choice. Whether
// the layout can be is not judged here: see strategies/strategies.h.
Point point_from_json(const nlohmann::json& json, const std::string& where);
// Every field, in the order of the table; point_from_json(point_to_json(p)) == p.
nlohmann::ordered_json point_to_json(const Point& point);

// Sixteen hex digits that name the configuration: equal points have equal ids on any machine. The names of
// the model and of the strategy are labels and do not count; fields at their default do not either, so that a
// field added later keeps the ids of stored baselines. A framework and a precision count in the words of former specs, for the same reason.
std::string point_id(const Point& point);

}  // namespace mbench
