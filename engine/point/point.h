// One point of a sweep: everything that decides what is trained and how. Data only; JSON in and out. Its parts are its base classes. So a
// function takes the part that it needs, and a field is still `point.tp`. The meaning of each field, its names and its values stand in one
// table (fields.cpp).
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
  std::int64_t vocab_multiple_used() const;  // the framework's where the field leaves it to the framework
  bool operator==(const Point&) const = default;
};

// Reads a point from JSON. `where` names the file and JSON path for messages ("p.json: $"). An unknown key, a wrong type, an unknown choice
// or a value out of range is bad_input with the nearest valid choice. Whether the layout is possible is judged in strategies/strategies.h.
Point point_from_json(const nlohmann::json& json, const std::string& where);
// Every field, in the order of the table; point_from_json(point_to_json(p)) == p.
nlohmann::ordered_json point_to_json(const Point& point);

// Sixteen hex digits that name the configuration: equal points have equal ids on any machine. The names of the model and of the strategy
// are labels and do not count. Fields at their default do not count either, so a field added later keeps the ids of stored baselines. For
// the same reason a framework and a precision count in the words of former specs.
std::string point_id(const Point& point);

}  // namespace mbench
