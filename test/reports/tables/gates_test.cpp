#include "reports/tables/gates.h"

#include "reports/tables/report.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::reports;

namespace {

ResultFile file_of(const char* gates) {
  ResultFile file{{{"name", "x"}, {"sweep", {{"tp", {1, 2}}}}}, sample::environment(), {}};
  file.spec["gates"] = nlohmann::ordered_json::parse(gates);
  file.points = {sample::measured(sample::point(1, 1, 1024, "baseline"), {100, 100}, 5000),
                 sample::measured(sample::point(2, 1, 1024, "baseline"), {60, 60}, 3000)};
  return file;
}

}  // namespace

TEST_CASE("points are held to the gates of their spec, each with what was asked for and what came") {
  const ResultFile file = file_of(
      R"([{"iteration_ms": {"at_most": 80}}, {"where": {"tp": 2}, "peak_memory_mib": {"at_most": "110%", "of": 3000}}])");
  const GateSummary summary = gate_summary(file);
  CHECK(summary.failed == 1);
  CHECK(summary.headline == "gates: 1 of 3 failed: iteration_ms 100 is more than 80 (tp 1)");
  const std::string report = render_report(file, {});
  CHECK_THAT(report, Contains("## Gates") && Contains("| FAILED") && Contains("at most 3300 (110 % of 3000)"));
  // A report of chosen columns is those.
  ReportOptions columns;
  columns.columns = {"tp", "iteration_ms"};
  CHECK_THAT(render_report(file, columns), !Contains("Gates"));
}

TEST_CASE("a bound itself is enough, and what is not known or did not run fails") {
  CHECK(gate_summary(file_of(R"({"iteration_ms": {"at_most": 100, "at_least": 60}})")).failed == 0);
  CHECK(gate_summary(file_of(R"({"iteration_ms": {"at_most": 100, "at_least": 60}})")).headline ==
        "gates: all 2 are met");
  CHECK_THAT(gate_summary(file_of(R"([{"where": {"tp": 1}, "device_memory_mib": {"at_most": 9e9}}])")).headline,
             Contains("device_memory_mib is not known (tp 1)"));
  ResultFile full = file_of(R"({"iteration_ms": {"at_most": 100}})");
  full.points[1].iteration_ms.reset();
  full.points[1].outcome = Outcome::oom;
  CHECK_THAT(gate_summary(full).headline, Contains("1 of 2 failed: iteration_ms is oom (tp 2)"));
  CHECK(gate_summary(file_of(R"({"iteration_ms": {"at_most": 1}})")).failed == 2);
  ResultFile without = file_of("{}");
  without.spec.erase("gates");
  CHECK(gate_summary(without).headline.empty());
}

TEST_CASE("a gate on what no result has is refused before a sweep") {
  CHECK_THROWS_WITH(check_tables(file_of(R"({"iteration_s": {"at_most": 1}})").spec),
                    Contains("spec.gates.iteration_s") && Contains("iteration_ms"));
}
