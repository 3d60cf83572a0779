// A trainer's log, by all readers at once: what is read is a row that is written and read again.
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/point/result.h"
#include "formats/logs/read_log.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  std::istringstream in(text);
  const formats::Log log = formats::read_log(in, "a.log");
  Point point;
  if (log.global_batch && *log.global_batch > 0 && *log.global_batch < 1 << 20) point.global_batch = *log.global_batch;
  const PointResult result = formats::result_of(log, point, "a.log", {});
  result_from_json(nlohmann::json(result_to_json(result)), "row");
}
