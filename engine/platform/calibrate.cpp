#include "engine/platform/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/ops/add.h"
#include "engine/ops/attention.h"
#include "engine/ops/copy.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/random_normal.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"

namespace mbench::platform {
namespace {

using nlohmann::ordered_json;

// Runs ops on the device, each for a share of the time, and reports the least seconds of a call.
class Stopwatch {
 public:
  Stopwatch(Device& device, double seconds, std::function<void()> between)
      : device_(device), seconds_(seconds), between_(std::move(between)) {}

  double least(const std::function<void()>& call) {
    if (between_) between_();
    call();  // touches the memory, starts the threads
    double best = 1e300;
    const double begin = device_.synchronize();
    double now = begin;
    do {
      call();
      const double after = device_.synchronize();
      best = std::min(best, after - now);
      now = after;
    } while (now - begin < seconds_);
    return best;
  }

 private:
  Device& device_;
  double seconds_;
  std::function<void()> between_;
};

Tensor filled(Device& device, const Shape& shape, DType dtype) {
  const Tensor t = device.empty(shape, dtype, Category::workspace, "calibration");
  run(device, ops::Fill{t, 0.5f});
  return t;
}

// Of normal draws: on operands that are all alike the circuits of a GPU change state less, take less power, and are clocked higher than
// in training.
Tensor drawn(Device& device, const Shape& shape, DType dtype, std::uint64_t seed) {
  const Tensor t = device.empty(shape, DType::f32, Category::workspace, "calibration");
  run(device, ops::RandomNormal{t, 1, {seed, 0, 0}, shape.cols()});
  if (dtype == DType::f32) return t;
  const Tensor narrow = device.empty(shape, dtype, Category::workspace, "calibration");
  run(device, ops::Copy{t, narrow});
  return narrow;
}

// Large enough that packing and threads cost little, small enough to be quick.
constexpr std::int64_t kGemm = 1536, kGpuGemm = 8192;
constexpr double kGpuSettling = 1;  // until power and clock are those of a long run

// `settling`: seconds of products before the first that counts.
double gemm_flops(Device& device, Stopwatch& watch, DType dtype, std::int64_t n = kGemm, double settling = 0) {
  const Tensor a = drawn(device, {n, n}, dtype, 1), b = drawn(device, {n, n}, dtype, 2),
               c = filled(device, {n, n}, dtype);
  const ops::Matmul gemm{ops::Matrix(a), ops::Matrix(b), ops::Matrix(c)};
  for (const double begin = device.synchronize(); settling > 0 && device.synchronize() - begin < settling;)
    run(device, gemm);
  return gemm.cost().flops / watch.least([&] { run(device, gemm); });
}

// Bytes a second of a sum of two large tensors, as the op's cost counts them.
double bandwidth(Device& device, Stopwatch& watch, std::int64_t elements) {
  const Shape shape{elements};
  const Tensor a = filled(device, shape, DType::f32), b = filled(device, shape, DType::f32),
               c = filled(device, shape, DType::f32);
  const ops::Add sum{a, b, c};
  return sum.cost().bytes / watch.least([&] { run(device, sum); });
}

double least_op_seconds(Device& device, Stopwatch& watch) {
  const Tensor a = filled(device, {4096}, DType::f32);
  constexpr int calls = 100;
  return watch.least([&] {
    for (int i = 0; i < calls; ++i) run(device, ops::Add{a, a, a});
  }) / calls;
}

struct AttentionFlops {
  double forward = 0, backward = 0;
};

AttentionFlops attention_flops(Device& device, Stopwatch& watch) {
  const std::int64_t heads = 8, seq = 512, d = 64;
  const auto view = [&](const Tensor& t) { return ops::Matrix(t, seq, d, heads * d, 0, d); };
  const auto make = [&] { return filled(device, {seq, 1, heads * d}, DType::f32); };
  const Tensor q = make(), k = make(), v = make(), out = make(), dout = make(), dq = make(), dk = make(), dv = make();
  const Tensor lse = filled(device, {1, heads, seq}, DType::f32);
  ops::AttentionShape shape;
  shape.batch = 1, shape.heads = heads, shape.seq = seq, shape.head_dim = d;
  shape.scale = 1 / std::sqrt(static_cast<float>(d));
  shape.causal = true;
  shape.map.heads = heads;
  const ops::Attention forward{shape, view(q), view(k), view(v), view(out), lse, Tensor()};
  const ops::AttentionGrad backward{shape, view(dout), view(q),  view(k),  view(v), view(out),
                                    lse,   Tensor(),   view(dq), view(dk), view(dv)};
  return {forward.cost().flops / watch.least([&] { run(device, forward); }),
          backward.cost().flops / watch.least([&] { run(device, backward); })};
}

// Four digits: more than a repeated measurement keeps.
ordered_json figure(double value, const std::string& source) {
  return {{"value", std::stod(fmt::format("{:.4g}", value))}, {"source", source}};
}

ordered_json unmeasured_network() {
  return {{"name", "10 Gb/s Ethernet"},
          {"gbps_per_device", figure(1, "estimate: not measured")},
          {"latency_us", figure(30, "estimate: not measured")}};
}

}  // namespace

ordered_json calibrate_cpu(const CalibrationOptions& options) {
  const auto device = open_device("cpu", 0);
  Stopwatch watch(*device, options.seconds / 8, options.between);
  // For an estimate that a person waits for, tensors that are quickly filled: larger than caches, but not by much.
  const bool hurried = options.seconds < 0.5;
  const std::int64_t gemm = hurried ? kGemm / 2 : kGemm, sum_mib = hurried ? 32 : 128;
  const std::string measured = fmt::format("measured by mbench calibrate on {}", options.measured_on);
  const std::string estimate = "estimate: ";
  const auto peak_of = [&](Precision precision) {
    if (options.between) options.between();
    return measured_peak_flops(precision, options.seconds / 8);
  };
  const double f32_peak = peak_of(Precision::f32), bf16_peak = peak_of(Precision::bf16),
               f16_peak = peak_of(Precision::fp16);
  const double f32 = gemm_flops(*device, watch, DType::f32, gemm), bf16 = gemm_flops(*device, watch, DType::bf16, gemm),
               f16 = gemm_flops(*device, watch, DType::f16, gemm);
  const double bytes = bandwidth(*device, watch, sum_mib << 18);
  const double least = least_op_seconds(*device, watch);
  const AttentionFlops attention = attention_flops(*device, watch);
  const auto share = [&](double flops, double peak) { return figure(std::min(1.0, flops / peak), measured); };

  ordered_json m;
  m["name"] = "cpu";
  m["description"] = options.measured_on + "; the ranks of a node share its cores";
  m["immediate"] = true;
  m["device"] = {
      {"peak_tflops",
       {{"f32", figure(f32_peak * 1e-12, measured + ": f32 GEMM")},
        {"bf16", figure(bf16_peak * 1e-12, fmt::format("{}: bf16 GEMM ({})", measured, bf16_arithmetic()))},
        {"fp16", figure(f16_peak * 1e-12, measured + ": fp16 GEMM, operands converted to f32")}}},
      {"memory_mib", figure(static_cast<double>(options.memory_bytes >> 20),
                            "the operating system's figure on " + options.measured_on)},
      {"memory_outside_allocator_mib", figure(512, estimate + "operating system and the program itself")},
      {"memory_gbps", figure(bytes * 1e-9, fmt::format("{}: sum of two tensors of {} MiB", measured, sum_mib))},
      {"memory_efficiency", figure(1, "memory_gbps is what was reached")},
      {"kernel_latency_us", figure(least * 1e6, measured + ": sum of two tensors of 16 KiB")},
      {"multiprocessors", figure(options.cores, "cores of " + options.measured_on)},
      {"communication_multiprocessors", figure(std::min(1, options.cores), "a core runs the rank's MPI calls")}};
  m["gemm"] = {
      {"sustained", {{"f32", share(f32, f32_peak)}, {"bf16", share(bf16, bf16_peak)}, {"fp16", share(f16, f16_peak)}}},
      {"tiles", ordered_json::array({{{"m", 32}, {"n", 32}, {"efficiency", figure(1, "the only one")}}})},
      {"k_overhead", figure(16, estimate + "packing of a panel")}};
  m["attention"] = {{"forward", share(attention.forward, f32_peak)}, {"backward", share(attention.backward, f32_peak)}};
  m["host"] = {{"launch_us", figure(0.01, estimate + "a call, no launch")},
               {"synchronize_us", figure(0.01, estimate + "nothing to wait for")},
               {"speed", figure(1, estimate + "host costs of mbench were measured on a similar core")}};
  // A ring over shared memory copies in and out and adds: some four passes over the data.
  const std::string passes = estimate + "a quarter of memory_gbps, for the passes of a copy in and out and a sum";
  m["node"] = {{"devices", figure(64, estimate + "ranks of one host")},
               {"collective_base_us", figure(2, estimate + "an MPI call within a host")},
               {"links", ordered_json::array({{{"ranks", 1024},
                                               {"name", "shared memory"},
                                               {"bus_gbps", figure(bytes * 1e-9 / 4, passes)},
                                               {"latency_us", figure(2, estimate + "a shared-memory message")}}})},
               {"p2p_gbps", figure(bytes * 1e-9 / 2, estimate + "half of memory_gbps, a copy in and out")},
               {"pcie",
                {{"bus_gbps", figure(bytes * 1e-9 / 4, passes)},
                 {"latency_us", figure(2, estimate + "a shared-memory message")}}}};
  m["network"] = unmeasured_network();
  return m;
}

ordered_json calibrate_gpu(const CalibrationOptions& options,
                           const std::function<double(const std::string&, Precision)>& peak) {
  const std::vector<Gpu> all = gpus();
  if (all.empty()) fail(ErrorKind::unsupported, "calibrate", "no GPU: {}, need one, or --on cpu", why_no_gpu());
  const Gpu& gpu = all.front();
  const auto device = open_device("cuda", 0);
  Stopwatch watch(*device, options.seconds / 8, options.between);
  const std::string measured = fmt::format("measured by mbench calibrate on {}", options.measured_on);
  const std::string estimate = "estimate: ";
  ordered_json peaks, sustained;
  double f16_peak = 0;
  const auto add = [&](Precision precision, DType dtype) {
    const double reached = gemm_flops(*device, watch, dtype, kGpuGemm, kGpuSettling), known = peak(gpu.name, precision);
    const std::string what = fmt::format("{}: {} GEMM of {}", measured, name_of(precision), kGpuGemm);
    const double top = std::max(known, reached);
    peaks[std::string(name_of(precision))] = figure(top * 1e-12, known >= reached ? "datasheet of " + gpu.name : what);
    sustained[std::string(name_of(precision))] = figure(reached / top, what);
    if (precision == Precision::bf16) f16_peak = top;
  };
  add(Precision::f32, DType::f32);
  if (gpu.major >= 8) add(Precision::bf16, DType::bf16);
  if (gpu.major >= 7) add(Precision::fp16, DType::f16);
  const double bytes = bandwidth(*device, watch, std::int64_t{256} << 20);
  // Many small ops in a row: what the host takes for a call, and what the device takes for one at least.
  const Tensor small = filled(*device, {4096}, DType::f32);
  constexpr int kCalls = 1000;
  double launch = 1e300, kernel = 1e300;
  const auto wall = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  for (int round = 0; round < 20; ++round) {
    const double begin = device->synchronize(), called = wall();
    for (int i = 0; i < kCalls; ++i) run(*device, ops::Add{small, small, small});
    launch = std::min(launch, (wall() - called) / kCalls);
    kernel = std::min(kernel, (device->synchronize() - begin) / kCalls);
  }
  double idle = 1e300;
  for (int round = 0; round < 100; ++round) {
    const double begin = wall();
    device->synchronize();
    idle = std::min(idle, wall() - begin);
  }
  const std::string unknown = estimate + "not measured by calibrate; H100's";
  ordered_json m;
  m["name"] = "gpu";
  m["description"] = options.measured_on;
  m["device"] = {
      {"peak_tflops", peaks},
      {"memory_mib", figure(static_cast<double>(gpu.memory_bytes >> 20), "the driver's figure")},
      {"memory_outside_allocator_mib", figure(1024, estimate + "context, libraries and communication buffers")},
      {"memory_gbps", figure(bytes * 1e-9, measured + ": sum of two tensors of 1 GiB")},
      {"memory_efficiency", figure(1, "memory_gbps is what was reached")},
      {"kernel_latency_us", figure(kernel * 1e6, measured + ": sums of 16 KiB one after the other")},
      {"multiprocessors", figure(gpu.multiprocessors, "the driver's figure")},
      {"communication_multiprocessors", figure(std::min(16, gpu.multiprocessors), unknown)}};
  m["gemm"] = {{"sustained", sustained},
               {"tiles", ordered_json::array({{{"m", 128}, {"n", 128}, {"efficiency", figure(1, "the only one")}}})},
               {"k_overhead", figure(64, unknown)}};
  m["attention"] = {{"forward", figure(f16_peak > 0 ? 0.5 : 0.3, unknown)},
                    {"backward", figure(f16_peak > 0 ? 0.4 : 0.25, unknown)}};
  m["host"] = {
      {"launch_us", figure(launch * 1e6, measured + ": host time of a call of a small op, the engine's own in it")},
      {"synchronize_us", figure(idle * 1e6, measured + ": a synchronisation of an idle device")},
      {"speed", figure(1, estimate + "the reference host")}};
  const std::string link = estimate + "replaced by what groups measured, where there is more than one GPU";
  m["node"] = {{"devices", figure(static_cast<double>(all.size()), "GPUs of this host")},
               {"collective_base_us", figure(10, unknown)},
               {"links", ordered_json::array({{{"ranks", 1024},
                                               {"name", "as measured"},
                                               {"bus_gbps", figure(20, link)},
                                               {"latency_us", figure(3, link)}}})},
               {"p2p_gbps", figure(20, link)},
               {"pcie", {{"bus_gbps", figure(10, unknown)}, {"latency_us", figure(10, unknown)}}}};
  m["network"] = unmeasured_network();
  return m;
}

}  // namespace mbench::platform
