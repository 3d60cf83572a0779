// mbench sweep --soak and --metrics: the built binary, from its command line.
#include <nlohmann/json.hpp>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"
#include "test/support/open_metrics.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

TEST_CASE("a soak runs for its time, stores windows, and its losses agree with those of a run without it") {
  const Room room;
  room.put("one.json",
           R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "iterations": 4, "warmup": 1, "dp": 2,
    "env": {"OMP_NUM_THREADS": "1"}})");
  Run run = room.shell(
      "$M sweep one.json --out plain --quiet && $M sweep one.json --out out --soak 7s --metrics m.prom --quiet & "
      "sweep=$!; "
      "until grep -q mbench_clock_hertz m.prom 2>/dev/null || ! kill -0 $sweep; do sleep 0.05; done; cp m.prom "
      "mid.prom; wait $sweep");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  const PointResult plain = read_result_file(room / "plain/results.json").points.at(0),
                    row = read_result_file(room / "out/results.json").points.at(0);
  REQUIRE(row.outcome == Outcome::ok);
  REQUIRE(row.soak);
  CHECK(row.soak->seconds >= 7);
  CHECK(row.soak->seconds < 20);
  CHECK(row.soak->windows.size() >= 5);
  CHECK(row.soak->windows.size() <= 14);
  std::int64_t steps = 0;
  for (const SoakWindow& w : row.soak->windows) {
    steps += w.steps;
    CHECK(w.samples_per_s > 0);
    CHECK(w.worst_ms >= w.median_ms);
  }
  CHECK(steps == row.soak->steps);
  CHECK(row.soak->steps > plain.point.iterations);
  CHECK(row.iteration_ms->samples.size() == row.soak->windows.size());
  CHECK(row.losses == plain.losses);  // of as many steps as a run without it has
  CHECK(row.step_ms_by_rank.size() == 2);
  // In the middle of it the metrics tell the point that runs, at the end what came of it.
  const auto has = [&](const std::string& file, const std::string& name) {
    for (const OpenMetric& m : OpenMetrics::read(read_text_file(room / file)))
      if (m.name == name) return true;
    return false;
  };
  CHECK(has("mid.prom", "mbench_steps_total"));
  CHECK(has("mid.prom", "mbench_rank_silence_seconds"));
  CHECK_FALSE(has("mid.prom", "mbench_result_step_seconds"));
  CHECK(has("m.prom", "mbench_result_step_seconds"));
  CHECK_FALSE(has("m.prom", "mbench_steps_total"));
  run = room.shell("$M report out --table soak");
  CHECK_THAT(run.out, Contains("What a soak did over time") && Contains("Samples/s"));
  CHECK_THAT(room.shell("$M sweep one.json --out out --resume").err,
             Contains("was measured with --soak 7s, got --soak none"));
  CHECK_THAT(room.shell("$M sweep one.json --soak 8h --dry-run --launcher local --set dp=1").out,
             Contains(" --soak 28800"));
}

TEST_CASE("a soak that cannot be is refused, and one that is cut short keeps its windows") {
  const Room room;
  CHECK_THAT(room.shell("$M sweep tiny.json --soak soon --out a").err, Contains("[--soak] not a time, got \"soon\""));
  CHECK_THAT(room.shell("$M sweep tiny.json --soak 0 --out a").err, Contains("[--soak] not a time"));
  CHECK_THAT(room.shell("$M sweep tiny.json --soak 1h --on sim:2xcpu --out a").err,
             Contains("[--soak] is of real time"));
  CHECK_THAT(room.shell("$M sweep tiny.json --metrics no/m.prom --out a").err,
             Contains("[no/m.prom] cannot be written"));
  CHECK_FALSE(std::filesystem::exists(room.path / "a"));
  const Run run =
      room.shell("$M sweep tiny.json --set tp=1 --set strategy=baseline --soak 30s --timeout 6 --out cut --quiet");
  CHECK(run.code == 3);
  const PointResult row = read_result_file(room / "cut/results.json").points.at(0);
  CHECK(row.outcome == Outcome::timeout);
  CHECK_THAT(row.reason, Contains("after soak step "));
  REQUIRE(row.soak);
  CHECK(row.soak->windows.size() >= 2);
  CHECK(row.soak->steps > 0);
}

TEST_CASE("a soak that is interrupted keeps the windows that had ended, a point its steps, and both run again") {
  const Room room;
  room.put(
      "point.json",
      R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "iterations": 1000000, "warmup": 1, "env": {"OMP_NUM_THREADS": "1"}})");
  // Metrics show that a window, or a step, was told.
  const auto interrupted = [&](const std::string& options, const std::string& metric, const std::string& signal) {
    return room.shell("$M sweep point.json --launcher local --on cpu " + options +
                      " --metrics m.prom --quiet & sweep=$!; until grep -qE '" + metric +
                      "' m.prom 2>/dev/null; do kill -0 $sweep || exit 99; sleep 0.05; done; sleep 1; kill -" + signal +
                      " $sweep; wait $sweep");
  };
  Run run = interrupted("--soak 200s --out soak", "mbench_clock_hertz", "INT");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  CHECK_THAT(run.err,
             Contains("Interrupted: 0 of 1 points are done and kept; ") && Contains(" kept too, and it runs again."));
  const PointResult soak = read_result_file(room / "soak/results.json").points.at(0);
  CHECK(soak.outcome == Outcome::partial);
  REQUIRE(soak.soak);
  CHECK(soak.soak->steps > 0);
  CHECK_THAT(room.shell("$M report soak --table soak").out, Contains("Samples/s"));
  room.shell("rm m.prom");
  run = interrupted("--out steps", "mbench_steps_total[^ ]* [1-9]", "TERM");
  CHECK(run.code == 3);
  const PointResult steps = read_result_file(room / "steps/results.json").points.at(0);
  CHECK(steps.outcome == Outcome::partial);
  CHECK_FALSE(steps.partial_ms.empty());
  CHECK_THAT(steps.reason, Contains("interrupted, after iteration "));
  // No measurement of the point, and no baseline for one.
  CHECK_THAT(room.shell("$M compare steps --baseline steps").err,
             Contains("not comparable, the point was cut short here: interrupted, after iteration "));
  CHECK_THAT(room.shell("$M baseline add steps --dir b 2>&1").out, Contains("partial"));
  CHECK_THAT(room.shell("$M sweep point.json --launcher local --on cpu --out steps --resume --timeout 0.5").err,
             Contains("[1/1]"));
}

TEST_CASE(
    "a run without a sweep ends when it was told how long a communication may take, and says where each rank waits") {
  const Room room;
  room.put("point.json",
           R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "dp": 2, "iterations": 1000000})");
  const Run run = room.shell(
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1; mpirun --oversubscribe -np "
      "1 $M run point.json --collective-timeout 2 "
      "--result r.json : -np 1 sh -c 'echo $$ > second; exec $M run point.json --collective-timeout 2 --result r.json' "
      "> steps & job=$!; "
      "until [ \"$(wc -l < steps)\" -gt 3 ]; do kill -0 $job || exit 99; sleep 0.1; done; kill -STOP $(cat second); "
      "wait $job",
      60);
  INFO(run.out << run.err);
  CHECK(run.code != 0);
  CHECK(run.code != 99);
  const PointResult row = result_from_json(nlohmann::json::parse(read_text_file(room / "r.json")), "r.json");
  CHECK(row.outcome == Outcome::timeout);
  CHECK_THAT(row.reason, Contains("rank 0 on ") && Contains("[mpi] no end of ") &&
                             Contains(" after 2.0 s: a rank has not come to it, or a link is down"));
}
