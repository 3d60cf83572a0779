// A point with every part of its model named, so that a table can ask for a part by a dotted path such as "model.rope.base". Also the
// way back, to a spec that says no more than it must.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {
struct Point;
}

namespace mbench::formats {

void set_field(nlohmann::ordered_json& object, std::string_view path, const nlohmann::json& value);
const nlohmann::ordered_json* find_field_of(const nlohmann::ordered_json& object,
                                            std::string_view path);  // null where it is not

// All fields of the point, and all sizes and parts of the model that bear on it: no routing without experts, no angles without rotary
// positions. Two points that compute the same are equal.
nlohmann::ordered_json flat_point(const Point& point);

// The differences of two such values: "model.rope.base: 10000, not 500000".
std::vector<std::string> differences(const nlohmann::ordered_json& wanted, const nlohmann::ordered_json& got,
                                     const std::string& path);

// The same for two flat points, without fields that say where a point runs, for how long and on what data.
std::vector<std::string> lost_fields(const nlohmann::ordered_json& wanted, const nlohmann::ordered_json& got);

// The same spec with the model in its shortest form, and without fields at their default that no report names.
nlohmann::ordered_json tidy_spec(const nlohmann::ordered_json& spec, const std::string& where);

}  // namespace mbench::formats
