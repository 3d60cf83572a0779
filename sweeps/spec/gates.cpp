#include "sweeps/spec/gates.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/gates.h"
#include "engine/point/point_builder.h"

namespace mbench::sweeps {

void check_gates(const nlohmann::ordered_json& json, const std::string& where, const std::vector<Point>& points,
                 bool changed) {
  const std::vector<Gate> gates = read_gates(json, where);
  if (changed) return;
  std::vector<nlohmann::ordered_json> fields;
  for (const Point& point : points) fields.push_back(point_in_words(point));
  for (const Gate& gate : gates) {
    bool any = false;
    for (std::size_t i = 0; i < points.size() && !any; ++i) any = picks(gate.where, fields[i], points[i].model.name);
    if (!any)
      fail(ErrorKind::bad_input, gate.place, "is for none of the {} points, need a \"where\" that picks one",
           points.size());
  }
}

}  // namespace mbench::sweeps
