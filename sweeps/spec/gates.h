// The gates of a spec against the points it expands to (engine/point/gates.h has their shape).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/point.h"

namespace mbench::sweeps {

// Throws bad_input where a gate is for no point; `changed`: by --set, which may take its points away.
void check_gates(const nlohmann::ordered_json& json, const std::string& where, const std::vector<Point>& points,
                 bool changed);

}  // namespace mbench::sweeps
