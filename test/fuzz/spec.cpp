// A sweep's spec, with its tables and published figures.
#include "sweeps/spec/spec.h"

#include "reports/tables/report.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  const sweeps::Spec spec = sweeps::read_spec({file_with(text), {}, {}, "cpu"});
  reports::check_tables(spec.json);
}
