// What the ranks say of their hosts stands in the results, instead of what the sweep knows of its own.
#include "sweeps/launch/probe.h"
#include "test/sweeps/runner_fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

TEST_CASE("rows have the hosts of their ranks, and the environment is that of rank 0") {
  Runner r;
  const SweepEnd end = r.run(r.spec(R"({"MODE": "code"}, {"MODE": "hosts"}, {"MODE": "hosts", "DIES": "1"})"));
  REQUIRE(end.file.points.size() == 3);
  CHECK(end.file.points[0].hosts.empty());  // its ranks never said
  const PointResult& ok = end.file.points[1];
  CHECK(ok.outcome == Outcome::ok);
  REQUIRE(ok.hosts.size() == 1);
  CHECK(ok.hosts[0].name == "far");
  CHECK(ok.variables.at("NCCL_DEBUG") == "INFO");
  const PointResult& dead = end.file.points[2];
  CHECK(dead.outcome == Outcome::crashed);
  CHECK(dead.hosts == ok.hosts);
  CHECK_THAT(dead.reason, Contains("rank 0 on far killed by signal 11"));
  const ResultFile file = read_result_file(r.options.out + "/results.json");
  CHECK(file.environment.at("host") == "far");
  CHECK(file.environment.at("cpu") == "B");
  CHECK(file.environment.at("cores") == 96);
  CHECK(file.points[2].hosts == ok.hosts);
  CHECK(read_text_file(r.options.out + "/points/" + ok.id + ".log").find("\"hosts\"") == std::string::npos);
}

TEST_CASE("a rebuilt results file keeps the hosts of its rows") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "hosts"})");
  r.run(spec);
  put(r.options.out + "/results.json", "");
  r.options.resume = true;
  const SweepEnd end = r.run(spec);
  REQUIRE(end.file.points.size() == 1);
  REQUIRE(end.file.points[0].hosts.size() == 1);
  CHECK(end.file.points[0].hosts[0].name == "far");
}

TEST_CASE("no other line is taken for one about hosts") {
  CHECK_FALSE(read_reported_hosts("{\"hosts\": 3}"));
  CHECK_FALSE(read_reported_hosts("{\"hosts\":[{}],\"variables\":{},\"environment\":{}}"));
  CHECK_FALSE(read_reported_hosts("{\"hosts\":[],\"variables\":{\"A\":1},\"environment\":{}}"));
  CHECK_FALSE(read_reported_hosts("hosts"));
  CHECK(read_reported_hosts("{\"hosts\":[],\"variables\":{},\"environment\":{}}"));
}
