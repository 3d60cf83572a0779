// The timeline of a simulated step as a Chrome trace: whole events, on tracks where one thing runs at a time.
#include "engine/run/trace.h"

#include <algorithm>
#include <map>
#include <set>

#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;
using Catch::Contains;
using nlohmann::json;

namespace {

Point pipeline() {
  Point p;
  p.model = {"small", "gpt", 4, 256, 4, 1024, 1000, 256};
  p.seq = 256;
  p.micro_batch = 1;
  p.global_batch = 4;
  p.precision = Precision::fp16;
  p.tp = 2;
  p.pp = 2;
  return p;
}

Simulation traced(const Point& p) {
  return simulated(p, find_machine("V100-SXM2-16GB", "test"), find_framework("mbench", "test"), 8, true);
}

json trace_of(const Simulation& s) {
  std::vector<RankTimeline> ranks;
  for (std::size_t stage = 0; stage < s.timeline_by_stage.size(); ++stage)
    ranks.push_back({static_cast<int>(2 * stage), fmt::format("stage \"{}\"", stage), s.timeline_by_stage[stage]});
  return json::parse(chrome_trace(ranks));
}

std::vector<TimelineSpan> on_track(const Timeline& timeline, Track::Kind kind) {
  std::vector<TimelineSpan> spans;
  for (const TimelineSpan& s : timeline.spans())
    if (s.track.kind == kind) spans.push_back(s);
  return spans;
}

const TimelineSpan& named(const std::vector<TimelineSpan>& spans, const std::string& name) {
  const auto it = std::find_if(spans.begin(), spans.end(), [&](const TimelineSpan& s) { return s.name == name; });
  INFO(name);
  REQUIRE(it != spans.end());
  return *it;
}

}  // namespace

TEST_CASE("a trace is JSON in which every event is whole and every rank and track has a name") {
  const json trace = trace_of(traced(pipeline()));
  CHECK(trace.at("displayTimeUnit") == "ms");
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  int spans = 0;
  double first = 1e300;
  for (const json& e : trace.at("traceEvents")) {
    const int pid = e.at("pid"), tid = e.at("tid");
    if (e.at("ph") == "M") {
      const std::string name = e.at("args").at("name");
      CHECK_FALSE(name.empty());
      if (e.at("name") == "process_name") processes[pid] = name;
      if (e.at("name") == "thread_name") CHECK(threads.insert({{pid, tid}, name}).second);
      continue;
    }
    CHECK(e.at("ph") == "X");
    CHECK_FALSE(e.at("name").get<std::string>().empty());
    CHECK_FALSE(e.at("cat").get<std::string>().empty());
    CHECK(e.at("ts").get<double>() >= 0);
    CHECK(e.at("dur").get<double>() >= 0);
    CHECK(threads.count({pid, tid}) == 1);
    first = std::min(first, e.at("ts").get<double>());
    ++spans;
  }
  CHECK(processes == std::map<int, std::string>{{0, "stage \"0\""}, {2, "stage \"1\""}});
  const std::map<std::pair<int, int>, std::string> tracks{{{0, 0}, "phase"},
                                                          {{0, 1}, "compute"},
                                                          {{0, 2}, "communication tp"},
                                                          {{0, 3}, "communication pp"},
                                                          {{0, 4}, "communication first and last stage"},
                                                          {{0, 5}, "communication tp x pp"},
                                                          {{2, 0}, "phase"},
                                                          {{2, 1}, "compute"},
                                                          {{2, 2}, "communication pp"},
                                                          {{2, 3}, "communication tp"},
                                                          {{2, 4}, "communication first and last stage"},
                                                          {{2, 5}, "communication tp x pp"}};
  CHECK(threads == tracks);
  CHECK(spans > 100);
  CHECK(first == 0);
}

TEST_CASE("no two kernels of a rank run at the same time, and all of them within the step") {
  Point p = pipeline();
  p.dp = 2, p.global_batch = 8;
  const Simulation s = traced(p);
  REQUIRE(s.timeline_by_stage.size() == 2);
  for (const Timeline& timeline : s.timeline_by_stage) {
    const auto kernels = on_track(timeline, Track::compute);
    REQUIRE(kernels.size() > 50);
    double end = 0, busy = 0;
    for (const TimelineSpan& k : kernels) {
      CHECK(k.begin >= end);
      CHECK(k.end > k.begin);
      end = k.end;
      busy += k.end - k.begin;
    }
    const double step = step_ms(s) * 1e-3;
    CHECK(busy < step);
    CHECK(end - start_of(timeline) <= step * (1 + 1e-9));
  }
}

TEST_CASE("a stream for the collectives of a group does one thing at a time, beside the others") {
  Point p = pipeline();
  p.tp = 1, p.pp = 1, p.dp = 8, p.global_batch = 8;
  p.model.layers = 48;
  const Simulation s = traced(p);
  REQUIRE(s.timeline_by_stage.size() == 1);
  std::map<std::string, double> end;
  for (const TimelineSpan& span : s.timeline_by_stage[0].spans()) {
    if (span.track.kind == Track::phase) continue;
    double& free = end[span.track.name()];
    CHECK(span.begin >= free);
    free = span.end;
  }
  CHECK(end.contains("compute"));
  CHECK(end.contains("communication dp"));
}

