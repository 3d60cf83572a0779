// A whole training step against the rate that the same process reaches on the step's own layer products: the
// gap is everything that is not a product. Both are measured in turn, so that a machine that slows down slows
// both.
//
//   step_bench                        one rank, all threads
//   mpirun -np 2 step_bench           tensor-parallel over the ranks
//   step_bench --peer=PYTHON [MODEL]  steps beside PyTorch's (peer.h), and nothing else; under mpirun a small model with dp
//   step_bench --step=POINT           one point's step, as JSON: [wall ms, CPU ms]
//
// step_gflops counts model FLOPs (full-square attention) over the step's time; gemm_gflops is FLOP-weighted
// over the forward, input-gradient and weight-gradient products of a layer's weights; ratio is their
// quotient, medians of all.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "bench/peer.h"
#include "engine/base/wait_policy.h"
#include "engine/comm/mpi/mpi_world.h"
#include "engine/ops/copy.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"
#include "engine/run/flops.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"

namespace mbench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// The layer's products of one rank on memory of their own.
class LayerProducts {
 public:
  LayerProducts(Device& device, const Point& p, DType type) : device_(device), type_(type) {
    const std::int64_t rows = p.seq * p.micro_batch;
    for (const WeightSpec& w : weights_of(layer_of(p.model, 0))) {
      if (w.meets != Meets::every_token) continue;
      const std::int64_t out = w.shape[0] / (w.role == Role::column ? p.tp : 1),
                         in = w.shape[1] / (w.role == Role::row ? p.tp : 1);
      gemms_.push_back({make({rows, in}), make({out, in}), make({rows, out})});
      flops_ += 6.0 * static_cast<double>(rows * in * out);
    }
  }
  // FLOP/s of one round.
  double run_once() {
    double seconds = 0;
    for (const auto& [x, w, y] : gemms_) {
      const double start = now();
      run(device_, ops::Matmul{ops::Matrix(x), ops::Matrix(w).t(), ops::Matrix(y)});
      run(device_, ops::Matmul{ops::Matrix(y), ops::Matrix(w), ops::Matrix(x)});
      run(device_, ops::Matmul{ops::Matrix(y).t(), ops::Matrix(x), ops::Matrix(w)});
      seconds += now() - start;
      run(device_, ops::Fill{x, 0.01f});  // values stay in range however many rounds there are
      run(device_, ops::Fill{w, 0.01f});
    }
    return flops_ / seconds;
  }

 private:
  struct Gemm {
    Tensor x, w, y;
  };
  Tensor make(const Shape& shape) {
    const Tensor t = device_.empty(shape, type_, Category::other, "bench");
    run(device_, ops::Fill{t, 0.01f});
    return t;
  }
  Device& device_;
  DType type_;
  std::vector<Gemm> gemms_;
  double flops_ = 0;
};

Point point_for(const char* model, std::int64_t seq, int ranks, AttentionKind attention, Precision precision) {
  Point p;
  p.precision = precision;
  p.model = find_preset(model, "bench");
  p.seq = seq;
  p.tp = ranks;
  p.dropout = p.model.family == "llama" ? 0 : 0.1;  // as they are trained
  p.attention = attention;
  return p;
}

void step(benchmark::State& state, const char* model, AttentionKind attention, Precision precision) {
  comm::MpiWorld world;
  const Point p = point_for(model, state.range(0), world.size(), attention, precision);
  const Plan plan = strategies::make_plan(p);
  const auto device = platform::open_device("cpu", 0);
  const auto data = train::open_data(p.data, p.model.vocab, p.seq, p.seed);
  train::Trainer trainer(plan, *device, world, data.get());
  LayerProducts gemms(*device, p, plan.precision.model);
  trainer.step();
  std::vector<double> steps, rates, ratios;
  for (auto _ : state) {
    gemms.run_once();
    const double before = gemms.run_once();
    trainer.all_ranks().barrier();
    const double start = now();
    trainer.step();
    const double seconds = trainer.all_ranks().host_max(now() - start);
    const double rate = (before + gemms.run_once()) / 2;
    const double step_rate = model_flops(p) / static_cast<double>(world.size()) / seconds;
    steps.push_back(step_rate);
    rates.push_back(rate);
    ratios.push_back(step_rate / rate);
    state.SetIterationTime(seconds);
  }
  state.counters["step_gflops"] = median(steps) * 1e-9;
  state.counters["gemm_gflops"] = median(rates) * 1e-9;
  state.counters["ratio"] = median(ratios);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1024)->Arg(512)->UseManualTime()->Iterations(3)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(step, flash, "gpt2-345m", AttentionKind::flash, Precision::f32)->Apply(sizes);
BENCHMARK_CAPTURE(step, core, "gpt2-345m", AttentionKind::core, Precision::f32)->Apply(sizes);
BENCHMARK_CAPTURE(step, llama, "llama-345m", AttentionKind::flash, Precision::f32)->Apply(sizes);
BENCHMARK_CAPTURE(step, flash_bf16, "gpt2-345m", AttentionKind::flash, Precision::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(step, llama_bf16, "llama-345m", AttentionKind::flash, Precision::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(step, flash_fp16, "gpt2-345m", AttentionKind::flash, Precision::fp16)->Apply(sizes);

// Medians of the steps of a point, without the first: wall time of the slowest rank, CPU time of this one.
StepTime time_steps(const Point& p) {
  comm::MpiWorld world;
  const Plan plan = strategies::make_plan(p);
  const auto device = platform::open_device("cpu", 0);
  const auto data = train::open_data(p.data, p.model.vocab, p.seq, p.seed);
  train::Trainer trainer(plan, *device, world, data.get());
  trainer.step();
  std::vector<double> wall, cpu;
  for (std::int64_t i = 0; i < p.iterations; ++i) {
    trainer.all_ranks().barrier();
    const double start = now();
    const std::clock_t cpu_start = std::clock();  // of all threads
    trainer.step();
    cpu.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC * 1e3);
    wall.push_back(trainer.all_ranks().host_max(now() - start) * 1e3);
  }
  return {median(wall), median(cpu)};
}

// A barrier that leaves the cores to others.
void sleep_until_all_are_here() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; !done;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace
}  // namespace mbench

int main(int argc, char** argv) {
  // Threads wait as a sweep's ranks do, unless told otherwise, so that both print the same. What it costs: docs/numbers.md. The
  // runtime reads it before main.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr) {
    for (const auto& [name, value] : mbench::kLookThenSleep) setenv(name, value, 1);
    execv("/proc/self/exe", argv);
  }
  mbench::comm::MpiSession session;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  constexpr std::string_view one = "--step=", peer = "--peer=";
  if (argc >= 2 && std::string_view(argv[1]).starts_with(one)) {
    const auto point = mbench::point_from_json(nlohmann::json::parse(argv[1] + one.size()), "--step");
    const mbench::StepTime time = mbench::time_steps(point);
    fmt::print("[{}, {}]\n", time.wall_ms, time.cpu_ms);
    return 0;
  }
  if (argc >= 2 && std::string_view(argv[1]).starts_with(peer)) {
    const std::string python = argv[1] + peer.size();
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks == 1)
      mbench::print_peers(python, argc > 2 ? argv[2] : "");
    else
      mbench::print_data_parallel_peer(python, ranks, rank == 0, mbench::time_steps, mbench::sleep_until_all_are_here);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
