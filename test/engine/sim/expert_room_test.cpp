// Static room for experts and pages for what they keep, in simulation: what each adds to a step's memory and takes of its time.
#include <cmath>

#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

Point experts(double room, double stash) {
  Point p;
  p.model.family = "mixtral";
  p.model.layers = 4, p.model.hidden = 512, p.model.heads = p.model.kv_heads = 8,
  p.model.ffn = p.model.expert_ffn = 1024;
  p.model.experts = 8, p.model.active_experts = 2, p.model.vocab = 1000, p.model.positions = p.seq = 1024;
  p.dp = p.ep = 4, p.global_batch = 8;
  p.device = "sim:8xH100-SXM5-80GB";
  p.precision = Precision::bf16;
  p.router.routing = Routing::learned;
  p.ep_communication = EpCommunication::flex;
  p.framework = read_framework("megatron-core", "test");
  p.expert_rank_capacity = room, p.paged_stash = stash;
  return p;
}

struct Of {
  double ms, bytes;
};
Of of(const Point& p) {
  const Simulation s = simulated(p, "H100-SXM5-80GB", "megatron-core");
  return {step_ms(s), static_cast<double>(s.peak_by_stage.at(0).total)};
}
Of of(double room, double stash) {
  return of(experts(room, stash));
}

}  // namespace

TEST_CASE("experts with static room keep as many rows as there is room for, and do not wait for the host") {
  const Of plain = of(0, 0), tight = of(1, 0), wide = of(2, 0);
  // Bytes a row that a layer keeps: input and fc1's output of two times the width, fc2's input, and the row's weight.
  const double rows = 1024 * 2, row = 2.0 * (512 + 2 * 1024 + 1024) + 4;
  const double kept = 4 * rows * row;
  CHECK(wide.bytes - tight.bytes > kept);  // of four layers; and what the last one's backward makes
  CHECK(wide.bytes - tight.bytes < 2 * kept);
  CHECK(tight.ms < plain.ms);
}

TEST_CASE("pages hold the rows in use, and copies take time") {
  const Of without = of(2, 0), with = of(2, 1.1);
  // Of four layers, the one before the loss stays: three give back twice the mean, and all four have pages for 1.1 times the mean.
  const double rows = 1024 * 2, row = 2.0 * (512 + 2 * 1024 + 1024);
  const double saved = 3 * 2 * rows * row - 4 * 1.1 * rows * row;
  CHECK(without.bytes - with.bytes > 0.4 * saved);  // a group comes back before the one after it has gone
  CHECK(without.bytes - with.bytes < 1.2 * saved);
  // Each layer but one is copied twice in each of two micro batches, read and written.
  const double seconds = 3 * 2 * 2 * 2 * rows * row / (0.9 * 3.35e12);
  CHECK(with.ms - without.ms > 0.5 * seconds * 1e3);
  // And the host launches 36 copies of three tensors, which it is not ahead of.
  CHECK(with.ms - without.ms < 3 * seconds * 1e3 + 36 * 0.1);
}

TEST_CASE("codes and scales of static room are as long as it, and pages hold those of the rows in use") {
  const auto in_fp8 = [](double room, double stash) {
    Point p = experts(room, stash);
    p.router.routing = Routing::balanced;
    p.precision = Precision::fp8, p.fp8_recipe = Fp8Recipe::blockwise;
    return of(p);
  };
  // Codes of input and fc2's input, their scales of 128 rows in f32, fc1's output in 16 bits, and the row's weight.
  const double rows = 1024 * 2, row = 33.0 / 32 * (512 + 1024) + 2.0 * 2 * 1024, kept = 4 * rows * (row + 4);
  const Of tight = in_fp8(1, 0), wide = in_fp8(2, 0), paged = in_fp8(2, 1.1);
  CHECK(wide.bytes - tight.bytes > kept);
  CHECK(wide.bytes - tight.bytes < 2.2 * kept);
  const double saved = 3 * 2 * rows * row - 4 * 1.1 * rows * row;
  CHECK(wide.bytes - paged.bytes > 0.4 * saved);
  CHECK(wide.bytes - paged.bytes < 1.2 * saved);
  CHECK(paged.ms > wide.ms);
}

TEST_CASE("pages in the host's memory take its memory and the link to it") {
  Point p = experts(2, 0.5);
  p.paged_stash_host = 1.1;
  const Simulation s = simulated(p, "H100-SXM5-80GB", "megatron-core");
  const Of on_device = of(2, 1.1);
  // Of four layers' rows, whole pages of 64.
  const double rows = 1024 * 2, row = 2.0 * (512 + 2 * 1024 + 1024);
  const auto bytes = [&](double factor) { return std::ceil(std::floor(4 * rows * factor) / 64) * 64 * row; };
  CHECK(static_cast<double>(s.host_peak_by_stage.at(0).total) == bytes(1.1));
  CHECK(on_device.bytes - static_cast<double>(s.peak_by_stage.at(0).total) == bytes(1.1) - bytes(0.5));
  // Two of the three layers that leave fit on the device. In each of two micro batches the third's rows go and come, and what computes
  // meanwhile is short beside a link of 1 GB/s.
  Machine machine = find_machine("H100-SXM5-80GB", "test");
  const Framework framework = ideal_framework();
  const double fast = step_ms(simulated(p, machine, framework));
  machine.host.copy_bandwidth = 1e9;
  const double copies = 2 * 2 * rows * row / 1e9 * 1e3, slow = step_ms(simulated(p, machine, framework));
  CHECK(slow - fast > 0.8 * copies);
  CHECK(slow - fast < copies);
}

TEST_CASE("experts in FP8 with learned routing multiply as many rows as with balanced") {
  const auto executed = [](Routing routing) {
    Point p = experts(1.5, 1.1);
    p.router.routing = routing;
    p.precision = Precision::fp8, p.fp8_recipe = Fp8Recipe::blockwise;
    const Simulation s = simulated(p, "H100-SXM5-80GB", "megatron-core");
    return s.result.hfu.value() * step_ms(s);
  };
  CHECK(executed(Routing::learned) == Approx(executed(Routing::balanced)));
}

TEST_CASE("the fullest rank of uneven routing has so many times the rows, whoever sends them") {
  for (const EpCommunication how : {EpCommunication::all_to_all, EpCommunication::flex})
    for (const double room : {0.0, 2.0}) {
      if (room > 0 && how != EpCommunication::flex) continue;
      const auto run = [&](double imbalance) {
        Point p = experts(room, 0);
        p.ep_communication = how, p.routing_imbalance = imbalance;
        return simulated(p, "H100-SXM5-80GB", "megatron-core");
      };
      const Simulation even = run(1), uneven = run(1.5);
      // FLOPs of the GEMMs of experts: three of width 1024, forward and twice backward, of each of four layers and two micro batches.
      const double more = 0.5 * 2048 * 3 * 2.0 * 512 * 1024 * 3 * 4 * 2;
      const auto flops = [](const Simulation& s) { return s.result.hfu.value() * step_ms(s) / 1e3 * 989.5e12; };
      CHECK(flops(uneven) - flops(even) == Approx(more).epsilon(1e-3));
    }
}
