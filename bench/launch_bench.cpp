// What the engine's host code adds to a kernel launch. Nothing here waits while it is timed: ops are enqueued
// in batches shorter than a stream's queue, each batch beside one of bare CUDA calls, and the medians of both
// and of their difference are printed as JSON.
//
//   launch_bench                      on the first GPU
//   launch_bench --device counting    on a device that only counts: the front's share alone, anywhere
//
// kinds:  ops of so many kernels each, through the front (check, meter, virtual table) and the backend. `raw_ns` is
//         a launch of an empty kernel without arguments, or a product of the same size by cuBLASLt; `overhead_ns`
//         the median of (engine - raw) over the batches, per launch.
// steps:  whole training steps of a tiny model, their wall time over the ops they ran: modules, allocator and
//         schedule are in it, and so is every wait for the device, so that on a GPU it is an upper bound.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "bench/raw_launch.h"
#include "engine/platform/registry.h"
#include "engine/sim/run/counting.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"
#include "test/ops/cases.h"

namespace mbench::bench {
namespace {

// Of the bare product: as the one of test/ops/matmul_cases.cpp.
constexpr std::int64_t kCols = 256;

struct Options {
  std::string device = "cuda";
  int batches = 101, steps = 20;
  int launches = 200;  // in a batch. A stream's queue holds about 1024; beyond them a launch waits for the GPU
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

// Nanoseconds a call, over one batch.
template <class Enqueue>
double time_batch(int launches, Enqueue&& enqueue) {
  const double begin = now();
  for (int i = 0; i < launches; ++i) enqueue();
  return (now() - begin) * 1e9 / launches;
}

// A product is held against a bare product, every other op against an empty kernel.
nlohmann::ordered_json measure(Device& device, RawLaunches* raw, const test::Case& c, const Options& options) {
  const bool gemm = c.name == ops::Matmul::name;
  const auto bare = [&] { gemm ? raw->gemm() : raw->kernel(); };
  test::Tensors tensors(device, {0, 0, false});
  const auto op = c.make(tensors);
  std::vector<double> own, floor, difference;
  for (int i = -3; i < options.batches; ++i) {  // the first warm up: plans, scratch memory, caches
    const double engine = time_batch(options.launches, [&] { op->run(device); }) / c.kernels;
    device.synchronize();
    double least = 0;
    if (raw) {
      least = time_batch(options.launches, bare);
      raw->wait();
    }
    if (i < 0) continue;
    own.push_back(engine);
    floor.push_back(least);
    difference.push_back(engine - least);
  }
  nlohmann::ordered_json json{{"name", c.name}, {"kernels", c.kernels}, {"ns", median(own)}};
  json["raw"] = gemm ? "cublasLtMatmul" : "empty kernel";
  json["raw_ns"] = raw ? nlohmann::ordered_json(median(floor)) : nullptr;
  json["overhead_ns"] = raw ? nlohmann::ordered_json(median(difference)) : nullptr;
  return json;
}

nlohmann::ordered_json measure_steps(const Options& options, const char* framework) {
  Point p;
  p.model = find_preset("gpt-bytes-tiny", "launch_bench");
  p.seq = 64, p.global_batch = 4, p.dropout = 0.1;
  p.precision = Precision::bf16;
  p.framework.preset = framework;
  const Plan plan = strategies::make_plan(p);
  const auto device =
      options.device == "counting" ? sim::open_counting_device(0) : platform::open_device(options.device, 0);
  const auto world = sim::lone_world(0, 1);
  const auto data = device->real() ? train::open_data(p.data, p.model.vocab, p.seq, p.seed) : nullptr;
  train::Trainer trainer(plan, *device, *world, data.get());
  for (int i = 0; i < 3; ++i) trainer.step();
  std::vector<double> per_op;
  std::uint64_t launches = 0;
  for (int i = 0; i < options.steps; ++i) {
    device->meter().reset();
    device->synchronize();
    const double begin = now();
    trainer.step();
    device->synchronize();
    launches = device->meter().launches;
    per_op.push_back((now() - begin) * 1e9 / static_cast<double>(launches));
  }
  return {{"framework", framework}, {"ops", launches}, {"ns_per_op", median(per_op)}};
}

nlohmann::ordered_json measure_all(const Options& options) {
  const bool counting = options.device == "counting";
  const auto device = counting ? sim::open_counting_device(0) : platform::open_device(options.device, 0);
  const auto raw = counting ? nullptr : open_raw_launches(kCols);
  check(counting || raw, "launch_bench", "bare launches are missing beside the device {}", device->name());
  nlohmann::ordered_json json{{"schema", "mbench.launch/1"},
                              {"device", counting ? "counting" : device->name()},
                              {"launches_in_a_batch", options.launches},
                              {"batches", options.batches}};
  std::vector<double> times, overheads;
  for (const test::OpCases& op : test::all_op_cases())
    for (const test::Case& c : op.enqueued) {
      const auto row = measure(*device, raw.get(), c, options);
      times.push_back(row.at("ns").get<double>());
      if (raw) overheads.push_back(row.at("overhead_ns").get<double>());
      json["kinds"].push_back(row);
    }
  for (const char* framework : {"megatron-2022", "mbench"}) json["steps"].push_back(measure_steps(options, framework));
  json["median_ns"] = median(times);
  json["median_overhead_ns"] = raw ? nlohmann::ordered_json(median(overheads)) : nullptr;
  return json;
}

}  // namespace
}  // namespace mbench::bench

int main(int argc, char** argv) {
  using namespace mbench;
  using namespace mbench::platform;
  using namespace mbench::sim;
  using namespace mbench::train;
  bench::Options options;
  CLI::App app("What the engine's host code adds to a kernel launch, as JSON.");
  app.add_option("--device", options.device, "cuda (default), or counting: a device that only counts")
      ->check(CLI::IsMember({"cuda", "counting"}));
  app.add_option("--batches", options.batches, "Batches of each kind of op")->check(CLI::Range(1, 100000));
  app.add_option("--launches", options.launches, "Launches in a batch")->check(CLI::Range(1, 1000));
  app.add_option("--steps", options.steps, "Training steps of each graph")->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{}\n", bench::measure_all(options).dump(1));
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "launch_bench: {}\n", e.what());
    return e.kind() == ErrorKind::unsupported ? 2 : 1;
  }
}
