// Rows that another trainer's log is: with what they are compared, and what is said of them.
#include <fmt/ranges.h>

#include "engine/point/result_file.h"
#include "reports/baselines/baseline.h"
#include "reports/gate/comparable.h"
#include "reports/tables/provenance.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::reports;

namespace {

PointResult row_of(const std::string& program) {
  PointResult row;
  row.id = point_id(row.point);
  row.measured_by = program;
  if (!program.empty()) row.log = TrainerLog{3, 10, {900}, {}, {500, 501}, {{"max_reserved", 2, 1024}}};
  row.iteration_ms = statistics_of({100, 101, 102});
  return row;
}

}  // namespace

TEST_CASE("measured by: a row is held against rows of the same trainer alone") {
  const Comparability comparability(nlohmann::ordered_json::object(), nlohmann::ordered_json::object(), true);
  CHECK(comparability.why_not(row_of("megatron-lm"), row_of("megatron-lm")) == "");
  CHECK(comparability.why_not(row_of("megatron-lm"), row_of("")) ==
        "measured by megatron-lm here, by mbench in the baseline");
  CHECK(comparability.why_not(row_of("nemo"), row_of("torchtitan")) ==
        "measured by nemo here, by torchtitan in the baseline");
  CHECK(machine_of(nlohmann::ordered_json::object(), row_of("nemo")) !=
        machine_of(nlohmann::ordered_json::object(), row_of("")));
}

TEST_CASE("measured by: the report says whose log it was and what is no sample") {
  ResultFile file;
  file.points = {row_of("megatron-lm"), row_of("")};
  const std::string lines = fmt::format("{}", fmt::join(measured_on(file), "\n"));
  CHECK_THAT(lines, Contains("1 of 2 points were measured by megatron-lm, by its log; 3 times of warm-up, evaluation "
                             "and checkpoint are no samples; memory is what PyTorch's allocator says: max_reserved."));
  file.points.pop_back();
  file.points.front().measured_by.clear();
  CHECK(fmt::format("{}", fmt::join(measured_on(file), "\n")).find("by its log") == std::string::npos);
}

TEST_CASE("measured by: a stored entry keeps it") {
  ResultFile file;
  file.environment = {{"started", "2026-01-01T00:00:00Z"}, {"git_revision", "abc"}};
  file.points = {row_of("megatron-lm")};
  BaselineFile stored;
  stored.id = file.points.front().id;
  stored.machine = machine_of_entry(file, file.points.front(), false);
  stored.history.push_back(entry_of(file, file.points.front(), false, true));
  CHECK_THAT(baseline_text(stored), Contains("\"measured_by\": \"megatron-lm\""));
}
