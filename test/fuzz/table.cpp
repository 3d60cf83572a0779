// How a table is laid out: what reads prints a sweep's results.
#include "engine/base/json_reader.h"
#include "reports/tables/report.h"
#include "test/fuzz/target.h"
#include "test/reports/sample.h"

void mbench::fuzz::read(const std::string& text) {
  namespace sample = reports::sample;
  ResultFile file;
  file.spec = {{"name", "fuzz"},
               {"sweep", {{"tp", {1, 2}}, {"seq", {512, 1024}}}},
               {"tables", nlohmann::ordered_json::array({parse_json(text, "table.json")})}};
  file.environment = sample::environment();
  for (const int tp : {1, 2})
    for (const int seq : {512, 1024})
      file.points.push_back(sample::measured(sample::point(tp, 1, seq, "baseline"), {9.9, 10, 10.1}, 100.0 * tp));
  reports::render_report(file, {});
}
