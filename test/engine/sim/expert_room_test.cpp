// Static room for experts and pages for what they keep, in simulation: what each adds to a step's memory and takes of its time.
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
Of of(double room, double stash) {
  const Simulation s = simulated(experts(room, stash), "H100-SXM5-80GB", "megatron-core");
  return {step_ms(s), static_cast<double>(s.peak_by_stage.at(0).total)};
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
