// One point: what is read is written and read again as it was.
#include "engine/point/point.h"

#include "engine/base/json_reader.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  const Point p = point_from_json(parse_json(text, "p.json"), "p.json: $");
  require(point_from_json(point_to_json(p), "again") == p, "a point that is written reads as it was");
}
