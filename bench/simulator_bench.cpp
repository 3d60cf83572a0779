// What simulation costs: the engine's own host time for each op (on a device that only counts: checks, meter,
// allocator, modules), and whole simulated steps, small and large.
#include <benchmark/benchmark.h>

#include "engine/platform/registry.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/simulate.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"

namespace mbench {
namespace {

Point gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t seq) {
  Point p;
  p.model = {.name = "custom",
             .family = "gpt",
             .layers = layers,
             .hidden = hidden,
             .heads = heads,
             .ffn = 4 * hidden,
             .vocab = 128256,
             .positions = seq};
  p.seq = seq;
  p.precision = Precision::bf16;
  return p;
}

void HostTimeOfAnOp(benchmark::State& state, const char* preset) {
  Point p = gpt(24, 1024, 16, 1024);
  p.framework = {.preset = preset, .host = "mbench"};
  p.global_batch = 8;
  const Plan plan = strategies::make_plan(p);
  const auto device = sim::open_counting_device(0);
  const auto world = sim::lone_world(0, 1);
  train::Trainer trainer(plan, *device, *world, nullptr);
  trainer.step();
  device->meter().reset();
  for (auto _ : state) trainer.step();
  state.counters["per op"] = benchmark::Counter(static_cast<double>(device->meter().launches),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(HostTimeOfAnOp, eager, "megatron-2022")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(HostTimeOfAnOp, fused, "mbench")->Unit(benchmark::kMillisecond);

void Simulate(benchmark::State& state, const Point& point, const char* machine_name) {
  const sim::Machine machine = sim::find_machine(machine_name, "bench");
  const Plan plan = strategies::make_plan(point);
  for (auto _ : state) {
    const sim::Simulation s = sim::simulate_point(point, plan, machine, static_cast<int>(point.world()));
    state.counters["simulated s"] = s.result.iteration_ms->mean * 1e-3;
  }
}

Point small_point() {
  Point p = gpt(24, 1024, 16, 1024);
  p.tp = 4, p.pp = 2, p.micro_batch = 4, p.global_batch = 16;
  return p;
}

// 405 thousand million parameters on 1024 devices, 128 micro batches.
Point large_point() {
  Point p = gpt(126, 16384, 128, 4096);
  p.tp = 8, p.pp = 16, p.dp = 8, p.global_batch = 1024;
  p.sequence_parallel = true;
  p.attention = AttentionKind::flash;
  p.dropout = 0;
  return p;
}
BENCHMARK_CAPTURE(Simulate, gpt_345m_8_devices, small_point(), "A100-SXM4-80GB")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Simulate, gpt_405b_1024_devices, large_point(), "H200-SXM5-141GB")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// The points of configs/gpt345m.json, one after the other: plan and simulation.
void SimulateASweep(benchmark::State& state) {
  const sim::Machine machine = sim::find_machine("V100-SXM2-16GB", "bench");
  std::vector<Point> points;
  for (const auto& [tp, pp] : {std::pair{4, 2}, std::pair{8, 1}})
    for (const std::int64_t seq : {512, 1024, 1536, 2048})
      for (const bool sequence_parallel : {false, true})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          if (sequence_parallel && recompute == Recompute::full) continue;
          Point p = small_point();
          p.precision = Precision::fp16;
          p.framework = {.preset = "megatron-2022", .host = "mbench"};
          p.tp = tp, p.pp = pp, p.seq = seq;
          p.model.positions = 2048;
          p.sequence_parallel = sequence_parallel;
          p.recompute = recompute;
          points.push_back(p);
        }
  for (auto _ : state)
    for (const Point& p : points) {
      try {
        benchmark::DoNotOptimize(sim::simulate_point(p, strategies::make_plan(p), machine, 8));
      } catch (const OutOfMemory&) {  // a row of the table as well
      }
    }
  state.counters["points"] = static_cast<double>(points.size());
}
BENCHMARK(SimulateASweep)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mbench
