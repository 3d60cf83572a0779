// What a framework's host does besides launching ops: where it is charged, and how often.
#include <tuple>

#include "engine/point/architecture.h"
#include "engine/sim/run/step_costs.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/engine/sim/threaded/threaded_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

constexpr double kMilli = 1e-3;

Point gpt() {
  Point p;
  p.model = {"small", "gpt", 8, 256, 4, 1024, 1000, 256};
  p.seq = 256;
  p.precision = Precision::fp16;
  p.micro_batch = 1, p.global_batch = 8;
  return p;
}

Point mixture() {
  Point p = gpt();
  p.model.family = "mixtral";
  p.model.kv_heads = 4;
  p.model.experts = 4, p.model.active_experts = 2, p.model.expert_ffn = 512;
  return p;
}

double seconds(const Point& p, const Framework& framework, const Machine& machine = ideal_machine()) {
  const double replayed = simulated(p, machine, framework).result.iteration_ms->mean * kMilli;
  const double run = run_in_threads(p, plan_on(framework, p), machine, 4096).result.iteration_ms->mean;
  CHECK(replayed == run * kMilli);
  return replayed;
}

// How often a step is charged for it, when everything else is next to free.
long long times(const Point& p, HostWork what) {
  Framework framework = ideal_framework();
  const double without = seconds(p, framework);
  framework.host.work[what] = 1;  // of the reference host
  return std::llround((seconds(p, framework) - without) * ideal_machine().host.speed);
}

}  // namespace

TEST_CASE("the host goes through the weight tensors of which its rank owns something, each expert's on its own") {
  const auto tensors = [](const Point& p, long long experts) {
    long long n = 0;
    for (const WeightSpec& w : weights_of(p.model, p.model.vocab))
      if (!w.tied) n += w.shape.rank() == 3 ? experts : 1;
    return n;
  };
  CHECK(times(gpt(), HostWork::parameter) == tensors(gpt(), 0));
  CHECK(times(mixture(), HostWork::parameter) == tensors(mixture(), 4));
  Point spread = mixture();
  spread.dp = spread.ep = 2;
  CHECK(times(spread, HostWork::parameter) == tensors(spread, 2));
  // Of a cut state each rank owns a part of the tensors, and no more than one is cut on each side of it.
  Point cut = gpt();
  cut.dp = 4, cut.zero = Zero::stage_1;
  const long long all = tensors(cut, 0), own = times(cut, HostWork::parameter);
  CHECK(own >= all / 16);
  CHECK(own < all / 2);
}

TEST_CASE("what a framework runs by several kernels is as many calls of the host, and by none nothing at all") {
  const Point p = gpt();
  Framework framework = ideal_framework();
  framework.host.work[HostWork::call] = 1;
  const double before = seconds(p, framework);
  framework.unfused = {{"layer_norm", {.calls = 4}}, {"layer_norm_grad", {.calls = 3}}};
  // Two norms a layer and a last one, forward and backward.
  CHECK(std::llround((seconds(p, framework) - before) * ideal_machine().host.speed) == 8 * (2 * 8 + 1) * (3 + 2));
  framework.unfused = {};
  framework.host.work[HostWork::call] = 1e-6;
  framework.host.kernel = 1;
  const double with_all = seconds(p, framework);
  framework.unfused = {{"layer_norm", {.calls = 0}}};
  CHECK(std::llround((with_all - seconds(p, framework)) * ideal_machine().host.speed) == 8 * (2 * 8 + 1));
}

TEST_CASE(
    "biases of experts are calls for each expert, and kinds of an op that the framework's file names have their own") {
  Point p = mixture();  // 8 layers with 4 experts, 8 micro batches
  ModelParts parts = p.model.parts();
  parts.bias.experts = true;
  parts.activation = Activation::clamped_swiglu;
  p.model.own_parts = parts;
  p.framework = keeps(Graph::megatron_core);
  Framework framework = ideal_framework();
  framework.host.work[HostWork::call] = 1;
  const auto calls = [&, before = seconds(p, framework)](const UnfusedOps& ops) {
    framework.unfused = ops;
    return std::llround((seconds(p, framework) - before) * ideal_machine().host.speed);
  };
  // The second GEMM's biases are multiplied by the weights of rows, the first one's are not.
  CHECK(calls({{"weighted_expert_bias", {.calls = 3}}}) == 8 * 8 * (3 * 4 - 1));
  CHECK(calls({{"expert_bias", {.calls = 2}}}) == 8 * 8 * 2 * (2 * 4 - 1));
  CHECK(calls({{"expert_bias", {.calls = 1}}, {"weighted_expert_bias_grad", {.calls = 2, .extra_calls = 1}}}) ==
        8 * 8 * (3 + 3 + 3 * 4 - 1));
  CHECK(calls({{"clamped_swiglu", {.calls = 3}}, {"swiglu", {.calls = 9}}}) == 8 * 8 * (3 - 1));
  CHECK(calls({{"swiglu_grad", {.calls = 2, .extra_calls = 5}}}) == 8 * 8 * (2 - 1 + 5));
}

