#include "sweeps/run/runner.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include "engine/process/process_tree.h"
#include "test/sweeps/runner_fixture.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

TEST_CASE("a sweep runs every point and writes results and tables") {
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "oom"}, {"MODE": "threads"})");
  const SweepEnd end = r.run(spec);
  CHECK_FALSE(end.failed);
  CHECK_FALSE(end.interrupted);
  REQUIRE(end.file.points.size() == 3);
  CHECK(end.file.points[0].outcome == Outcome::ok);
  CHECK(end.file.points[0].losses == std::vector<double>{5.5});
  CHECK(end.file.points[0].id == spec.points[0].id);  // the sweep's, not the run's
  CHECK(end.file.points[1].outcome == Outcome::oom);
  const ResultFile file = read_result_file(r.options.out + "/results.json");
  CHECK(file.points.size() == 3);
  CHECK(file.spec.at("name") == "spec");
  CHECK(file.environment.at("cores") == 2);
  CHECK(read_text_file(r.options.out + "/results.md") == "table of 3\nok\noom\nok\n");
  CHECK(r.tables.str() == "table of 3\nok\noom\nok\n");
  CHECK_THAT(r.progress.str(),
             Contains("spec: 3 points on cpu of here (a cpu, 2 cores), launched by local (one rank, no launcher)") &&
                 Contains("[1/3] env={\"MODE\":\"ok\"}: ok, 2 ms, loss 5.5000 -> 5.5000") &&
                 Contains("[2/3] env={\"MODE\":\"oom\"}: oom"));
  CHECK(r.progress.str().find('\r') == std::string::npos);  // no terminal, nothing redrawn
  CHECK_THAT(read_text_file(r.options.out + "/points/" + spec.points[2].id + ".log"),
             Contains("threads 2") && Contains("run run ") && Contains(".point.json --result --progress"));
  CHECK_THAT(message_of([&] { r.run(spec); }), Contains("holds the results of a sweep, need --resume"));
}

TEST_CASE("a terminal sees one line redrawn") {
  Runner r;
  r.options.columns = 60;
  r.run(r.spec(R"({"MODE": "ok"})"));
  CHECK_THAT(r.progress.str(),
             Contains("\r[1/1] env={\"MODE\":\"ok\"} | starting\x1b[K") && Contains("| iteration 1/2 | 2.5 ms"));
}

TEST_CASE("quiet leaves only the tables") {
  Runner r;
  r.options.quiet = true;
  r.run(r.spec(R"({"MODE": "ok"})"));
  CHECK(r.progress.str().empty());
  CHECK(r.tables.str() == "table of 1\nok\n");
}

