#include "explain/explain.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/error.h"
#include "engine/sim/machine/machine.h"
#include "engine/sim/machine/what_if.h"
#include "explain/changes.h"
#include "explain/trace.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::sim;
using namespace mbench::explain;

namespace {

Point point_of() {
  Point p;
  p.model = find_preset("llama-3-8b", "model");
  p.seq = 8192;
  p.dp = 8;
  p.global_batch = 128;
  p.dropout = 0;
  p.precision = Precision::bf16;
  p.attention = AttentionKind::flash;
  p.device = "sim:8xH100-SXM5-80GB";
  return p;
}

PointResult result_of(double ms, double gemms = 0) {
  PointResult r;
  r.point = point_of();
  r.iteration_ms = statistics_of(std::vector<double>(20, ms));
  r.time_anatomy_ms.emplace();
  at(r.time_anatomy_ms->ms, TimePart::gemms) = gemms;
  at(r.time_anatomy_ms->ms, TimePart::host) = ms - gemms;
  r.peak_memory_mib = 1000;
  return r;
}

// A stand-in for the simulator: recompute full takes 300 ms longer and less memory, a host at half its speed 500.
std::optional<PointResult> simulate(const Point& p) {
  PointResult r = result_of(1000, 800);
  r.point = p;
  double ms = 1000;
  if (p.recompute == Recompute::full) ms += 300, r.peak_memory_mib = 600;
  if (const auto host = p.machine.find("host.speed"); host != p.machine.end() && host->second < 1.7) ms += 500;
  if (p.attention == AttentionKind::core) return std::nullopt;
  r.iteration_ms = statistics_of({ms});
  at(r.time_anatomy_ms->ms, TimePart::host) = ms - 800;
  return r;
}

MeasuredParts trace_of(const std::string& text, const TraceOptions& options = {}) {
  std::istringstream in(text);
  return read_trace(in, "a.json", options);
}

double ms_of(const MeasuredParts& parts, const std::string& name) {
  for (const PartGroup& group : parts.groups)
    if (mbench::explain::name_of(group) == name) return group.ms;
  FAIL("no part " << name);
  return 0;
}

std::string event(const char* category, const char* name, double begin, double length, const char* group = "",
                  const char* pid = "0") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": 7, "ts": {}, "dur": {}, "args": {{"stream": 7, "Process Group Description": "{}"}}}})",
      category, name, pid, begin, length, group);
}

std::string trace(const std::vector<std::string>& events) {
  return fmt::format(
      R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "x"}}], "traceEvents": [{}], "traceName": "x"}})",
      fmt::join(events, ","));
}

}  // namespace

TEST_CASE("explain: the interval is of published runs of the same kind, and of more where these are few") {
  const RatioInterval dense = interval_of({"megatron-core", false, false, false});
  CHECK(dense.rows >= 10);
  CHECK_THAT(dense.about, Contains("dense models with megatron-core on one node"));
  CHECK(dense.low < 1.02);
  CHECK(dense.high > 0.98);
  CHECK(dense.low < dense.high);
  CHECK(dense.share < 1);
  // No MoE run of torchtitan was published: those of other frameworks count.
  CHECK_THAT(interval_of({"torchtitan", true, true, false}).about, Contains("MoE models on several nodes"));
  CHECK(interval_of({"nobody's", false, true, true}).rows >= 5);
  CHECK(kind_of(point_of(), 4).many_nodes);
  CHECK_FALSE(kind_of(point_of(), 8).many_nodes);
}

TEST_CASE("explain: what is simulated nearest to the measured step comes first, and memory speaks against it") {
  PointResult measured = result_of(1500, 800);
  const PointResult expected = *simulate(point_of());
  const Run run{measured, expected, std::nullopt, 8};
  const std::vector<Suspect> suspects = shown_by_simulation(run, simulate);
  REQUIRE(suspects.size() >= 2);
  CHECK_THAT(suspects[0].what, Contains("host-bound"));
  CHECK(*suspects[0].ms == 500);
  CHECK(suspects[0].unlikely == 0);
  CHECK_THAT(suspects[1].what, Contains("recompute=full"));
  CHECK_THAT(suspects[1].shown, Contains("peak memory would be -40.0 % from the measured one"));
  // A run with the memory of recompute: that comes first, and the spec is doubted.
  measured.peak_memory_mib = 600;
  CHECK_THAT(shown_by_simulation(run, simulate)[0].what, Contains("recompute=full"));
  CHECK_THAT(shown_by_figures(run)[0].what, Contains("the spec is not this run"));
}

