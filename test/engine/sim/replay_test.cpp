// A replay of recorded micro batches gives what running every op gives, to the last bit.
#include "engine/sim/play/replay.h"

#include <algorithm>
#include <optional>

#include "engine/plan/framework.h"
#include "engine/point/result.h"
#include "engine/run/trace.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/recording/recordings.h"
#include "engine/sim/run/counting.h"
#include "sweeps/spec/spec.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/engine/sim/threaded/threaded_run.h"
#include "test/graphs.h"
#include "test/support/machine_for.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

// All that a simulation tells, or why it tells nothing. Doubles are written with all their digits.
std::string reported(const Point& p, const Machine& machine, const Framework& framework, bool replay,
                     sim::Recordings* recordings = nullptr) {
  try {
    const Plan plan = plan_on(framework, p);
    const Simulation s = replay ? simulate_point(p, plan, machine, 1 << 20, {.recordings = recordings})
                                : run_in_threads(p, plan, machine, 1 << 20);
    std::string text = result_to_json(s.result).dump();
    for (std::size_t i = 0; i < s.peak_by_stage.size(); ++i) {
      text += fmt::format("\n{} of {}:", s.peak_by_stage[i].total, s.reserved_by_stage[i]);
      for (const std::size_t bytes : s.peak_by_stage[i].by_category) text += fmt::format(" {}", bytes);
    }
    return text + fmt::format("\n{}", s.total_reserved);
  } catch (const Error& e) {
    return fmt::format("{}: {}", static_cast<int>(e.kind()), e.what());
  }
}

// Layouts of which some rank's micro batches are each recorded: some gradients of weights are deferred, tensors belong to several micro
// batches, or weights in f32 arrive from their owners during the first forward, which casts them.
bool records_each(const sim::Recording& recording) {
  return std::ranges::any_of(recording.step_events, [](const auto& rank) {
    return std::ranges::any_of(rank.second.actions, [](const auto& a) { return !a.second.each.empty(); });
  });
}

// With the engine's own allocator: PyTorch's is replayed over more steps than are run (allocator/replayed_caching_test.cpp).
void check_same(const Point& p, const Machine& machine, Framework framework) {
  framework.memory.caching = false;
  const std::string run = reported(p, machine, framework, false), replayed = reported(p, machine, framework, true);
  CHECK(replayed == run);
  // The same by a recording that was made on a machine with other memory.
  sim::Recordings recordings;
  Machine larger = machine;
  larger.device.memory_bytes *= 2;
  reported(p, larger, framework, true, &recordings);
  CHECK(reported(p, machine, framework, true, &recordings) == run);
}

// What each stage's tracks show, span by span; those that begin together in any order.
std::vector<std::string> spans_of(const Point& p, const Machine& machine, const Framework& framework, bool replay) {
  std::vector<std::string> all;
  const Plan plan = plan_on(framework, p);
  const Simulation s = replay ? simulate_point(p, plan, machine, 1 << 20, {.trace = true})
                              : run_in_threads(p, plan, machine, 1 << 20, true);
  for (std::size_t stage = 0; stage < s.timeline_by_stage.size(); ++stage) {
    const double zero = start_of(s.timeline_by_stage[stage]);
    for (const TimelineSpan& span : s.timeline_by_stage[stage].spans())
      all.push_back(
          fmt::format("{} {} {}: {} to {}", stage, span.track.name(), span.name, span.begin - zero, span.end - zero));
  }
  std::sort(all.begin(), all.end());
  return all;
}

// The time of a step and the peak of memory are had without the allocator too.
void check_outline(const Point& p, const Machine& machine, const Framework& framework) {
  const Plan plan = plan_on(framework, p);
  const Outline outline = outline_point(p, plan, machine, 1 << 20);
  const Simulation s = simulate_point(p, plan, machine, 1 << 20);
  CHECK(outline.seconds * 1e3 == s.result.iteration_ms->mean);
  const auto less = [](const MemoryUse& a, const MemoryUse& b) { return a.total < b.total; };
  const MemoryUse& fullest = *std::max_element(s.peak_by_stage.begin(), s.peak_by_stage.end(), less);
  CHECK(outline.peak.total == fullest.total);
  CHECK(outline.peak.by_category == fullest.by_category);
}

Point pipeline(std::int64_t pp, std::int64_t micro_batches) {
  Point p;
  p.model = {"small", "gpt", 16, 256, 4, 1024, 1000, 256};
  p.seq = 256;
  p.precision = Precision::bf16;
  p.pp = pp, p.micro_batch = 1, p.global_batch = micro_batches;
  return p;
}

}  // namespace

