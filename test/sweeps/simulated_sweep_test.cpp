// Sweeps whose points are simulated in this process: what is written when, and what becomes of a point that throws.
#include <chrono>
#include <csignal>

#include "sweeps/store/write_schedule.h"
#include "test/support/pace.h"
#include "test/sweeps/runner_fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

// A spec of so many simulated points that differ in their seed, none of which takes any time.
Spec simulated_spec(Runner& r, int points) {
  std::string seeds;
  for (int i = 0; i < points; ++i) seeds += fmt::format("{}{}", i ? "," : "", i);
  const std::string path = r.folder / "simulated.json";
  put(path, R"({"model": "gpt-bytes-tiny", "seq": 64, "sweep": {"seed": [)" + seeds + "]}}");
  SpecOptions options;
  options.path = path;
  options.device = "sim:1xH100-SXM5-80GB";
  r.options.simulate = [](const Point& point) {
    PointResult result = not_run(point, Outcome::ok, "");
    result.simulated = true;
    result.iteration_ms = statistics_of({1.5, 2.5});
    return result;
  };
  r.options.quiet = true;
  return read_spec(options);
}

}  // namespace

TEST_CASE("Ctrl-C in a simulated sweep leaves in results.json what it says is kept") {
  Runner r;
  const Spec spec = simulated_spec(r, 50);
  int done = 0;
  r.options.simulate = [&, simulate = r.options.simulate](const Point& point) {
    if (++done == 20) ::raise(SIGINT);
    return simulate(point);
  };
  const SweepEnd end = r.run(spec);
  CHECK(end.interrupted);
  CHECK(end.file.points.size() == 20);
  CHECK_THAT(r.progress.str(), Contains("Interrupted: 20 of 50 points are done and kept"));
  CHECK(read_result_file(r.options.out + "/results.json").points.size() == 20);
}

TEST_CASE("a point whose simulation or forecast throws is a row, and the others stand") {
  Runner r;
  const Spec spec = simulated_spec(r, 4);
  r.options.simulate = [&, simulate = r.options.simulate](const Point& point) {
    if (point.seed == 1) throw std::bad_alloc();
    if (point.seed == 2) fail(ErrorKind::internal, "embedding", "shape of y, got 0, need 4");
    return simulate(point);
  };
  const SweepEnd end = r.run(spec);
  CHECK(end.failed);
  const auto rows = read_result_file(r.options.out + "/results.json").points;
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].outcome == Outcome::ok);
  CHECK(rows[1].outcome == Outcome::crashed);
  CHECK_THAT(rows[1].reason, Contains("the simulation failed: std::bad_alloc"));
  CHECK(rows[2].outcome == Outcome::crashed);
  CHECK(rows[2].reason == "[embedding] shape of y, got 0, need 4");
  CHECK(rows[3].outcome == Outcome::ok);

  Runner measured;
  measured.options.preflight = [](const Point& point) -> Forecast {
    if (point.env.contains("A")) fail(ErrorKind::internal, "embedding", "shape of y, got 0, need 4");
    return {};
  };
  const auto points = measured.run(measured.spec(R"({"MODE": "ok"}, {"MODE": "ok", "A": "1"})")).file.points;
  REQUIRE(points.size() == 2);
  CHECK(points[0].outcome == Outcome::ok);
  CHECK(points[1].outcome == Outcome::crashed);
}

TEST_CASE("what is written again and again takes a small share of the time, however large it grows") {
  using Clock = WriteSchedule::Clock;
  using Seconds = std::chrono::duration<double>;
  Clock::time_point now{};
  WriteSchedule schedule(now);
  const auto pass = [&](double seconds) { now += std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); };
  double writing = 0;
  int rows = 0, writes = 0;
  for (; rows < 10000; ++rows) {
    pass(0.002);
    if (!schedule.is_due(now)) continue;
    const auto began = now;
    pass(0.0002 * rows);
    schedule.wrote(began, now);
    writing += Seconds(now - began).count();
    ++writes;
  }
  CHECK(writing < 0.2 * Seconds(now - Clock::time_point{}).count());
  CHECK(writes >= 5);  // a reader is not left without news either
}

TEST_CASE("a simulated sweep of thousands of points spends its time on the points") {
  Runner r;
  const Spec spec = simulated_spec(r, 4000);
  int writes = 0;
  r.options.render_tables = [&](const ResultFile& file) {
    ++writes;
    return std::to_string(file.points.size()) + "\n";
  };
  SweepEnd end;
  const double seconds = test::idle_seconds([&] { return test::cpu_seconds([&] { end = r.run(spec); }); });
  CHECK(end.file.points.size() == 4000);
  CHECK(seconds < 6);
  CHECK(writes < 10);
  CHECK(read_result_file(r.options.out + "/results.json").points.size() == 4000);
}