TEST_CASE("a crash is a row with its reason, and the sweep goes on") {
  Runner r;
  const SweepEnd end = r.run(r.spec(R"({"MODE": "signal"}, {"MODE": "code"}, {"MODE": "silent"}, {"MODE": "partial"},
                                       {"MODE": "late"}, {"MODE": "leaves"}, {"MODE": "chatty"})"));
  CHECK(end.failed);
  const auto& p = end.file.points;
  REQUIRE(p.size() == 7);
  CHECK(p[0].outcome == Outcome::crashed);
  CHECK_THAT(p[0].reason, Contains("killed by signal 11 (Segmentation fault), after warmup 1 of 2; last output: ") &&
                              Contains("about to fall over"));
  CHECK(p[1].outcome == Outcome::crashed);
  CHECK(p[1].reason ==
        "exited with code 3, before its first sign of life; last output: [weights] cannot be, got 3, need 4");
  CHECK(p[2].outcome == Outcome::crashed);
  CHECK_THAT(p[2].reason, Contains("ended without a result"));
  CHECK(p[3].outcome == Outcome::crashed);
  CHECK_THAT(p[3].reason, Contains("cut short: the file ends at byte"));
  CHECK(p[4].outcome == Outcome::crashed);
  CHECK_THAT(p[4].reason,
             Contains("exited with code 9") && Contains("its result was written, but it did not end well"));
  CHECK(p[4].losses.empty());
  CHECK(p[5].outcome == Outcome::ok);
  CHECK(p[6].outcome == Outcome::ok);
  CHECK(live_descendants(0).empty());
  CHECK(read_result_file(r.options.out + "/results.json").points.size() == 7);
}

TEST_CASE("a hang ends by its time-out with all its processes") {
  Runner r;
  r.options.timeout_s = 0.5;
  const PointResult p = r.one(R"({"MODE": "hang"})");
  CHECK(p.outcome == Outcome::timeout);
  CHECK_THAT(p.reason, Contains("killed by the time-out of 500 ms, before its first sign of life"));
  CHECK(live_descendants(0).empty());
}

TEST_CASE("a program or launcher that is not there fails to launch") {
  Runner r;
  r.options.program = "/no/such/mbench";
  CHECK(r.one(R"({"MODE": "ok"})").outcome == Outcome::launch_failed);
  r.options.out += "2";
  r.options.launcher.kind = LauncherKind::mpirun;
  r.options.launcher.program = "/no/such/mpirun";
  const PointResult p = r.one(R"({"MODE": "ok"})");
  CHECK(p.outcome == Outcome::launch_failed);
  CHECK(p.reason == "/no/such/mpirun could not be started: No such file or directory");
  r.options.out += "3";
  r.options.launcher = local_launcher();
  const SweepEnd end = r.run(spec_of(r.folder, R"("tp": 2, "global_batch": 4)"));
  CHECK(end.file.points[0].outcome == Outcome::launch_failed);
  CHECK(end.failed);
}

TEST_CASE("what cannot be is recorded without a launch") {
  Runner r;
  r.options.program = "/no/such/mbench";
  r.options.preflight = [](const Point& p) {
    Forecast f;
    if (p.seq == 128) f = {Outcome::oom, "needs 3 GiB", {}};
    if (p.tp == 3) f = {Outcome::infeasible, "tp 3 does not divide the 4 heads", {}};
    if (p.precision == Precision::fp8) f = {Outcome::unsupported, "no fp8 here", {}};
    f.seconds = 90;
    return f;
  };
  const Spec spec = spec_of(r.folder, R"("global_batch": 4, "sweep": {"tp,precision": [[3, "f32"], [1, "fp8"]]})");
  Spec all = spec;
  SpecPoint big = spec.points[0];
  big.point.tp = 1, big.point.seq = 128, big.id = point_id(big.point);
  all.points.push_back(big);
  all.all_ids.push_back(big.id);
  const SweepEnd end = r.run(all);
  REQUIRE(end.file.points.size() == 3);
  CHECK(end.file.points[0].outcome == Outcome::infeasible);
  CHECK_THAT(end.file.points[0].reason, Contains("tp 3 does not divide the 4 heads"));
  CHECK(end.file.points[1].outcome == Outcome::unsupported);
  CHECK(end.file.points[2].outcome == Outcome::oom);
  CHECK(end.file.points[2].reason == "needs 3 GiB");
  CHECK_FALSE(end.failed);
  CHECK_THAT(r.progress.str(), Contains("cannot run, and are recorded as such: 1 infeasible, 1 oom, 1 unsupported"));
}

TEST_CASE("points that differ in layout alone must have the same losses") {
  Runner r;
  const SweepEnd end =
      r.run(r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "LOSS": "5.6"}, {"MODE": "ok", "LOSS": "null"})"));
  CHECK(end.failed);
  CHECK(end.file.points[0].outcome == Outcome::ok);
  CHECK(end.file.points[1].outcome == Outcome::wrong);
  CHECK_THAT(end.file.points[1].reason, Contains("the loss of step 1 is 5.6") && Contains(end.file.points[0].id));
  CHECK(end.file.points[2].outcome == Outcome::wrong);
}

TEST_CASE("a disk that is full ends the sweep with what was measured") {
  const rlim_t of_one = [] {
    Runner r;
    r.run(r.spec(R"({"MODE": "ok"})"));
    return std::filesystem::file_size(r.options.out + "/results.json");
  }();
  Runner r;
  const Spec spec = r.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"}, {"MODE": "ok", "A": "2"})");
  // In a child, because the limit on the size of files holds for the whole process.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{of_one * 3 / 2, of_one * 3 / 2};  // results.json of two points no longer fits
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int code = 1;
    try {
      const SweepEnd end = r.run(spec);
      if (end.failed && end.file.points.size() == 2 && r.tables.str().find("table of 2") == 0 &&
          r.progress.str().find("results.json] could not be written: File too large, need") != std::string::npos)
        code = 0;
      else
        fprintf(stderr, "%zu points\n%s\n", end.file.points.size(), r.progress.str().c_str());
    } catch (const Error& e) {
      fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(read_result_file(r.options.out + "/results.json").points.size() == 1);
}

TEST_CASE("two sweeps do not share a folder") {
  Runner r;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    r.options.render_tables = [&](const ResultFile&) {
      const ssize_t n = ::write(ready[1], "x", 1);  // it has the folder now
      ::usleep(n == 1 ? 3000000 : 0);
      return std::string("t");
    };
    try {
      r.run(r.spec(R"({"MODE": "silent"})"));
    } catch (const Error&) {
    }
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  r.options.resume = true;
  CHECK_THAT(message_of([&] { r.run(r.spec(R"({"MODE": "silent"})")); }), Contains("another sweep is running there"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]), ::close(ready[1]);
}

