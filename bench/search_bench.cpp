// What a search costs: floors of layouts that have their layers in common with others, and whole simulations of repeated
// shapes.
#include <benchmark/benchmark.h>

#include "engine/sim/recording/recordings.h"
#include "engine/sim/run/simulate.h"
#include "search/bounds.h"
#include "strategies/strategies.h"

namespace mbench {
namespace {

Point llama(const char* preset, std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t global_batch) {
  Point p;
  p.model = find_preset(preset, "bench");
  p.seq = 8192;
  p.global_batch = global_batch;
  p.precision = Precision::bf16;
  p.attention = AttentionKind::flash;
  p.dropout = 0;
  p.sequence_parallel = true;
  p.tp = tp, p.pp = pp, p.dp = dp;
  return p;
}

void FloorOfALayout(benchmark::State& state) {
  const sim::Machine machine = sim::find_machine("H100-SXM5-80GB", "bench");
  const search::Bounds bounds(machine);
  const Point p = llama("llama-3-70b", 8, 4, 2, 512);
  for (auto _ : state) benchmark::DoNotOptimize(bounds.lower_bound(p));
  state.counters["a second"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(FloorOfALayout)->Unit(benchmark::kMicrosecond);

void Simulations(benchmark::State& state, const Point& p) {
  const sim::Machine machine = sim::find_machine("H100-SXM5-80GB", "bench");
  const Plan plan = strategies::make_plan(p);
  for (auto _ : state) benchmark::DoNotOptimize(sim::simulate_point(p, plan, machine, static_cast<int>(p.world())));
  state.counters["a second"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// Of a layout that was recorded before, as where the search simulates what it has outlined.
void RepeatedShapes(benchmark::State& state, const Point& p) {
  const sim::Machine machine = sim::find_machine("H100-SXM5-80GB", "bench");
  const Plan plan = strategies::make_plan(p);
  sim::Recordings recordings;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        sim::simulate_point(p, plan, machine, static_cast<int>(p.world()), {.recordings = &recordings}));
  state.counters["a second"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(RepeatedShapes, llama_8b_on_8, llama("llama-3-8b", 4, 1, 2, 16))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(RepeatedShapes, llama_70b_on_64, llama("llama-3-70b", 8, 4, 2, 512))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulations, llama_8b_on_8, llama("llama-3-8b", 4, 1, 2, 16))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Simulations, llama_70b_on_64, llama("llama-3-70b", 8, 4, 2, 512))->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mbench
