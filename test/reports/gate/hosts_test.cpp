// Results of several hosts: what may be compared, what reports say of them, and where their baselines go.
#include "reports/baselines/baseline_store.h"
#include "reports/gate/comparable.h"
#include "reports/gate/compare.h"
#include "reports/records/record.h"
#include "reports/tables/provenance.h"
#include "test/catch.h"
#include "test/reports/sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Contains;

namespace {

// A result file of one point whose 8 ranks lie on so many hosts.
ResultFile on(int hosts, const std::string& last_cpu = "AMD EPYC 7742") {
  ResultFile file;
  file.environment = sample::environment();
  file.environment["started"] = "2026-01-01T00:00:00Z";
  file.spec = {{"name", "one"}};
  PointResult r =
      sample::measured(sample::point(8, 1, 512, "baseline"), {100, 101, 102, 100, 101, 102, 100, 101}, 1000);
  for (int h = 0; h < hosts; ++h) {
    Host host;
    host.name = "h" + std::to_string(h + 1);
    host.cpu = h + 1 == hosts ? last_cpu : "AMD EPYC 7742";
    host.cores = 64;
    for (std::int64_t rank = h * 8 / hosts; rank < (h + 1) * 8 / hosts; ++rank) host.ranks.push_back(rank);
    r.hosts.push_back(host);
  }
  file.points.push_back(r);
  return file;
}

std::string host_refusal(const ResultFile& now, const ResultFile& base, const CompareOptions& options = {}) {
  try {
    compare_results(now, base, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("one node and two are two machines for time, not for memory and losses") {
  CHECK_THAT(host_refusal(on(2), on(1)), Contains("it ran on 2 nodes of 4 ranks here, on 1 node in the baseline"));
  CHECK_THAT(host_refusal(on(4), on(2)), Contains("4 nodes of 2 ranks here, on 2 nodes of 4 ranks in the baseline"));
  CHECK(host_refusal(on(2), on(2)).empty());
  CHECK(host_refusal(on(1), on(0)).empty());  // of an older file, which does not say
  CompareOptions memory;
  memory.metrics = {"memory", "loss"};
  CHECK(host_refusal(on(2), on(1), memory).empty());
}

TEST_CASE("baselines of one node and of two have folders of their own") {
  const test::TemporaryFolder folder;
  const std::string dir = folder.path.string();
  add_baselines(dir, on(2), {});
  try {
    baseline_for(dir, on(1), false, "");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK_THAT(e.what(), Contains("nothing there for the points of this machine") && Contains("2-nodes-of-4"));
  }
  const ResultFile back = baseline_for(dir, on(2), false, "");
  REQUIRE(back.points.size() == 1);
  CHECK(back.points[0].hosts == on(2).points[0].hosts);
  CHECK_FALSE(back.environment.contains("nodes"));
  CHECK(host_refusal(on(2), back).empty());
  // The machine of one node is what it was before rows had hosts.
  CHECK(fingerprint_of(machine_of(on(1).environment, on(1).points[0])) ==
        fingerprint_of(machine_of(on(0).environment, on(0).points[0])));
}

TEST_CASE("reports name the hosts, and say at the top where they are not alike") {
  const auto lines = measured_on(on(2));
  CHECK_THAT(lines.at(0), Contains("Measured on: 2 hosts (h1, h2), AMD EPYC 7742"));
  for (const std::string& line : lines) CHECK(line.find("not alike") == std::string::npos);
  const auto mixed = measured_on(on(2, "Intel Xeon"));
  CHECK_THAT(mixed.at(2), Contains("**The hosts are not alike**: the CPU is AMD EPYC 7742 (h1) and Intel Xeon (h2)"));
  CHECK_THAT(measured_on(on(1)).at(0), Contains("Measured on: node01"));
}

TEST_CASE("records know how many nodes they ran on") {
  const ResultFile file = on(2);
  const std::vector<Record> records = records_of(file);
  CHECK(records[0].text("nodes") == "2");
  CHECK(records[0].value("window.end_s").is_null());  // of a window and of a rank, not of a point
  CHECK(records[0].value("rank.step_ms").is_null());
  CHECK(records[0].text("devices_per_node") == "4");
  CHECK(records[0].text("hosts") == "h1, h2");
}

TEST_CASE("the same program on the same machine repeats its losses to 1e-6 in f32") {
  const auto verdict = [](double factor, const std::string& compiler) {
    ResultFile base = on(1), now = on(1);
    for (ResultFile* file : {&base, &now}) {
      file->points[0].point.precision = Precision::f32;
      file->points[0].id = point_id(file->points[0].point);
    }
    now.environment["compiler"] = compiler;
    now.points[0].losses[1] *= factor;
    const Comparison comparison = compare_results(now, base, {});
    for (const MetricComparison& m : comparison.points.at(0).metrics)
      if (m.metric == "loss") return m.verdict;
    return Verdict::missing;
  };
  CHECK(verdict(1 + 5e-7, "gcc 12.2") == Verdict::same);
  CHECK(verdict(1 + 4e-6, "gcc 12.2") == Verdict::changed);
  CHECK(verdict(1 + 4e-6, "clang 16") == Verdict::same);  // another order of sums
  CHECK(verdict(1 + 4e-5, "clang 16") == Verdict::changed);
}