TEST_CASE("a receive on the second stage begins after the first has sent, and ends after it begins") {
  const Simulation s = traced(pipeline());
  const auto first = on_track(s.timeline_by_stage[0], Track::phase),
             second = on_track(s.timeline_by_stage[1], Track::phase);
  const auto receives = on_track(s.timeline_by_stage[1], Track::communication);
  std::vector<TimelineSpan> arrived;
  for (const TimelineSpan& r : receives)
    if (r.name.starts_with("receive")) arrived.push_back(r);
  REQUIRE(arrived.size() == 4);
  for (int micro = 0; micro < 4; ++micro) {
    INFO("micro batch " << micro);
    const TimelineSpan& sent = named(first, fmt::format("send activation {}", micro));
    const TimelineSpan& got = arrived[static_cast<std::size_t>(micro)];
    CHECK(got.begin >= sent.begin);
    CHECK(got.begin >= named(first, fmt::format("forward {}", micro)).end);
    CHECK(got.end > got.begin);
    CHECK(named(second, fmt::format("forward {}", micro)).end > got.end);
    // And back again.
    CHECK(named(first, fmt::format("receive gradient {}", micro)).end >
          named(second, fmt::format("backward {}", micro)).begin);
  }
}

TEST_CASE("phases are named by what is done to which micro batch, and of which chunk") {
  Point p = pipeline();
  const auto names = [](const Simulation& s, int stage) {
    std::multiset<std::string> all;
    for (const TimelineSpan& span : on_track(s.timeline_by_stage[static_cast<std::size_t>(stage)], Track::phase))
      all.insert(span.name);
    return all;
  };
  const auto plain = names(traced(p), 0);
  for (const char* name : {"forward 0", "forward 3", "backward 3", "send activation 1", "receive gradient 2",
                           "gradient sync", "optimizer"}) {
    INFO(name);
    CHECK(plain.count(name) == 1);
  }
  CHECK(plain.size() == 4 * 4 + 2);
  p.schedule = ScheduleKind::interleaved;
  p.virtual_stages = 2;
  const auto chunks = names(traced(p), 1);
  CHECK(chunks.count("forward 0") == 1);
  CHECK(chunks.count("forward 0 of chunk 1") == 1);
  CHECK(chunks.count("backward 3 of chunk 1") == 1);
}

TEST_CASE("taking a trace changes nothing") {
  const Simulation with = traced(pipeline()), without = simulated(pipeline(), "V100-SXM2-16GB");
  CHECK(step_ms(with) == step_ms(without));
  CHECK(with.result.peak_memory_by_rank_mib == without.result.peak_memory_by_rank_mib);
  CHECK(without.timeline_by_stage.empty());
}

TEST_CASE("parts of a trace that ranks wrote by themselves join to a whole file") {
  Timeline a, b, none;
  a.add(Track::phase, "forward 0", 10, 11);
  a.add(Track::compute, "odd \"name\" \\ \n", 10.5, 10.75);
  b.add(Track::compute, "matmul", 100.25, 100.5);
  const json joined =
      json::parse(chrome_file({chrome_events({0, "a", a}, start_of(a)), chrome_events({1, "b", b}, start_of(b)),
                               chrome_events({2, "none", none}, start_of(none))}));
  std::vector<json> spans;
  for (const json& e : joined.at("traceEvents"))
    if (e.at("ph") == "X") spans.push_back(e);
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].at("ts") == 0);
  CHECK(spans[0].at("dur") == 1e6);
  CHECK(spans[0].at("cat") == "phase");
  CHECK(spans[1].at("ts") == 5e5);
  CHECK(spans[1].at("name") == "odd \"name\" \\ \n");
  CHECK(spans[2].at("ts") == 0);
  CHECK(spans[2].at("pid") == 1);
  CHECK(start_of(none) == 0);
  // Ranks of one clock keep their distance.
  const std::string together = chrome_trace({{0, "a", a}, {1, "b", b}});
  CHECK_THAT(together, Contains("\"name\":\"matmul\",\"ts\":90250000.0,"));
}

TEST_CASE("a name or a label that is not UTF-8 leaves the file JSON, and times are told to the nanosecond") {
  Timeline t;
  t.add(Track::compute, "caf\xe9", 1, 1 + 1.23456789e-3);
  const json events = json::parse(chrome_trace({{0, "rank \xff", t}})).at("traceEvents");
  CHECK(events.front().at("args").at("name") == "rank \ufffd");
  CHECK(events.back().at("name") == "caf\ufffd");
  CHECK(events.back().at("dur") == 1234.568);
}

TEST_CASE("what a rank holds is a counter of a trace, by name and at its time") {
  RankTimeline rank{3, "rank 3", {}, {{2.5, {{"weights", 10}, {"activations", 1.23456}}}}};
  rank.timeline.add(Track::phase, "forward 0", 2, 3);
  const json trace = json::parse(chrome_trace({rank}));
  const auto& events = trace.at("traceEvents");
  const auto counter = std::find_if(events.begin(), events.end(), [](const json& e) { return e.at("ph") == "C"; });
  REQUIRE(counter != events.end());
  CHECK(counter->at("pid") == 3);
  CHECK(counter->at("ts") == 500000);
  CHECK(counter->at("args") == json({{"weights", 10.0}, {"activations", 1.235}}));
}
