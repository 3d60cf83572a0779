// An interrupted sweep goes on: what is kept, what runs again, what is refused.
#include "engine/process/process_tree.h"
#include "test/sweeps/runner_fixture.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

TEST_CASE("an interrupted sweep keeps what is done, says how to go on, and does") {
  Runner r;
  // The second point tells this process to stop, as Ctrl-C would, and then hangs.
  const std::string script = read_text_file(r.options.program);
  put(r.options.program, "#!/bin/sh\nif [ -n \"$STOP\" ] && [ ! -e " + (r.folder / "stopped") + " ]; then touch " +
                             (r.folder / "stopped") + "; kill -INT $PPID; sleep 30; fi\n" + script);
  const Spec spec =
      r.spec(R"({"MODE": "ok"}, {"MODE": "code"}, {"MODE": "ok", "STOP": "1"}, {"MODE": "ok", "A": "1"})");
  const SweepEnd end = r.run(spec);
  CHECK(end.interrupted);
  CHECK(end.file.points.size() == 2);
  CHECK_THAT(r.progress.str(),
             Contains("Interrupted: 2 of 4 points are done and kept. To go on: mbench sweep ... --resume"));
  CHECK(live_descendants(0).empty());

  r.options.resume = true;
  r.progress.str("");
  const SweepEnd again = r.run(spec);
  CHECK_FALSE(again.interrupted);
  REQUIRE(again.file.points.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(again.file.points[i].id == spec.points[i].id);
  CHECK(again.file.points[2].outcome == Outcome::ok);
  // The ok one is kept, the crashed one ran again.
  CHECK_THAT(r.progress.str(),
             Contains("1 of them are done already") && Contains("[2/4] env={\"MODE\":\"code\"}: crashed"));
  CHECK(r.progress.str().find("[1/4]") == std::string::npos);
}

TEST_CASE("what a point had measured when it was cut off stays until it has run again") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"})");
  r.run(spec);
  const std::string path = r.options.out + "/results.json", script = read_text_file(r.options.program);
  const ResultFile whole = read_result_file(path);
  for (const Outcome outcome : {Outcome::partial, Outcome::crashed}) {
    ResultFile cut = whole;
    PointResult& row = cut.points[1];
    row = PointResult();
    row.point = whole.points[1].point, row.id = whole.points[1].id;
    row.outcome = outcome, row.reason = "cut off", row.partial_ms = {3, 2, 4};
    write_result_file(path, cut);
    std::filesystem::remove(r.options.out + "/points/" + row.id + ".json");
    r.options.resume = true;
    r.progress.str("");
    put(r.options.program, "#!/bin/sh\nkill -INT $PPID\nsleep 30\n");
    CHECK(r.run(spec).interrupted);
    const ResultFile kept = read_result_file(path);
    REQUIRE(kept.points.size() == 2);
    CHECK(kept.points[1].outcome == outcome);
    CHECK(kept.points[1].partial_ms == std::vector<double>{3, 2, 4});
    CHECK_THAT(r.progress.str(), Contains("Interrupted: 1 of 2 points are done and kept"));
    put(r.options.program, script);
    const SweepEnd again = r.run(spec);
    REQUIRE(again.file.points.size() == 2);
    CHECK(again.file.points[1].outcome == Outcome::ok);
    CHECK(again.file.points[1].partial_ms.empty());
  }
}

TEST_CASE("a results file that is cut short is rebuilt from the points") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"}, {"MODE": "ok", "A": "2"})");
  r.run(spec);
  const std::string path = r.options.out + "/results.json";
  const std::string whole = read_text_file(path);
  r.options.resume = true;
  for (const std::string& damage : {whole.substr(0, whole.size() / 2), std::string()}) {
    put(path, damage);
    put(r.options.out + "/points/" + spec.points[1].id + ".json", "{");
    r.progress.str("");
    const SweepEnd end = r.run(spec);
    CHECK(end.file.points.size() == 3);
    CHECK_FALSE(end.failed);
    CHECK_THAT(r.progress.str(), Contains("rebuilt from 2 of the 3 files in points/, the others run again") &&
                                     Contains("[3/3] env={\"A\":\"1\",\"MODE\":\"ok\"}: ok"));
    CHECK(read_result_file(path).points.size() == 3);
  }
  put(path, R"({"schema": "other/1"})");
  CHECK_THAT(message_of([&] { r.run(spec); }), Contains("$.schema] another schema, got \"other/1\""));
}

