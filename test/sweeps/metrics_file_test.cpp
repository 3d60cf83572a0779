#include "sweeps/run/metrics_file.h"

#include "test/catch.h"
#include "test/support/open_metrics.h"
#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using mbench::test::OpenMetric;
using mbench::test::OpenMetrics;

namespace {

const nlohmann::ordered_json kEnvironment = {{"mbench_version", "0.1.0"},
                                             {"git_revision", "abc"},
                                             {"host", "h\"1\\\n"},
                                             {"launcher", "mpirun (Open MPI 4.1.4)"}};

SpecPoint point_of(const std::string& label) {
  SpecPoint p;
  p.point.model = find_preset("gpt-bytes-tiny", "test");
  p.point.global_batch = 8;
  p.id = point_id(p.point);
  p.label = label;
  return p;
}

// The value of the first sample of that name with that label.
double value_of(const std::vector<OpenMetric>& samples, const std::string& name, const std::string& label = "",
                const std::string& text = "") {
  for (const OpenMetric& s : samples)
    if (s.name == name && (label.empty() || (s.labels.contains(label) && s.labels.at(label) == text))) return s.value;
  return -1;
}

}  // namespace

TEST_CASE("metrics: the text keeps to the grammar, whatever labels hold, and its reader to its rules") {
  MetricsFile file("", "a \"sweep\" \\ of\nlines", "cpu", kEnvironment, 3);
  const auto samples = OpenMetrics::read(file.text(1700000000.25));
  CHECK(value_of(samples, "mbench_sweep_info", "name", "a \"sweep\" \\ of\nlines") == 1);
  CHECK(value_of(samples, "mbench_sweep_info", "host", "h\"1\\\n") == 1);
  CHECK(value_of(samples, "mbench_build_info", "version", "0.1.0") == 1);
  CHECK(value_of(samples, "mbench_points", "state", "all") == 3);
  CHECK(value_of(samples, "mbench_updated_timestamp_seconds") == 1700000000.25);
  CHECK(value_of(samples, "mbench_steps_total") == -1);
  for (const char* broken : {"", "# EOF", "a 1\n", "# TYPE a gauge\na 1\n", "# TYPE a gauge\n\na 1\n# EOF\n",
                             "# TYPE a counter\na 1\n# EOF\n", "# TYPE a gauge\na{b=\"c\",} 1\n# EOF\n",
                             "# TYPE a gauge\na{b=\"c} 1\n# EOF\n", "# TYPE a gauge\na 1\na 1\n# EOF\n",
                             "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na{c=\"d\"} 1\n# EOF\n",
                             "# UNIT a seconds\na 1\n# EOF\n", "# TYPE a gauge\na x\n# EOF\n", "# EOF\n# EOF\n",
                             "# TYPE a info\na_info 2\n# EOF\n"}) {
    INFO(broken);
    CHECK_THROWS(OpenMetrics::read(broken));
  }
}

TEST_CASE("metrics: a point that runs, its soak and its ranks, and what came of those before") {
  MetricsFile file("", "s", "cpu", kEnvironment, 2);
  SpecPoint p = point_of("tp=2");
  file.begin(p);
  file.take(ProgressMessage{"warmup", 1, 2, 9.0, 5.5});
  file.take(std::map<std::int64_t, double>{{0, 0.04}, {1, 3.26}},
            {{.name = "h1", .ranks = {0}}, {.name = "h2", .ranks = {1}}});
  auto samples = OpenMetrics::read(file.text(1));
  CHECK(value_of(samples, "mbench_steps_total") == 0);  // warm-up is none
  CHECK(value_of(samples, "mbench_loss") == 5.5);
  CHECK(value_of(samples, "mbench_rank_silence_seconds", "host", "h2") == Approx(3.3));
  file.take(ProgressMessage{"soak", 812, 0, 4.0, 5.25});
  SoakWindow window{.end_s = 60,
                    .steps = 800,
                    .median_ms = 4,
                    .worst_ms = 5,
                    .samples_per_s = 1990,
                    .clock_mhz = 2400,
                    .least_clock_mhz = 2300,
                    .throttle = {}};
  file.take(window);
  file.take(ProgressMessage{"soak", 900, 0, 8.0, 5.0});
  samples = OpenMetrics::read(file.text(1));
  CHECK(value_of(samples, "mbench_steps_total", "point", p.id) == 900);
  CHECK(value_of(samples, "mbench_step_seconds") == Approx(0.008));
  CHECK(value_of(samples, "mbench_samples_per_second") == 1990);  // the window's, not that of one step
  CHECK(value_of(samples, "mbench_clock_hertz", "of", "least") == 2.3e9);
  CHECK(value_of(samples, "mbench_power_watts") == -1);
  CHECK(value_of(samples, "mbench_temperature_celsius") == -1);
  CHECK(value_of(samples, "mbench_throttle_info") == -1);
  window.power_w = 640;
  window.hottest_c = 83;
  window.throttle = "sw_power_cap, hw_thermal_slowdown";
  file.take(window);
  samples = OpenMetrics::read(file.text(1));
  CHECK(value_of(samples, "mbench_power_watts") == 640);
  CHECK(value_of(samples, "mbench_temperature_celsius", "point", p.id) == 83);
  CHECK(value_of(samples, "mbench_throttle_info", "by", "sw_power_cap, hw_thermal_slowdown") == 1);
  PointResult r = not_run(p.point, Outcome::crashed, "x");
  file.end(r);
  p = point_of("tp=1");
  file.begin(p);
  r = not_run(p.point, Outcome::ok, "");
  r.iteration_ms = statistics_of({2, 4});
  r.peak_memory_mib = 1.5;
  file.end(r);
  samples = OpenMetrics::read(file.text(1));
  CHECK(value_of(samples, "mbench_points", "state", "done") == 2);
  CHECK(value_of(samples, "mbench_points", "state", "failed") == 1);
  CHECK(value_of(samples, "mbench_outcome_info", "outcome", "crashed") == 1);
  CHECK(value_of(samples, "mbench_result_step_seconds") == Approx(0.003));
  CHECK(value_of(samples, "mbench_result_peak_memory_bytes") == 1572864);
  CHECK(value_of(samples, "mbench_running_info") == -1);
}

TEST_CASE("metrics: the file is replaced as a whole, and one that cannot be written is an error that names it") {
  const sweeps_test::Folder folder;
  MetricsFile file(folder / "m.prom", "s", "cpu", kEnvironment, 1);
  file.write();
  CHECK_NOTHROW(OpenMetrics::read(read_text_file(folder / "m.prom")));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  MetricsFile nowhere(folder / "no/m.prom", "s", "cpu", kEnvironment, 1);
  CHECK_THAT(sweeps_test::message_of([&] { nowhere.write(); }), Catch::Contains("m.prom] could not be written"));
}
