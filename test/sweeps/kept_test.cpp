// What was measured is kept where a point is cut short, its files cannot be written, or the folder goes.
#include <sys/stat.h>

#include "sweeps/run/point_run.h"
#include "test/sweeps/runner_fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

// A stand-in for `run POINT --result FILE --progress` that tells of a warm-up and two steps and then does what is given.
void tells_then(Runner& r, const std::string& what) {
  put(r.options.program, R"SH(#!/bin/sh
step() { echo "{\"progress\": {\"phase\": \"$1\", \"iteration\": $2, \"of\": $3, \"ms\": $4, \"loss\": $5}}"; }
record() {
  printf '{"id": "of-the-run", "outcome": "ok", "reason": null, "losses": [5.5, 5.25], "peak_source": "%s",' "$PADDING"
  printf '"iteration_ms": {"mean": 2, "stddev": 0, "median": 2, "p95": 2, "min": 2, "max": 2, "samples": [2]},'
  tail -c +2 "$1" | tr -d '\n'
}
step warmup 1 1 9.5 5.5
step iteration 1 2 2.5 5.25
step iteration 2 2 2.25 5.125
)SH" + what + "\n");
}

}  // namespace

TEST_CASE("a point that is killed, hangs or crashes keeps the steps that it had measured") {
  for (const std::string end : {"kill -9 $$", "sleep 30", "exit 7"}) {
    INFO(end);
    Runner r;
    tells_then(r, end);
    r.options.timeout_s = 1;
    const PointResult row = r.one("{}");
    CHECK(is_failure(row.outcome));
    CHECK_FALSE(row.iteration_ms);
    CHECK(row.partial_ms == std::vector<double>{2.5, 2.25});
    CHECK(row.partial_losses == std::vector<double>{5.5, 5.25, 5.125});
    const PointResult read = read_result_file(r.options.out + "/results.json").points.at(0);
    CHECK(read.partial_ms == row.partial_ms);
    CHECK(read.partial_losses == row.partial_losses);
  }
  Runner r;
  const PointResult whole = r.one(R"({"MODE": "ok"})");
  CHECK(whole.outcome == Outcome::ok);
  CHECK(whole.partial_ms.empty());
}

TEST_CASE("a record whose file cannot be written comes by standard output, and its row keeps it") {
  Runner r;
  tells_then(r, R"SH(PADDING=$(head -c 300000 /dev/zero | tr '\0' x)
{ printf '{"record": '; record "$2"; echo ', "unwritten": "[points/x.json] could not be written: No space left on device"}'; }
exit 3)SH");
  const SweepEnd end = r.run(r.spec("{}"));
  REQUIRE(end.file.points.size() == 1);
  const PointResult& row = end.file.points[0];
  CHECK(row.outcome == Outcome::ok);
  CHECK(row.losses == std::vector<double>{5.5, 5.25});
  CHECK(row.peak_source.size() == 300000);  // longer than a line of a log
  CHECK(row.reason == "[points/x.json] could not be written: No space left on device");
  CHECK(row.partial_ms.empty());
  CHECK(end.failed);  // something that was asked for is not there
  CHECK(read_result_file(r.options.out + "/results.json").points.at(0).outcome == Outcome::ok);
  // A run that falls over afterwards is no success.
  Runner other;
  tells_then(other, R"SH({ printf '{"record": '; record "$2"; echo ', "unwritten": "[x] no"}'; }
kill -SEGV $$)SH");
  CHECK(other.one("{}").outcome == Outcome::crashed);
  CHECK_FALSE(read_record(R"({"record": {"outcome": "ok"}, "unwritten": ""})"));
  CHECK_FALSE(read_record(R"({"record")"));
}

TEST_CASE("a folder that is removed or moved away while a point runs is made again with all rows") {
  for (const std::string goes : {"rm -rf", "f() { mv \"$1\" \"$1-elsewhere\"; }; f"}) {
    INFO(goes);
    Runner r;
    const std::string once = r.folder / "once";
    tells_then(r,
               "out=$(dirname \"$(dirname \"$2\")\")\n"
               "line=$(printf '{\"record\": '; record \"$2\"; echo ', \"unwritten\": \"[x] no such folder\"}')\n"
               "if [ \"$A\" = 2 ]; then " +
                   goes +
                   " \"$out\"; fi\n"
                   "printf '%s\\n' \"$line\"; exit 3");
    const SweepEnd end = r.run(r.spec(R"({"A": "1"}, {"A": "2"}, {"A": "3"})"));
    REQUIRE(end.file.points.size() == 3);
    for (const PointResult& row : end.file.points) CHECK(row.outcome == Outcome::ok);
    CHECK(read_result_file(r.options.out + "/results.json").points.size() == 3);
    CHECK_THAT(r.progress.str(), Contains("the folder was removed while the sweep ran: made again"));
    r.options.resume = true;
    CHECK(r.run(r.spec(R"({"A": "1"}, {"A": "2"}, {"A": "3"})")).file.points.size() == 3);
  }
}

TEST_CASE("where nothing can be written the sweep says where its rows are") {
  Runner r;
  const std::string parent = r.folder / "p";
  r.options.out = parent + "/out";
  // In place of the folder's parent there is a file now: no folder can be made there.
  tells_then(r, "rm -rf " + parent + "; touch " + parent + "; exit 7");
  const SweepEnd end = r.run(r.spec("{}"));
  CHECK(end.failed);
  REQUIRE(end.file.points.size() == 1);
  CHECK(end.file.points[0].partial_ms.size() == 2);
  CHECK_THAT(r.progress.str(), Contains("what was measured is only in the tables on standard output"));
  CHECK_THAT(r.tables.str(), Contains("table of 1"));
}

TEST_CASE("a row whose fields someone has changed is refused when a sweep is resumed") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"})");
  r.run(spec);
  const std::string path = r.options.out + "/results.json";
  ResultFile file = read_result_file(path);
  file.points[0].point.seq = 128;
  write_result_file(path, file);
  r.options.resume = true;
  CHECK_THAT(message_of([&] { r.run(spec); }),
             Contains("/out/results.json] the fields of row " + spec.points[0].id + " are not that point's"));
}

TEST_CASE("what ranks print reaches a terminal without its control characters") {
  Runner r;
  tells_then(r, "printf 'red \\033[31m and \\033]0;title\\007 end\\n' >&2; exit 7");
  const PointResult row = r.one("{}");
  CHECK_THAT(row.reason, Contains("red \\x1b[31m and \\x1b]0;title\\x07 end"));
  CHECK(r.progress.str().find('\x1b') == std::string::npos);
}

TEST_CASE("a rank that a limit on its memory keeps from starting is a launch that failed") {
  Runner r;
  put(r.options.program,
      "#!/bin/sh\nfor rank in 0 1; do echo 'mbench: [limits] the limit on address space (ulimit -v) leaves no room' "
      ">&2; done; exit "
      "3\n");
  const PointResult row = r.one("{}");
  CHECK(row.outcome == Outcome::launch_failed);
  CHECK(row.reason == "mbench: [limits] the limit on address space (ulimit -v) leaves no room");
}