TEST_CASE("resume takes over finished points that results.json does not have") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"}, {"MODE": "oom"}, {"MODE": "code"})");
  r.run(spec);
  const std::string path = r.options.out + "/results.json";
  const auto file_of = [&](std::size_t i) { return r.options.out + "/points/" + spec.points[i].id + ".json"; };
  const ResultFile whole = read_result_file(path);
  // The sweep was killed while the second point ended: its file is as the run itself wrote it.
  ResultFile early = whole;
  early.points.resize(1);
  write_result_file(path, early);
  PointResult raw = whole.points[1];
  raw.id = "of-the-run";
  put(file_of(1), dump_json(result_to_json(raw)));
  const std::string kept = read_text_file(file_of(1));

  r.options.resume = true;
  r.options.program = "/no/such/mbench";  // whatever runs now fails
  r.progress.str("");
  const SweepEnd end = r.run(spec);
  REQUIRE(end.file.points.size() == 4);
  CHECK(end.file.points[1].outcome == Outcome::ok);
  CHECK(end.file.points[1].id == spec.points[1].id);
  CHECK(end.file.points[2].outcome == Outcome::oom);
  CHECK(end.file.points[3].outcome == Outcome::launch_failed);  // it had crashed, and ran again
  CHECK(read_text_file(file_of(1)) == kept);
  CHECK(read_result_file(path).points.size() == 4);
  CHECK_THAT(r.progress.str(), Contains("results.json lacks 2 finished points: taken over from points/") &&
                                   Contains("3 of them are done already"));
}

TEST_CASE("resume takes over no file of another point, and no loss that is apart") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"}, {"MODE": "ok", "A": "2"})");
  r.run(spec);
  const std::string path = r.options.out + "/results.json";
  const auto file_of = [&](std::size_t i) { return r.options.out + "/points/" + spec.points[i].id + ".json"; };
  ResultFile early = read_result_file(path);
  PointResult other = early.points[1], apart = early.points[2];
  early.points.resize(1);
  write_result_file(path, early);
  other.point.seq = 128;  // under the name of the second point
  apart.losses = {5.7};   // as a run wrote it that no sweep has checked
  put(file_of(1), dump_json(result_to_json(other)));
  put(file_of(2), dump_json(result_to_json(apart)));
  r.options.resume = true;
  r.progress.str("");
  const SweepEnd end = r.run(spec);
  REQUIRE(end.file.points.size() == 3);
  CHECK(end.file.points[1].point.seq == 64);
  CHECK(end.file.points[2].losses == std::vector<double>{5.5});
  CHECK_THAT(r.progress.str(), Contains("[2/3]") && Contains("[3/3]") && !Contains("taken over"));
  // Where results.json is gone too, the file counts as none.
  put(file_of(1), dump_json(result_to_json(other)));
  std::remove(path.c_str());
  r.progress.str("");
  r.run(spec);
  CHECK_THAT(r.progress.str(), Contains("rebuilt from 2 of the 3 files in points/, the others run again") &&
                                   Contains("2 of them are done already"));
}

TEST_CASE("a point that was done when Ctrl-C came is kept") {
  Runner r;
  const std::string script = read_text_file(r.options.program);
  put(r.options.program, script + "\nif [ -n \"$STOP\" ]; then kill -INT $PPID; sleep 30; fi\n");
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "STOP": "1"}, {"MODE": "ok", "A": "1"})");
  const SweepEnd end = r.run(spec);
  CHECK(end.interrupted);
  CHECK_FALSE(end.failed);
  REQUIRE(end.file.points.size() == 2);
  CHECK(end.file.points[1].outcome == Outcome::ok);
  CHECK(end.file.points[1].id == spec.points[1].id);
  CHECK(read_result_file(r.options.out + "/results.json").points.size() == 2);
  CHECK_THAT(r.progress.str(), Contains("Interrupted: 2 of 3 points are done and kept"));
  CHECK(live_descendants(0).empty());
}

