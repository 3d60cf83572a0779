// Every op of the CPU backend at the shapes of gpt2-345m (hidden 1024, 16 heads, sequence 1024, micro batch 1): the timed
// cases of test/ops. FLOP/s and bytes/s are those of Op::cost(): bytes that must cross the memory bus at least once. The
// floor of an op is its bytes at the rate of `copy 64 MiB`, or its FLOPs at the rate of `gemm_peak` of its type.
#include <benchmark/benchmark.h>

#include <deque>

#include "engine/backend/cpu/cpu_device.h"
#include "test/ops/cases.h"

namespace {

using namespace mbench;
using benchmark::State;

// Times an op on enough copies of its tensors that none is still in a cache when its turn comes again.
void measure(State& state, const test::Case& c) {
  cpu::CpuDevice device;
  std::deque<test::Tensors> tensors;
  std::vector<std::unique_ptr<test::AnyOp>> ops;
  const auto add = [&] { ops.push_back(c.make(tensors.emplace_back(device, test::Tensors::Placing{0, 0, false}))); };
  add();
  const Cost cost = ops[0]->cost();
  constexpr double kPool = 192.0 * (1 << 20);
  while (static_cast<double>(ops.size()) * cost.bytes < kPool && ops.size() < 64) add();
  for (const auto& op : ops) op->run(device);
  std::size_t i = 0;
  for (auto _ : state) ops[i++ % ops.size()]->run(device);
  using benchmark::Counter;
  const double count = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = Counter(cost.flops * count, Counter::kIsRate);
  state.counters["bytes/s"] = Counter(cost.bytes * count, Counter::kIsRate);
}

void gemm_peak(State& state, DType type) {
  for (auto _ : state) state.counters["FLOP/s"] = cpu::measure_gemm_peak(type, 1);
}

}  // namespace

int main(int argc, char** argv) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    benchmark::RegisterBenchmark(("gemm_peak " + std::string(name_of(type))).c_str(), gemm_peak, type)
        ->Iterations(1)
        ->UseRealTime();
  for (const test::OpCases& op : test::all_op_cases())
    for (const test::Case& c : op.timed)
      benchmark::RegisterBenchmark((op.op + " " + c.name).c_str(), [&c](State& s) { measure(s, c); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.4);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
