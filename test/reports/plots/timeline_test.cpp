// Timelines from Chrome traces.
#include "reports/plots/timeline.h"

#include <filesystem>

#include "engine/base/json_reader.h"
#include "reports/plots/gnuplot.h"
#include "reports/plots/report_plots.h"
#include "test/catch.h"
#include "test/reports/plots/plot_sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;
using Json = nlohmann::ordered_json;

namespace {

const std::string kFixture = MBENCH_SOURCE_DIR "/test/fixtures/traces/two_stages.json";

std::string trace_refusal(const std::string& json) {
  try {
    trace_from_json(Json::parse(json), "t.json: $");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

Plot timeline_of(const Json& trace) {
  PlotDeclaration declaration;
  declaration.name = "timeline";
  return timeline_plot(trace_from_json(trace, "t"), declaration).plots.at(0);
}

}  // namespace

TEST_CASE("a trace comes out as its golden timeline") {
  const TimelinePlot timeline = read_timeline(kFixture);
  CHECK(timeline.notes.empty());
  REQUIRE(timeline.plots.size() == 1);
  const std::string golden = MBENCH_SOURCE_DIR "/test/reports/plots/golden/timeline.txt";
  CHECK(sample::text_of_plot(timeline.plots[0]) + "\n" == read_text_file(golden));
}

TEST_CASE("an array of events is read as an object that holds it") {
  const Json object = Json::parse(read_text_file(kFixture));
  CHECK(sample::text_of_plot(timeline_of(object)) == sample::text_of_plot(timeline_of(object["traceEvents"])));
}

TEST_CASE("ranks and tracks stand in the order of their numbers") {
  Json events = Json::array();
  for (const int rank : {10, 2, 0})
    for (const int track : {11, 3})
      events.push_back({{"ph", "X"}, {"pid", rank}, {"tid", track}, {"ts", 100 * rank + track}, {"dur", 5}});
  CHECK(timeline_of(events).rows ==
        std::vector<std::string>{"rank 0 3", "rank 0 11", "rank 2 3", "rank 2 11", "rank 10 3", "rank 10 11"});
}

TEST_CASE("a process is called as the trace calls it, and a simulated one is marked") {
  Json events = Json::array();
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", 4}, {"args", {{"name", "ranks 4-7, stage 1, simulated"}}}});
  for (const int rank : {0, 4}) events.push_back({{"ph", "X"}, {"pid", rank}, {"tid", "phase"}, {"ts", 0}, {"dur", 5}});
  const Plot plot = timeline_of(events);
  CHECK(plot.rows == std::vector<std::string>{"rank 0 phase", "ranks 4-7, stage 1 phase"});
  CHECK(plot.simulated);
  events.erase(0);
  CHECK_FALSE(timeline_of(events).simulated);
}

TEST_CASE("spans too short to see are drawn as one with their neighbours, gaps that can be seen remain") {
  Json events = Json::array();
  for (int i = 0; i < 10000; ++i)
    if (i < 4000 || i >= 6000)
      events.push_back({{"ph", "X"}, {"cat", "compute"}, {"pid", 0}, {"tid", 0}, {"ts", 10 * i}, {"dur", 9}});
  const Plot plot = timeline_of(events);
  REQUIRE(plot.series.size() == 1);
  REQUIRE(plot.series[0].points.size() == 2);
  CHECK(plot.series[0].points[0].x == Approx(0));
  CHECK(plot.series[0].points[0].end == Approx(39.999));
  CHECK(plot.series[0].points[1].x == Approx(60));
  CHECK(plot.series[0].points[1].end == Approx(99.999));
}

TEST_CASE("more ranks than can be read are cut off, and that is said") {
  Json events = Json::array();
  for (int rank = 0; rank < 200; ++rank)
    events.push_back({{"ph", "X"}, {"pid", rank}, {"tid", 0}, {"ts", 0}, {"dur", 5}});
  const TimelinePlot timeline = timeline_plot(trace_from_json(events, "t"), {});
  CHECK(timeline.plots.at(0).rows.size() == 96);
  REQUIRE(timeline.notes.size() == 1);
  CHECK_THAT(timeline.notes[0], Contains("96 of 200 rows"));
}

TEST_CASE("what is no trace is refused with its place") {
  CHECK_THAT(trace_refusal(R"({"points": []})"), Contains("t.json: $") && Contains("traceEvents"));
  CHECK_THAT(trace_refusal("[]"), Contains("no complete event"));
  CHECK_THAT(trace_refusal(R"({"traceEvents": [{"ph": "M"}]})"),
             Contains("$.traceEvents") && Contains("no complete event"));
  CHECK_THAT(trace_refusal(R"([{"ph": "X", "ts": 1, "dur": 1}, {"ph": "X", "ts": "soon", "dur": 1}])"),
             Contains("$[1].ts") && Contains("soon"));
  CHECK_THAT(trace_refusal(R"([{"ph": "X", "ts": 1}])"), Contains("$[0].dur"));
  CHECK_THAT(trace_refusal(R"([{"ph": "X", "ts": 1, "dur": -2}])"), Contains("$[0].dur"));
  CHECK_THAT(trace_refusal("[7]"), Contains("$[0]"));
}