TEST_CASE("a point that is interrupted keeps the steps and windows that it had told, and runs again") {
  Runner r;
  const std::string script = read_text_file(r.options.program);
  // It tells, and then either this process is told to stop and it hangs, or as in a batch system both are told and it ends first.
  put(r.options.program, R"SH(#!/bin/sh
if [ -n "$STOP" ] && [ ! -e )SH" +
                             (r.folder / "stopped") + R"SH( ]; then
  touch )SH" + (r.folder / "stopped") +
                             R"SH(
  if [ "$STOP" = steps ]; then
    echo '{"progress": {"phase": "warmup", "iteration": 1, "of": 1, "ms": 9, "loss": 6}}'
    echo '{"progress": {"phase": "iteration", "iteration": 1, "of": 3, "ms": 2.5, "loss": 5.5}}'
    echo '{"progress": {"phase": "iteration", "iteration": 2, "of": 3, "ms": 3.5, "loss": 5.25}}'
  else
    echo '{"progress": {"phase": "soak", "iteration": 40, "of": 0, "ms": 2.5}}'
    echo '{"window": {"seconds": 2, "steps": 40, "window_steps": [40], "end_s": [2], "median_ms": [50], "worst_ms": [60], "samples_per_s": [80]}}'
  fi
  kill -TERM $PPID
  if [ -n "$ENDS" ]; then exit 143; fi
  sleep 30
fi
)SH" + script);
  struct Cut {
    std::string env;
    std::size_t steps, windows;
    std::string kept;
  };
  for (const Cut& cut : {Cut{R"("STOP": "steps")", 2, 0, "2 steps of the point that was cut off are kept too"},
                         Cut{R"("STOP": "steps", "ENDS": "1")", 2, 0, "2 steps of the point"},
                         Cut{R"("STOP": "soak")", 0, 1, "1 window of the point that was cut off is kept too"},
                         Cut{R"("STOP": "soak", "ENDS": "1")", 0, 1, "1 window of the point"}}) {
    INFO(cut.env);
    fs::remove(r.folder / "stopped");
    fs::remove_all(r.options.out);
    r.progress.str("");
    r.options.resume = false;
    const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", )" + cut.env + R"(}, {"MODE": "ok", "A": "1"})");
    const SweepEnd end = r.run(spec);
    CHECK(end.interrupted);
    const auto rows = read_result_file(r.options.out + "/results.json").points;
    REQUIRE(rows.size() == 2);
    CHECK(rows[1].id == spec.points[1].id);
    CHECK(rows[1].outcome == Outcome::partial);
    CHECK_THAT(rows[1].reason,
               Contains("interrupted, after ") && Contains(cut.windows ? "soak step 40" : "iteration 2 of 3"));
    CHECK(rows[1].partial_ms.size() == cut.steps);
    CHECK((rows[1].soak ? rows[1].soak->windows.size() : 0) == cut.windows);
    CHECK(fs::exists(r.options.out + "/points/" + spec.points[1].id + ".json"));
    CHECK_THAT(r.progress.str(), Contains("Interrupted: 1 of 3 points are done and kept; " + cut.kept) &&
                                     Contains("To go on: mbench sweep ... --resume"));
    CHECK(live_descendants(0).empty());

    r.options.resume = true;
    const SweepEnd again = r.run(spec);
    CHECK_FALSE(again.failed);
    REQUIRE(again.file.points.size() == 3);
    for (const PointResult& row : again.file.points) CHECK(row.outcome == Outcome::ok);
    CHECK_THAT(r.progress.str(), Contains("1 of them are done already"));
  }
}

TEST_CASE("resume refuses what is not its own") {
  Runner r;
  r.options.resume = true;
  CHECK_THAT(message_of([&] { r.run(r.spec(R"({"MODE": "ok"})")); }), Contains("nothing to resume"));
  r.options.resume = false;
  r.run(r.spec(R"({"MODE": "ok"})"));
  r.options.resume = true;
  CHECK_THAT(message_of([&] { r.run(r.spec(R"({"MODE": "silent"})")); }), Contains("does not expand to"));
  r.options.environment["cores"] = 64;
  CHECK_THAT(message_of([&] { r.run(r.spec(R"({"MODE": "ok"})")); }),
             Contains("was measured with cores 2, this machine has 64"));
}

TEST_CASE("a filter narrows a resumed sweep without losing its other points") {
  Runner r;
  SpecOptions options;
  options.path = r.folder / "spec.json";
  r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"})");  // writes the file
  options.filter = {R"(env={"MODE": "ok"})"};
  CHECK(run_sweep(read_spec(options), r.options).file.points.size() == 1);
  r.options.resume = true;
  options.filter = {R"(env={"MODE": "ok", "A": "1"})"};
  CHECK(run_sweep(read_spec(options), r.options).file.points.size() == 2);
}
