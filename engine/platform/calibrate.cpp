#include "engine/platform/calibrate.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/ops/add.h"
#include "engine/ops/attention.h"
#include "engine/ops/copy.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"

namespace mbench {
namespace {

using nlohmann::ordered_json;

// Runs ops on the device, each for a share of the time, and reports the least seconds of a call.
class Stopwatch {
 public:
  explicit Stopwatch(Device& device, double seconds) : device_(device), seconds_(seconds) {}

  double least(const std::function<void()>& call) {
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
};

Tensor filled(Device& device, const Shape& shape, DType dtype) {
  const Tensor t = device.empty(shape, dtype, Category::workspace, "calibration");
  run(device, ops::Fill{t, 0.5f});
  return t;
}

constexpr std::int64_t kProduct =
    1536;  // large enough that packing and threads cost little, small enough to be quick

double product_flops(Device& device, Stopwatch& watch, DType dtype) {
  const std::int64_t n = kProduct;
  const Tensor a = filled(device, {n, n}, dtype), b = filled(device, {n, n}, dtype),
               c = filled(device, {n, n}, dtype);
  const ops::Matmul product{ops::Matrix(a), ops::Matrix(b), ops::Matrix(c)};
  return product.cost().flops / watch.least([&] { run(device, product); });
}

// Bytes a second of a sum of two large tensors, as the op's cost counts them.
double bandwidth(Device& device, Stopwatch& watch) {
  const Shape shape{std::int64_t{32} << 20};
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
  const Tensor q = make(), k = make(), v = make(), out = make(), dout = make(), dq = make(), dk = make(),
               dv = make();
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

}  // namespace

ordered_json calibrate_cpu(const CalibrationOptions& options) {
  const auto device = open_device("cpu", 0);
  Stopwatch watch(*device, options.seconds / 8);
  const std::string measured =
      fmt::format("measured by mbench devices --calibrate on {}", options.measured_on);
  const std::string estimate = "estimate: ";
  const auto figure = [](double value, const std::string& source) {
    // Four digits: more than a repeated measurement keeps.
    return ordered_json{{"value", std::stod(fmt::format("{:.4g}", value))}, {"source", source}};
  };
  const auto peak_of = [&](Precision precision) {
    return measured_peak_flops(precision, options.seconds / 8);
  };
  const double f32_peak = peak_of(Precision::f32), bf16_peak = peak_of(Precision::bf16),
               f16_peak = peak_of(Precision::fp16);
  const double f32 = product_flops(*device, watch, DType::f32),
               bf16 = product_flops(*device, watch, DType::bf16),
               f16 = product_flops(*device, watch, DType::f16);
  const double bytes = bandwidth(*device, watch);
  const double least = least_op_seconds(*device, watch);
  const AttentionFlops attention = attention_flops(*device, watch);
  const auto share = [&](double flops, double peak) { return figure(std::min(1.0, flops / peak), measured); };

  ordered_json m;
  m["name"] = "cpu";
  m["description"] = options.measured_on + "; the ranks of a node share its cores";
  m["immediate"] = true;
  m["device"] = {
      {"peak_tflops",
       {{"f32", figure(f32_peak * 1e-12, measured + ": f32 matrix product")},
        {"bf16",
         figure(bf16_peak * 1e-12, fmt::format("{}: bf16 matrix product ({})", measured, bf16_arithmetic()))},
        {"fp16", figure(f16_peak * 1e-12, measured + ": fp16 matrix product, operands converted to f32")}}},
      {"memory_mib", figure(static_cast<double>(options.memory_bytes >> 20),
                            "the operating system's figure on " + options.measured_on)},
      {"memory_outside_allocator_mib", figure(512, estimate + "operating system and the program itself")},
      {"memory_gbps", figure(bytes * 1e-9, measured + ": sum of two tensors of 128 MiB")},
      {"memory_efficiency", figure(1, "memory_gbps is what was reached")},
      {"kernel_latency_us", figure(least * 1e6, measured + ": sum of two tensors of 16 KiB")},
      {"multiprocessors", figure(options.cores, "cores of " + options.measured_on)},
      {"communication_multiprocessors",
       figure(std::min(1, options.cores), "a core runs the rank's MPI calls")}};
  m["gemm"] = {
      {"sustained",
       {{"f32", share(f32, f32_peak)}, {"bf16", share(bf16, bf16_peak)}, {"fp16", share(f16, f16_peak)}}},
      {"tiles", ordered_json::array({{{"m", 32}, {"n", 32}, {"efficiency", figure(1, "the only one")}}})},
      {"k_overhead", figure(16, estimate + "packing of a panel")}};
  m["attention"] = {{"forward", share(attention.forward, f32_peak)},
                    {"backward", share(attention.backward, f32_peak)}};
  m["host"] = {{"launch_us", figure(0.01, estimate + "a call, no launch")},
               {"synchronize_us", figure(0.01, estimate + "nothing to wait for")},
               {"speed", figure(1, estimate + "host costs of mbench were measured on a similar core")}};
  // A ring over shared memory copies in and out and adds: some four passes over the data.
  const std::string passes =
      estimate + "a quarter of memory_gbps, for the passes of a copy in and out and a sum";
  m["node"] = {
      {"devices", figure(64, estimate + "ranks of one host")},
      {"collective_base_us", figure(2, estimate + "an MPI call within a host")},
      {"links", ordered_json::array({{{"ranks", 1024},
                                      {"name", "shared memory"},
                                      {"bus_gbps", figure(bytes * 1e-9 / 4, passes)},
                                      {"latency_us", figure(2, estimate + "a shared-memory message")}}})},
      {"p2p_gbps", figure(bytes * 1e-9 / 2, estimate + "half of memory_gbps, a copy in and out")},
      {"pcie",
       {{"bus_gbps", figure(bytes * 1e-9 / 4, passes)},
        {"latency_us", figure(2, estimate + "a shared-memory message")}}}};
  m["network"] = {{"name", "10 Gb/s Ethernet"},
                  {"gbps_per_device", figure(1, estimate + "not measured")},
                  {"latency_us", figure(30, estimate + "not measured")}};
  return m;
}

}  // namespace mbench
