// A stored baseline.
#include "reports/baselines/baseline.h"

#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  reports::read_baseline_file(file_with(text));
}
