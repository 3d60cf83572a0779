// What a framework's options cost a simulated step.
#include "engine/sim/run/simulate.h"
#include "engine/sim/run/step_costs.h"
#include "test/catch.h"
#include "test/engine/sim/gpt_345m.h"
#include "test/engine/sim/simulated_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

TEST_CASE("a host that needs longer for a kernel slows a short step down and a long one not") {
  Machine machine = find_machine("A100-SXM4-80GB", "test");
  Framework quick = find_framework("mbench", "test"), slow = quick;
  slow.host.kernel += 20e-6;
  const auto ratio = [&](const Point& p) {
    return step_ms(simulated(p, machine, slow)) / step_ms(simulated(p, machine, quick));
  };
  Point small = gpt(1, 1, 1), large = small;
  small.model.hidden = 64, small.model.heads = 4, small.model.ffn = 256;
  small.seq = 64;
  large.model.layers = 4, large.model.hidden = 8192, large.model.heads = 64, large.model.ffn = 32768;
  large.seq = 1024, large.micro_batch = 4, large.global_batch = 4;
  CHECK(ratio(small) > 3);
  CHECK(ratio(large) < 1.01);
  CHECK(ratio(large) >= 1);
}

TEST_CASE("rotary positions without a kernel cost a host-bound step the calls of PyTorch's small ops") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  const Framework framework = find_framework("megatron-core", "test");
  Point p = gpt(1, 1, 1);
  p.model = find_preset("llama-bytes-tiny", "test");
  p.seq = 64, p.global_batch = 2 * p.micro_batch;
  p.precision = Precision::bf16, p.framework = keeps(Graph::megatron_core), p.device = "sim:1xH100-SXM5-80GB";
  const double fused = step_ms(simulated(p, machine, framework, 1));
  p.framework.options["rope_fusion"] = "false";
  // Queries and keys, forward and backward, 12 calls each, of every layer of two micro batches.
  const double calls = 2.0 * 2 * 12 * static_cast<double>(p.model.layers) * 2;
  CHECK(step_ms(simulated(p, machine, framework, 1)) - fused ==
        Approx(1e3 * calls * (machine.host.launch + framework.host.work[HostWork::call] / machine.host.speed))
            .epsilon(1e-6));
}

TEST_CASE("rows of experts by PyTorch's ops cost a device-bound step their atomic additions") {
  Machine machine = find_machine("H100-SXM5-80GB", "test");
  machine.host.speed *= 1000;  // it waits for the device
  Point p = gpt(1, 1, 1);
  p.model = find_preset("llama-bytes-tiny", "test");
  p.model.family = "mixtral", p.model.hidden = 2048, p.model.layers = 2, p.model.positions = 4096;
  p.model.experts = 8, p.model.active_experts = 2, p.model.expert_ffn = 512;
  p.seq = 4096, p.global_batch = p.micro_batch, p.router = {Routing::balanced};
  p.precision = Precision::bf16, p.framework = {.preset = "megatron-core"}, p.device = "sim:1xH100-SXM5-80GB";
  const std::shared_ptr<const Framework> framework = framework_of(p.framework);
  const double fused = step_ms(simulated(p, machine, *framework, 1));
  p.framework.options["permute_fusion"] = "false";
  // Sums of rows forward and backward, of as many elements; gathers, which are faster than what is charged of the kernel, likewise.
  const double tokens = static_cast<double>(p.seq * p.micro_batch), width = 2048, k = 2;
  const double sum = tokens * (2 * width * k + 8 * k + 2 * width), gather = tokens * k * (4 * width + 8);
  const double rate =
      machine.device.memory_bandwidth * machine.device.memory_efficiency * framework->traffic_efficiency;
  CHECK(step_ms(simulated(p, machine, *framework_of(p.framework), 1)) - fused ==
        Approx(1e3 * 2 * (2 * (6.75 - 1) * sum + 2 * (0.72 - 1) * gather) / rate).epsilon(0.02));
}

TEST_CASE(
    "deterministic algorithms cost a host-bound step a share of each op, and a device-bound one the filling of new "
    "tensors") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  const Framework framework = find_framework("megatron-core", "test");
  REQUIRE(framework.host.fill > 0);
  Framework free_of_host = framework;
  free_of_host.host.kernel = free_of_host.host.fill = free_of_host.host.work[HostWork::gemm] = 0;
  const auto both = [&](Point p, const Framework& f) {
    const Simulation plain = simulated(p, machine, f);
    p.framework.options["deterministic"] = "true";
    const Simulation filled = simulated(p, machine, f);
    CHECK(filled.peak_by_stage[0].total == plain.peak_by_stage[0].total);
    return std::pair(step_ms(plain), step_ms(filled));
  };
  Point small = gpt(1, 1, 1);
  small.framework = keeps(Graph::megatron_core), small.device = "sim:1xH100-SXM5-80GB",
  small.precision = Precision::bf16;
  Point large = small;
  small.model.hidden = 64, small.model.heads = 4, small.model.ffn = 256;
  small.seq = 64, small.micro_batch = small.global_batch = 1;
  large.model.layers = 4, large.model.hidden = 8192, large.model.heads = 64, large.model.ffn = 32768;
  large.seq = 1024, large.micro_batch = 4, large.global_batch = 4;
  // Every op of the small step is a call more expensive; what else its host does is not.
  const auto [called, called_more] = both(small, framework);
  Framework dearer = framework;
  dearer.host.kernel += framework.host.fill;
  const double as_dearer = step_ms(simulated(small, machine, dearer));
  CHECK(called_more > 1.05 * called);
  CHECK(called_more == Approx(as_dearer).epsilon(0.01));
  // What is written once more is little beside the products.
  const auto [streams, fills] = both(large, free_of_host);
  CHECK(fills > 1.01 * streams);
  CHECK(fills < 1.15 * streams);
}
