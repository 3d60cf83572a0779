// The published figures of a spec against the points it expands to (engine/point/published.h has their shape).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/point.h"

namespace mbench::sweeps {

// Throws bad_input unless every row of `json` picks exactly one point and no two rows the same one. Where --set has changed the
// spec (`changed`), a row may pick none: its point is then not of this sweep.
void check_published(const nlohmann::ordered_json& json, const std::string& where, const std::vector<Point>& points,
                     bool changed);

}  // namespace mbench::sweeps
