// The state behind the values of the public API.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "formats/formats.h"
#include "include/mbench/result.h"
#include "include/mbench/spec.h"
#include "sweeps/spec/spec.h"

namespace mbench {

struct Spec::State {
  sweeps::Spec spec;
  std::vector<std::string> notes;

  // Throws bad_input where there is no such point.
  const sweeps::SpecPoint& at(std::size_t point) const;
};

struct Result::State {
  PointResult result;
  std::string label;
  nlohmann::ordered_json environment;  // of a result file
};

namespace api {

Result make_result(PointResult result, const std::string& label, const nlohmann::ordered_json& environment);

// A spec's JSON, with the model of a config.json where it names one ({"hf": PATH}), and its notes.
formats::Imported spec_of_text(const std::string& json);

}  // namespace api
}  // namespace mbench