TEST_CASE("the host waits in each expert block where the offset of a clamped gate is copied to the device") {
  Point p = mixture();
  ModelParts parts = p.model.parts();
  parts.activation = Activation::clamped_swiglu;
  p.model.own_parts = parts;
  p.framework = keeps(Graph::megatron_core), p.device = "sim:1";
  Machine waits = ideal_machine();
  waits.host.synchronize = 1;
  const double clamped = seconds(p, ideal_framework(), waits);
  parts.activation = Activation::swiglu;
  p.model.own_parts = parts;
  CHECK(std::llround(clamped - seconds(p, ideal_framework(), waits)) == 8 * 8);
  p.recompute = Recompute::full;
  const double once = seconds(p, ideal_framework(), waits);
  parts.activation = Activation::clamped_swiglu;
  p.model.own_parts = parts;
  CHECK(std::llround(seconds(p, ideal_framework(), waits) - once) == 2 * 8 * 8);
}

TEST_CASE("a scan that is several kernels keeps the time of its GEMMs, and its calls are the host's") {
  Point p = gpt();
  p.model.family = "mamba2", p.model.hybrid_pattern = "MMMMMMMM";
  p.model.state_heads = 8, p.model.state_head_dim = 64, p.model.state_groups = 2, p.model.state_dim = 32;
  Framework framework = ideal_framework();
  const double one = seconds(p, framework);
  framework.unfused = {{"state_scan", {.calls = 1}}, {"state_scan_grad", {.calls = 1}}};
  CHECK(seconds(p, framework) == one);
  framework.host.work[HostWork::call] = 1;
  framework.unfused = {{"state_scan", {.calls = 4}}, {"state_scan_grad", {.calls = 3}}};
  // Backward runs the scan's forward again.
  CHECK(std::llround((seconds(p, framework) - one) * ideal_machine().host.speed) == 8 * 8 * (2 * 3 + 2));
}

TEST_CASE(
    "a mixture of experts is charged in each layer of each micro batch, forward and backward, and recomputed once "
    "more") {
  Point p = mixture();
  for (const HostWork work : {HostWork::moe, HostWork::all_to_all}) {
    CHECK(times(p, work) == 2 * 8 * 8);
    CHECK(times(gpt(), work) == 0);
  }
  p.recompute = Recompute::full;
  for (const HostWork work : {HostWork::moe, HostWork::all_to_all}) CHECK(times(p, work) == 3 * 8 * 8);
  // What costs it is a dispatcher that sends: rows or tokens, not gathering every token of the group.
  p.ep_communication = EpCommunication::flex;
  CHECK(times(p, HostWork::moe) == 3 * 8 * 8);
  CHECK(times(p, HostWork::all_to_all) == 0);
  p.ep_communication = EpCommunication::all_gather;
  CHECK(times(p, HostWork::moe) == 0);
  CHECK(times(p, HostWork::all_to_all) == 0);
}

TEST_CASE("layers that are not Transformer Engine's are not charged its products") {
  Point p = mixture();
  p.framework = keeps(Graph::megatron_core), p.device = "sim:1";
  // Two linears of attention, the router and two products of the experts as groups in each layer, and the logits: one product forward,
  // two backward.
  CHECK(times(p, HostWork::gemm) == ((2 + 1 + 2) * 8 + 1) * 3 * 8);
  p.framework.options["grouped_experts"] = "false";
  CHECK(times(p, HostWork::gemm) == ((2 + 1 + 2 * 4) * 8 + 1) * 3 * 8);
  CHECK(find_framework("megatron-core", "test").host.work[HostWork::gemm] > 0);
  CHECK(framework_of({.preset = "megatron-core", .options = {{"transformer_engine", "false"}}})
            ->host.work[HostWork::gemm] == 0);
}

// Forward and backward send rows, sums and weights each once: three changes of order either way in each layer of each micro batch.
TEST_CASE("without fused permutation the host makes a view for each rank's rows of each expert") {
  Point p = mixture();
  p.framework = keeps(Graph::megatron_core), p.device = "sim:2", p.dp = 2, p.ep = 2, p.global_batch *= 2;
  p.model.experts = 16;
  const long long fused = times(p, HostWork::call);
  p.framework.options["permute_fusion"] = "false";
  const long long calls = std::lround(0.11 * static_cast<double>(p.model.experts));
  REQUIRE(calls > 0);
  CHECK(times(p, HostWork::call) - fused == calls * 2 * 3 * 8 * 8);
  p.framework.options.clear();
  p.model.experts = 2;  // one on each rank
  const long long one = times(p, HostWork::call);
  p.framework.options["permute_fusion"] = "false";
  CHECK(times(p, HostWork::call) == one);
}

