// Every op of the CPU backend at the shapes of gpt2-345m (hidden 1024, 16 heads, sequence 1024, micro batch 1): the timed
// cases of test/ops. FLOP/s and bytes/s are those of Op::cost(): bytes that must cross the memory bus at least once.
//
// `share %` is how much of an op's time its FLOPs and bytes need: FLOPs at the rate of a large GEMM of its type, or bytes at the rate of
// `copy 64 MiB`, whichever takes longer. Exponentials are FLOPs that take longer than others. Where an op counts them, they have the rate of a
// loop that computes nothing else. All rates are measured once, before the first op.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "engine/backend/cpu/cpu_device.h"
#include "test/ops/cases.h"

namespace {

using namespace mbench;
using benchmark::State;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The case of that op and name.
const test::Case& timed_case(std::string_view op, std::string_view name) {
  for (const test::OpCases& cases : test::all_op_cases())
    for (const test::Case& c : cases.timed)
      if (cases.op == op && c.name == name) return c;
  fail(ErrorKind::internal, "ops_bench", "no case, got {} {}", op, name);
}

double measured_copy_rate() {
  cpu::CpuDevice device;
  test::Tensors tensors(device, test::Tensors::Placing{0, 0, false});
  const auto copy = timed_case("copy", "64 MiB").make(tensors);
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    copy->run(device);
    best = std::max(best, copy->cost().bytes / seconds_since(start));
  }
  return best;
}

// The type that a case's GEMMs have.
DType type_of(const std::string& name) {
  for (const DType type : {DType::bf16, DType::f16})
    if ((" " + name + " ").find(" " + std::string(name_of(type)) + " ") != std::string::npos) return type;
  return DType::f32;
}

// Seconds that an op needs at least.
double seconds_needed(const test::AnyOp& op, const std::string& name) {
  const Cost cost = op.cost();
  static const double copy_rate = measured_copy_rate();
  static std::map<DType, double> gemm_rates;
  double& rate = gemm_rates[type_of(name)];
  if (rate == 0) rate = cpu::measure_gemm_peak(type_of(name), 1);
  double exponentials = 0;
  if (op.exponentials() > 0) {
    static const double exponential_rate = cpu::measure_exponential_peak(0.5);
    exponentials = op.exponentials() / exponential_rate;
  }
  return std::max((cost.flops - op.exponentials()) / rate + exponentials, cost.bytes / copy_rate);
}

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
  const double needed = seconds_needed(*ops[0], c.name);
  std::size_t i = 0;
  const auto start = Clock::now();
  for (auto _ : state) ops[i++ % ops.size()]->run(device);
  const double took = seconds_since(start);
  using benchmark::Counter;
  const double count = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = Counter(cost.flops * count, Counter::kIsRate);
  state.counters["bytes/s"] = Counter(cost.bytes * count, Counter::kIsRate);
  state.counters["share %"] = Counter(100 * needed * count / took);
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