TEST_CASE("a replay of every layout is the run of it, bit by bit, in time and memory") {
  const std::string path = MBENCH_SOURCE_DIR "/test/mpi/layouts.json";
  const nlohmann::json table = parse_json(read_text_file(path), path);
  const Machine a100 = find_machine("A100-SXM4-80GB", "test"), h100 = find_machine("H100-SXM5-80GB", "test");
  const Framework hosts[] = {find_framework("mbench", "test"), find_framework("megatron-2022", "test"),
                             find_framework("megatron-core", "test")};
  int each = 0;
  std::size_t number = 0;  // by which the frameworks take turns
  for (const nlohmann::json& row : table.at("layouts")) {
    nlohmann::json fields = table.at("common");
    fields.merge_patch(row);
    fields.erase("name");
    Point p = point_from_json(fields, path);
    const Machine& machine = machine_for(p, p.precision == Precision::fp8 ? h100 : a100);
    for (const std::int64_t more : {1, 5}) {  // as many micro batches, so that some lie between the first and the last
      p.global_batch *= more;
      const Framework& host = hosts[number++ % std::size(hosts)];
      INFO(row.dump() << ", global batch " << p.global_batch << ", framework " << host.name);
      check_same(p, machine, host);
      check_outline(p, machine, host);
      each += records_each(sim::record(strategies::make_plan(p), 8, nullptr, nullptr)) ? 1 : 0;
    }
  }
  CHECK(each > 10);
}

TEST_CASE("a trace is a replay that keeps its spans: those of the run, of every layout") {
  const std::string path = MBENCH_SOURCE_DIR "/test/mpi/layouts.json";
  const nlohmann::json table = parse_json(read_text_file(path), path);
  const Machine a100 = find_machine("A100-SXM4-80GB", "test"), h100 = find_machine("H100-SXM5-80GB", "test");
  const Framework host = find_framework("megatron-core", "test");
  for (const nlohmann::json& row : table.at("layouts")) {
    nlohmann::json fields = table.at("common");
    fields.merge_patch(row);
    fields.erase("name");
    const Point p = point_from_json(fields, path);
    const Machine& machine = machine_for(p, p.precision == Precision::fp8 ? h100 : a100);
    INFO(row.dump());
    const auto replayed = spans_of(p, machine, host, true);
    CHECK(replayed.size() > 50);
    CHECK(replayed == spans_of(p, machine, host, false));
  }
}

TEST_CASE("a replay of long pipelines, on nodes that cut them anyhow, is the run of them") {
  Machine machine = find_machine("A100-SXM4-80GB", "test");
  const Framework framework = find_framework("megatron-2022", "test");
  for (const int per_node : {1, 3, 8}) {
    machine.node.devices = per_node;
    for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved})
      for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
        for (const Recompute recompute : {Recompute::none, Recompute::full}) {
          Point p = pipeline(4, 48);
          p.schedule = schedule;
          p.virtual_stages = schedule == ScheduleKind::interleaved ? 2 : 1;
          p.framework = keeps(graph);
          p.recompute = recompute;
          INFO(per_node << " a node, " << name_of(schedule) << ", " << name_of(graph) << ", " << name_of(recompute));
          check_same(p, machine, framework);
          check_outline(p, machine, framework);
          p.tp = 2, p.dp = 2, p.sequence_parallel = true;
          p.global_batch *= 2;
          check_same(p, machine, framework);
        }
  }
}

TEST_CASE("a replay of many micro batches on one stage is the run of them") {
  for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (const Graph graph : {Graph::eager, Graph::fused, Graph::megatron_core})
      for (const std::int64_t micro_batches : {1, 2, 3, 4, 40}) {
        Point p = pipeline(1, micro_batches);
        p.schedule = schedule;
        p.framework = keeps(graph);
        INFO(name_of(schedule) << ", " << name_of(graph) << ", " << micro_batches << " micro batches");
        check_same(p, find_machine("A100-SXM4-80GB", "test"), find_framework("mbench", "test"));
        check_outline(p, find_machine("A100-SXM4-80GB", "test"), find_framework("mbench", "test"));
      }
}

TEST_CASE("a replay of stages that hold different numbers of layers is the run of them") {
  // 405 thousand million parameters: 126 layers on 16 stages, 8 or 7 each.
  Point p;
  p.model = {"large", "gpt", 126, 16384, 128, 65536, 128256, 4096};
  p.seq = 4096;
  p.precision = Precision::bf16;
  p.attention = AttentionKind::flash;
  p.dropout = 0;
  p.sequence_parallel = true;
  p.tp = 8, p.pp = 16, p.dp = 8, p.micro_batch = 1, p.global_batch = 8 * 40;
  check_same(p, find_machine("H200-SXM5-141GB", "test"), find_framework("mbench", "test"));
}

TEST_CASE("a replay of published runs is the run of them") {
  for (const char* name : {"megatron-345m-bert-tp2-pp2", "megatron-345m-gpt2-tp8-pp1", "megatron-530b-a100"}) {
    sweeps::SpecOptions options;
    options.path = fmt::format("{}/configs/published/{}.json", MBENCH_SOURCE_DIR, name);
    options.device = "sim:4096xA100-SXM4-80GB";
    const Machine machine = find_machine("A100-SXM4-80GB", "test");
    const sweeps::Spec spec = sweeps::read_spec(options);
    for (std::size_t i = 0; i < spec.points.size(); i += 7) {
      INFO(spec.points[i].label);
      check_same(spec.points[i].point, machine, *framework_of(spec.points[i].point.framework));
    }
  }
}