TEST_CASE("a micro batch is broadcast over tp, to the stages of a pipeline that need it") {
  Framework framework = ideal_framework();
  framework.host.collective = 1e-3;
  const auto micro_batch = [&](int tp, int pp, int broadcasts) {
    Point p = gpt();
    p.tp = tp, p.pp = pp;
    framework.host.broadcasts = broadcasts;
    return host_times(plan_on(framework, p), ideal_machine());
  };
  for (const auto& [tp, pp, times] : {std::tuple(1, 1, 0), {2, 1, 5}, {2, 2, 3}}) {
    const HostTimes t = micro_batch(tp, pp, 5);
    CHECK(t.work[HostWork::micro_batch] - micro_batch(tp, pp, 0).work[HostWork::micro_batch] ==
          Approx(times * t.collective).epsilon(1e-9));
  }
}

TEST_CASE("a replayed step charges neither tensors nor mixtures") {
  Point p = mixture();
  p.precision = Precision::f32, p.capture = true;
  CHECK(times(p, HostWork::moe) == 0);
  CHECK(times(p, HostWork::parameter) == 0);
}

TEST_CASE("captured parts next to each other are one launch, forward and backward, and charge no modules") {
  Point p = mixture();  // 8 layers and 8 micro batches
  p.model.dense_layers = 2;
  p.precision = Precision::f32;
  const long long linears = times(p, HostWork::gemm);
  const auto launches = [&](CapturedParts parts) {
    p.capture = parts;
    return times(p, HostWork::graph);
  };
  using enum CapturedPart;
  CHECK(launches({}) == 0);
  CHECK(launches({attention}) == 2 * 8 * 8);
  CHECK(launches({attention, mlp}) == 2 * 8 * 8);
  CHECK(launches({mlp}) == 2 * 2 * 8);
  CHECK(launches({moe_router, moe_preprocess}) == 2 * 6 * 8);
  CHECK(launches({attention, mlp, moe_router, moe_preprocess}) == 2 * 8 * 8);
  p.router = {Routing::capacity, 2};
  CHECK(launches({layer}) == 2 * 8 * 8);
  CHECK(launches({attention, moe}) == 2 * 8 * 8);
  CHECK(times(p, HostWork::moe) == 0);
  p.router = {};
  // Of the experts' two groups of GEMMs and the logits nothing is captured.
  p.capture = CapturedParts{attention, mlp, moe_router};
  CHECK(times(p, HostWork::gemm) == (2 * 6 + 1) * 3 * 8);
  CHECK(linears > times(p, HostWork::gemm));
  CHECK(times(p, HostWork::moe) == 2 * 6 * 8);
}

TEST_CASE("what a captured part launches is a node of a graph") {
  Point p = gpt();
  Framework framework = ideal_framework();
  framework.host.kernel = 1;
  const double eager = seconds(p, framework);
  p.capture = CapturedParts{CapturedPart::layer};
  const double captured = seconds(p, framework);
  CHECK(captured < eager / 4);
  Machine machine = ideal_machine();
  machine.host.graph_launch = 1, machine.host.graph_node = 0;
  CHECK(seconds(p, framework, machine) == Approx(captured + 2 * 8 * 8).epsilon(1e-4));
}

TEST_CASE("a host that waits for each loss cannot run ahead of the device") {
  const Machine machine = find_machine("V100-SXM2-16GB", "test");
  Framework ahead = find_framework("mbench", "test"), waits = ahead;
  waits.loss_blocks = true;
  CHECK(seconds(gpt(), waits, machine) > seconds(gpt(), ahead, machine));
}

TEST_CASE("without interleaved stages alone the host waits at messages, where the framework says so") {
  const Machine machine = find_machine("V100-SXM2-16GB", "test");
  const auto step = [&](MessagesBlock block, int virtual_stages) {
    Framework framework = find_framework("mbench", "test");
    framework.messages_block = block;
    Point p = gpt();
    p.pp = 2;
    if (virtual_stages > 1) p.schedule = ScheduleKind::interleaved, p.virtual_stages = virtual_stages;
    return seconds(p, framework, machine);
  };
  for (const int virtual_stages : {1, 2}) {
    const double always = step(MessagesBlock::always, virtual_stages),
                 never = step(MessagesBlock::never, virtual_stages);
    CHECK(always > never);
    const double unless = step(MessagesBlock::unless_interleaved, virtual_stages);
    if (virtual_stages == 1) CHECK(unless == always);
    // What travels while its receiver computes is not waited for.
    if (virtual_stages == 2) CHECK(unless < never);
  }
}
