// A layout of a small model: the strategies refuse it, or there is a plan, whose memory can be counted.
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  Point p = point_from_json(parse_json(text, "p.json"), "p.json: $");
  if (p.world() > 64 || p.micro_batches() > 64 || p.model.layers > 16 || p.seq * p.micro_batch > 4096) return;
  const Plan plan = strategies::make_plan(p);
  sim::forecast_memory(plan, std::size_t{256} << 20);
}
