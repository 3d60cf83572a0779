#include "sweeps/spec/published.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/point_builder.h"
#include "engine/point/published.h"

namespace mbench::sweeps {

void check_published(const nlohmann::ordered_json& json, const std::string& where, const std::vector<Point>& points,
                     bool changed) {
  const Published published = read_published(json, where);
  std::vector<nlohmann::ordered_json> fields;
  for (const Point& point : points) fields.push_back(point_in_words(point));
  std::vector<const PublishedRow*> row_of(points.size());
  for (const PublishedRow& row : published.rows) {
    std::vector<std::size_t> picked;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (row.picks(fields[i], points[i].model.name)) picked.push_back(i);
    if (picked.empty() && changed) continue;
    if (picked.size() != 1)
      fail(ErrorKind::bad_input, row.place + ".where", "picks {} of the {} points, need exactly one",
           picked.empty() ? "none" : std::to_string(picked.size()), points.size());
    const PublishedRow*& owner = row_of[picked[0]];
    if (owner)
      fail(ErrorKind::bad_input, row.place + ".where", "picks the point that {} picks, need each once", owner->place);
    owner = &row;
  }
}

}  // namespace mbench::sweeps