TEST_CASE("explain: every changed machine is one that can be, on all machines, for slower and faster steps") {
  for (const std::string& name : machine_names())
    for (const double ms : {500.0, 1500.0}) {
      INFO(name << " " << ms);
      PointResult expected = *simulate(point_of());
      expected.point.device = "sim:8x" + name;
      PointResult measured = result_of(ms);
      measured.point.device = expected.point.device;
      std::size_t changed = 0;
      suspects_of({measured, expected, std::nullopt, 8}, [&](const Point& p) {
        find_machine(name, p.machine, "test");
        changed += !p.machine.empty();
        return simulate(p);
      });
      CHECK(changed > 0);
    }
}

TEST_CASE("explain: stalls, parts and a faster step") {
  PointResult measured = result_of(1000, 800);
  std::vector<double> samples(100, 1000.0);
  for (std::size_t i = 9; i < samples.size(); i += 10) samples[i] = 6000;
  measured.iteration_ms = statistics_of(samples);
  const PointResult expected = *simulate(point_of());
  const Run run{measured, expected, std::nullopt, 8};
  const std::vector<Suspect> suspects = suspects_of(run, simulate);
  REQUIRE(!suspects.empty());
  CHECK_THAT(suspects[0].what, Contains("stalls: every 10th step"));
  CHECK(*suspects[0].ms == Approx(500));
  const std::string text = explain::explain(run, interval_of(kind_of(point_of(), 8)), "by a test", simulate);
  CHECK_THAT(text, Contains("**Slower than expected**") && Contains("| Step (ms) | 1500 | 1000 |") &&
                       Contains("To confirm:") && Contains("configs/published/modern"));
  // By part.
  PointResult slow = result_of(1400, 1200);
  const Run by_part{slow, expected, parts_of(slow), 8};
  CHECK_THAT(explain::explain(by_part, {0.9, 1.1, 10, 0.8, "runs"}, "by a test", simulate),
             Contains("| GEMMs | 1200 | 800 | +400 |"));
  CHECK_THAT(shown_by_figures(by_part)[0].what, Contains("GEMMs took longer than expected"));
  const PointResult fast = result_of(500, 400);
  CHECK_THAT(explain::explain({fast, expected, std::nullopt, 8}, {0.9, 1.1, 10, 0.8, "runs"}, "by a test", simulate),
             Contains("**Faster than expected**"));
  CHECK_THAT(
      explain::explain({expected, expected, std::nullopt, 8}, {0.9, 1.1, 10, 0.8, "runs"}, "by a test", simulate),
      Contains("**As expected**"));
}

TEST_CASE("explain: every change names a field or a figure that there is, and every part has what would confirm it") {
  for (const Change& change : changes().simulated) {
    INFO(change.what);
    CHECK(change.set.size() + change.scale.size() + change.as.size() > 0);
    CHECK(!change.confirm.empty());
    CHECK_NOTHROW(holds(change.condition, {result_of(1), result_of(1), std::nullopt, 8}));
  }
  for (int i = 0; i < kTimeParts; ++i)
    CHECK(changes().confirm_part.contains(std::string(mbench::name_of(static_cast<TimePart>(i)))));
}

