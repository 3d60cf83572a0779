// What the values of the public face hold.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "include/mbench/result.h"
#include "include/mbench/spec.h"
#include "sweeps/spec.h"

namespace mbench {

struct Spec::State {
  sweeps::Spec spec;
  std::vector<std::string> notes;

  // bad_input where there is no such point.
  const sweeps::SpecPoint& at(std::size_t point) const;
};

struct Result::State {
  PointResult result;
  std::string label;
  nlohmann::ordered_json environment;  // of a result file
};

namespace api {

Result make_result(PointResult result, const std::string& label, const nlohmann::ordered_json& environment);

// What a trainer's own file is as a spec (formats/), with its notes; nothing where the file is a spec, or no file.
struct TrainerSpec {
  nlohmann::ordered_json json;
  std::vector<std::string> notes;
};
std::optional<TrainerSpec> trainer_spec(const std::string& path);

}  // namespace api
}  // namespace mbench
