// A results.json: what reads is rendered as a report.
#include "engine/point/result_file.h"
#include "reports/tables/report.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  const ResultFile file = read_result_file(file_with(text));
  reports::render_report(file, {});
}