// Which rank has no room; nothing where none has.
std::optional<int> full_rank(const std::string& text) {
  const std::size_t at = text.find("[rank ");
  if (at == std::string::npos) return std::nullopt;
  return std::stoi(text.substr(at + 6));
}

TEST_CASE("a replay is out of memory where the run is, with the same words; of several ranks it names the first") {
  const Machine machine = find_machine("A100-SXM4-80GB", "test");
  const Framework framework = find_framework("mbench", "test");
  Point p = pipeline(4, 32);
  const Simulation fits = simulate_point(p, plan_on(framework, p), machine, 4);
  for (std::size_t stage = 0; stage < 4; ++stage)
    for (const std::size_t less :
         {std::size_t{0}, std::size_t{1}, fits.reserved_by_stage[stage] / 3, fits.reserved_by_stage[stage] * 9 / 10}) {
      p.memory_limit = fits.reserved_by_stage[stage] - less;
      INFO(p.memory_limit);
      const std::string run = reported(p, machine, framework, false), replayed = reported(p, machine, framework, true);
      INFO(run << "\n" << replayed);
      CHECK(full_rank(run).has_value() == full_rank(replayed).has_value());
      if (replayed != run) CHECK(full_rank(replayed).value() < full_rank(run).value());
    }
}

TEST_CASE("a replay lacks host memory where the run does, with the same words") {
  Machine machine = find_machine("A100-SXM4-80GB", "test");
  const Framework framework = find_framework("mbench", "test");
  Point p = pipeline(1, 4);
  int lacks = 0;
  for (const bool optimizer : {true, false}) {
    p.offload = optimizer ? Offload::optimizer : Offload::none;
    p.offload_activations = optimizer ? OffloadedActivations() : OffloadedActivations{.layers = 1, .parts = {}};
    const std::uint64_t needed = simulate_point(p, plan_on(framework, p), machine, 8).host_reserved_by_stage.at(0);
    for (const std::uint64_t has : {needed, needed - 1, needed * 2 / 3, needed / 100}) {
      // Of a node of one rank.
      machine.node.devices = 1, machine.host.memory_bytes = has;
      INFO(optimizer << ": " << has << " of " << needed);
      const std::string run = reported(p, machine, framework, false);
      CHECK(reported(p, machine, framework, true) == run);
      lacks += full_rank(run) ? 1 : 0;
    }
    machine.host.memory_bytes = find_machine("A100-SXM4-80GB", "test").host.memory_bytes;
  }
  CHECK(lacks >= 6);
}

TEST_CASE(
    "a replay counts the steady state: where the first step leaves what later ones find, these peak higher, and take "
    "as long") {
  const Machine machine = find_machine("A100-SXM4-80GB", "test");
  const Framework framework = find_framework("mbench", "test");
  for (const std::int64_t micro_batches : {1, 2, 4, 12}) {
    Point p = pipeline(4, micro_batches);
    p.schedule = ScheduleKind::gpipe;
    p.framework = keeps(Graph::megatron_core);
    INFO(micro_batches << " micro batches");
    check_same(p, machine, framework);
    const Plan plan = strategies::make_plan(p);
    const auto first = sim::record_alike(plan, 0, nullptr, nullptr);
    const sim::Recording steady = sim::record(plan, 0, nullptr, nullptr);
    REQUIRE(first);
    const auto once = sim::replay_memory(plan, *first, 0), again = sim::replay_memory(plan, steady, 0);
    const auto counted = sim::count_memory(plan, steady);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      CHECK_FALSE(first->step_events.at(first->classes.classes[stage].kind).later);
      CHECK(once[stage].peak.total < again[stage].peak.total);
      CHECK(counted[stage].by_category == again[stage].peak.by_category);
    }
  }
  // A fused graph leaves nothing behind: a step is as the first one.
  const sim::Recording fused = sim::record(strategies::make_plan(pipeline(4, 4)), 0, nullptr, nullptr);
  for (const auto& [kind, step_events] : fused.step_events) CHECK_FALSE(step_events.later);
}

TEST_CASE("a forecast of memory is what a simulation without time takes") {
  Point p = pipeline(4, 24);
  p.framework = keeps(Graph::eager);
  const Plan plan = plan_on(find_framework("mbench", "test"), p);
  const MemoryForecast forecast = forecast_memory(plan);
  const Simulation run = run_in_threads(p, plan, find_machine("A100-SXM4-80GB", "test"), 4);
  REQUIRE(forecast.peak_by_stage.size() == 4);
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(forecast.peak_by_stage[s].by_category == run.peak_by_stage[s].by_category);
    CHECK(forecast.reserved_by_stage[s] == run.reserved_by_stage[s]);
  }
  CHECK(forecast.total_reserved == run.total_reserved);
}