TEST_CASE("a dry run shows every command and writes nothing") {
  Runner r;
  r.options.preflight = [](const Point& p) {
    if (p.tp == 3) return Forecast{Outcome::infeasible, "tp 3 does not divide the 4 heads", {}};
    return Forecast{{}, "", 45.0};
  };
  const Spec spec = spec_of(r.folder, R"("global_batch": 4, "sweep": {"tp": [1, 2, 3]})");
  const std::string text = describe_sweep(spec, r.options);
  CHECK_THAT(text, Contains("3 points on cpu of ") && Contains("about 1 min 30 s") && Contains("[1/3] tp=1  1 ranks") &&
                       Contains("fake-mbench run ") && Contains("launch_failed: [local] starts one rank") &&
                       Contains("infeasible: tp 3 does not divide the 4 heads"));
  CHECK_FALSE(fs::exists(r.options.out));
}

TEST_CASE("under this machine's mpirun a rank that is lost is named and a hang leaves nothing") {
  Runner r;
  LauncherOptions wanted;
  wanted.name = "mpirun";
  r.options.launcher = find_launcher(wanted);
  REQUIRE_FALSE(r.options.launcher.version.empty());
  r.options.timeout_s = 60;
  const std::string two_ranks = R"("global_batch": 4, "tp": 2)";
  const SweepEnd end = r.run(r.spec(R"({"MODE": "ok"}, {"MODE": "signal", "DIES": "1"})", two_ranks));
  REQUIRE(end.file.points.size() == 2);
  CHECK(end.file.points[0].outcome == Outcome::ok);
  CHECK(end.file.points[0].world == 2);
  CHECK(end.file.points[1].outcome == Outcome::crashed);
  CHECK_THAT(end.file.points[1].reason, Contains("killed by signal 11") && Contains("about to fall over"));
  r.options.out += "-hang";
  r.options.timeout_s = 3;
  CHECK(r.run(r.spec(R"({"MODE": "hang"})", two_ranks)).file.points.at(0).outcome == Outcome::timeout);
  CHECK(live_descendants(0).empty());
}

TEST_CASE("where ranks may be on other hosts the point is an argument, and record and trace come by standard output") {
  Runner r;
  r.options.launcher.allocated = true;
  r.options.trace = [&](const Point&) { return r.folder / "t.json"; };
  const SweepEnd end = r.run(r.spec(R"({"MODE": "trace"})"));
  REQUIRE(end.file.points.size() == 1);
  CHECK(end.file.points[0].outcome == Outcome::ok);
  CHECK(end.file.points[0].losses == std::vector<double>{5.5});
  CHECK(read_text_file(r.folder / "t.json") == "[1,2]");
  const std::string log = read_text_file(r.options.out + "/points/" + end.file.points[0].id + ".log");
  CHECK_THAT(log, Contains("run run {\"model\"") && Contains("} --result --progress"));
  CHECK(log.find("{\"trace\"") == std::string::npos);
  CHECK(std::filesystem::exists(r.options.out + "/points/" + end.file.points[0].id + ".json"));
  // A trace that cannot be written is said, and the row stands.
  Runner bad;
  bad.options.launcher.allocated = true;
  bad.options.trace = [&](const Point&) { return bad.folder / "no/t.json"; };
  const SweepEnd other = bad.run(bad.spec(R"({"MODE": "trace"})"));
  CHECK(other.failed);
  CHECK(other.file.points.at(0).outcome == Outcome::ok);
  CHECK_THAT(other.file.points.at(0).reason, Contains("t.json] could not be written"));
}

TEST_CASE("a rank that gives no more signs of life ends its point in time, as a row that says so") {
  Runner r;
  r.options.collective_timeout_s = 0.5;
  const auto begin = std::chrono::steady_clock::now();
  const SweepEnd end = r.run(r.spec(R"({"MODE": "stopped"}, {"MODE": "ok"})"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  REQUIRE(end.file.points.size() == 2);
  CHECK(end.file.points[0].outcome == Outcome::timeout);
  CHECK_THAT(end.file.points[0].reason,
             Catch::StartsWith("no sign of life for 500 ms of rank 0: ") && Contains(", after iteration 1 of 2"));
  CHECK(end.file.points[0].partial_ms == std::vector<double>{2.5});
  CHECK(read_text_file(r.options.out + "/points/" + end.file.points[0].id + ".log").find("alive") == std::string::npos);
  CHECK(end.file.points[1].outcome == Outcome::ok);
}