TEST_CASE("trace: kernels by their names, communication where nothing computes, and what is left is the host's") {
  const MeasuredParts parts = trace_of(
      trace({event("cpu_op", "aten::mm", 0, 900), event("kernel", "nvjet_tst_128x256_64x4", 100, 400),
             event("kernel", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop", 500, 100),
             event("kernel", "ncclDevKernel_AllGather_RING_LL", 550, 150, "TENSOR_MODEL_PARALLEL_GROUP"),
             event("kernel", "void at::native::vectorized_elementwise_kernel<4, {lambda(float)#1}>", 800, 50),
             event("kernel", "multi_tensor_apply_kernel", 850, 20), event("gpu_memcpy", "Memcpy HtoD", 870, 30),
             event("user_annotation", "ProfilerStep#5", 0, 1000)}));
  CHECK(parts.step_ms == Approx(1.0));
  CHECK(ms_of(parts, "GEMMs") == Approx(0.4));
  CHECK(ms_of(parts, "attention") == Approx(0.1));
  CHECK(ms_of(parts, "tp communication") == Approx(0.1));  // from 600 on: before, attention ran
  CHECK(ms_of(parts, "elementwise") == Approx(0.05));
  CHECK(ms_of(parts, "optimizer") == Approx(0.02));
  CHECK(ms_of(parts, "copies") == Approx(0.03));
  CHECK(ms_of(parts, "host + bubble") == Approx(0.3));
  CHECK_THAT(parts.source, Contains("a step of a.json"));
}

TEST_CASE("trace: several steps, the busiest device, groups that are not said, and stages") {
  const std::vector<std::string> two = {
      event("kernel", "gemm", 0, 100), event("kernel", "gemm", 1000, 300), event("kernel", "gemm", 0, 50, "", "1"),
      event("user_annotation", "ProfilerStep#1", 0, 1000), event("user_annotation", "ProfilerStep#2", 1000, 1000)};
  CHECK(ms_of(trace_of(trace(two)), "GEMMs") == Approx(0.2));
  CHECK_THAT(trace_of(trace(two)).source, Contains("2 steps"));
  const MeasuredParts unknown = trace_of(
      trace({event("kernel", "gemm", 0, 100), event("kernel", "ncclDevKernel_AllReduce", 100, 100, "default_pg")}));
  CHECK(ms_of(unknown, "communication") == Approx(0.1));
  const MeasuredParts staged = trace_of(
      trace({event("kernel", "gemm", 0, 100), event("kernel", "ncclDevKernel_SendRecv", 100, 300, "")}), {0, true});
  CHECK(ms_of(staged, "host + bubble + pp communication") == Approx(0.3));
  // An array of events is a trace too; the steps can be said.
  const MeasuredParts bare = trace_of("[" + event("kernel", "gemm", 0, 100) + "]", {2, false});
  CHECK(bare.step_ms == Approx(0.05));
}

// As torch.profiler's export_chrome_trace writes it: metadata before the events, names of processes and threads, the profiler's own
// span, forward and backward tied by arrows, ops of the host above the kernels that they launch, a mark of each step on both.
TEST_CASE("trace: a file of PyTorch's profiler") {
  const std::string path = std::string(MBENCH_SOURCE_DIR) + "/test/fixtures/traces/kineto.json";
  std::ifstream in(path);
  const MeasuredParts parts = read_trace(in, path, {});
  CHECK_THAT(parts.source, Contains("2 steps of"));
  CHECK(parts.step_ms == Approx(2.0));
  CHECK(ms_of(parts, "GEMMs") == Approx(0.7));
  CHECK(ms_of(parts, "attention") == Approx(0.25));
  CHECK(ms_of(parts, "elementwise") == Approx(0.1));
  CHECK(ms_of(parts, "dp communication") == Approx(0.3));  // 0.5 of it, less what GEMMs hide
  CHECK(ms_of(parts, "copies") == Approx(0.05));
  CHECK(ms_of(parts, "optimizer") == Approx(0.15));
  CHECK(ms_of(parts, "host + bubble") == Approx(0.45));
}

TEST_CASE("trace: what is none is refused") {
  CHECK_THROWS_WITH(trace_of("{\"traceEvents\": []}"), Contains("no kernel of a device"));
  CHECK_THROWS_WITH(trace_of("{\"traceEvents\": ["), Contains("not JSON at byte"));
  CHECK_THROWS_WITH(trace_of("text"), Contains("not JSON"));
  CHECK_THROWS_WITH(trace_of("\x1f\x8b\x08"), Contains("compressed") && Contains("zcat a.json"));
  CHECK_THROWS_WITH(trace_of("{\"a\": " + std::string(200, '[') + "}"), Contains("inside each other"));
}
