// What a spec asks of its results: its key `gates`. A sweep whose points do not meet them ends with exit code 1.
//
//   "gates": {"iteration_ms": {"at_most": 28000}, "tflops_per_device": {"at_least": 240}}
//   "gates": [{"where": {"tp": 8}, "source": "who asks for it",
//              "mfu": {"at_least": "95%", "of": 0.48}}]
//
// In a list, each entry is for the points that its `where` picks; an entry without one is for all. A bound is a number in the metric's
// unit, or a share of a reference, `of`. A metric is any numeric column of a table, by its name.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/where.h"

namespace mbench {

struct Gate {
  std::string place;  // its JSON path, for messages
  Where where;        // empty: every point
  std::string metric;
  std::optional<double> at_most, at_least;  // at least one of the two
  std::optional<double> reference;
  std::string source;  // empty: not said
};

// `where` names the place of `json`, such as "spec.json: $.gates"; bad_input for what is not as above.
std::vector<Gate> read_gates(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace mbench
