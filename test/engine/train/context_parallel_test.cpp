// What context parallelism takes and sends, to the byte: activations by the number of ranks, and the closed forms of the three
// ways of communicating.
#include "engine/point/architecture.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/simulate.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::train;

namespace {

constexpr std::int64_t kKvHeads = 8, kHeads = 16, kWidth = 64, kSeq = 1024, kMicroBatches = 3;

Point point_of(std::int64_t cp, CpCommunication way, std::int64_t layers) {
  Point p;
  p.model = {"long", "llama", layers, kHeads * kWidth, kHeads, 256, 256, kSeq};
  p.model.kv_heads = kKvHeads;
  p.seq = kSeq;
  p.dropout = 0;
  p.precision = Precision::bf16;
  p.attention = AttentionKind::flash;
  p.cp = cp, p.cp_communication = way;
  p.micro_batch = 2, p.global_batch = 2 * kMicroBatches;
  return p;
}

struct Counted {
  double sent = 0, activations = 0, parameters = 0, flops = 0;
};

Counted count(const Point& p, int rank) {
  const Plan plan = strategies::make_plan(p);
  const auto device = open_counting_device(0);
  const auto world = lone_world(rank, plan.mesh.world());
  Trainer trainer(plan, *device, *world, nullptr);
  trainer.step();
  device->meter().reset();
  trainer.step();
  return {sum_of(device->meter().communication_bytes),
          static_cast<double>(device->memory().peak().by_category[static_cast<int>(Category::activations)]),
          static_cast<double>(parameter_count(p.model, 1)), device->meter().matmul_flops};
}

// What one more layer adds.
Counted of_a_layer(std::int64_t cp, CpCommunication way, int rank) {
  const Counted more = count(point_of(cp, way, 4), rank), less = count(point_of(cp, way, 3), rank);
  return {more.sent - less.sent, more.activations - less.activations, more.parameters - less.parameters};
}

constexpr CpCommunication kWays[] = {CpCommunication::all_gather, CpCommunication::ring, CpCommunication::all_to_all};

}  // namespace

TEST_CASE("what attention sends over cp is what the closed forms say, on every rank") {
  for (const std::int64_t cp : {2, 4, 8}) {
    // Bytes of a micro batch of two samples on a rank: of queries, of outputs, of keys and values.
    const double k = static_cast<double>(cp), rows = 2 * kSeq / k * 2;
    const double q = rows * kHeads * kWidth, out = q, kv = rows * 2 * kKvHeads * kWidth;
    for (const CpCommunication way : kWays)
      for (int rank = 0; rank < cp; ++rank) {
        INFO("cp " << cp << " by " << name_of(way) << ", rank " << rank);
        const Counted layer = of_a_layer(cp, way, rank);
        // Beside it the weights' gradients are summed over cp, in f32.
        const double sent = (layer.sent - 4 * layer.parameters) / kMicroBatches;
        // Keys and values there; keys and values there again, and their gradients back.
        if (way == CpCommunication::ring) CHECK(sent == 3 * (k - 1) * kv);
        if (way == CpCommunication::all_gather) CHECK(sent == 3 * k * kv);          // of which (k - 1) / k travels
        if (way == CpCommunication::all_to_all) CHECK(sent == 2 * (q + kv + out));  // likewise
      }
  }
}

TEST_CASE("a layer's activations fall as cp grows, to the byte") {
  for (const CpCommunication way : kWays) {
    const double whole = of_a_layer(1, way, 0).activations;
    for (const std::int64_t cp : {2, 4, 8})
      for (int rank = 0; rank < cp; ++rank) {
        INFO("cp " << cp << " by " << name_of(way) << ", rank " << rank);
        // Where heads were exchanged for positions, the outputs are kept as they were there too.
        const double rows = 2.0 * kSeq * 2, kept = rows * kHeads * kWidth;
        const double extra = way == CpCommunication::all_to_all ? kept : 0;
        CHECK(of_a_layer(cp, way, rank).activations == (whole + extra) / static_cast<double>(cp));
      }
  }
}

TEST_CASE("ranks of cp share the products of a step evenly, and there are no more of them") {
  const double whole = count(point_of(1, CpCommunication::ring, 2), 0).flops;
  for (const CpCommunication way : kWays)
    for (const std::int64_t cp : {2, 4, 8})
      for (int rank = 0; rank < cp; ++rank) {
        INFO("cp " << cp << " by " << name_of(way) << ", rank " << rank);
        CHECK(count(point_of(cp, way, 2), rank).flops == whole / static_cast<double>(cp));
      }
}

TEST_CASE("in a ring keys and values travel beside attention, all but the last of the gradients") {
  constexpr std::int64_t cp = 4, layers = 4, seq = 65536;
  Point p = point_of(cp, CpCommunication::ring, layers);
  p.seq = p.model.positions = seq;
  p.micro_batch = p.global_batch = 1;
  const Plan plan = strategies::make_plan(p);
  Machine machine = find_machine("A100-SXM4-80GB", "test");
  machine.device.communication_multiprocessors = 0;  // what travels slows no kernel down
  const auto seconds = [&](double bytes_per_second) {
    machine.node.p2p_bandwidth = bytes_per_second;
    return simulate_point(p, plan, machine, cp).result.iteration_ms->mean / 1e3;
  };
  const double share = 2.0 * seq / cp * 2 * kKvHeads * kWidth, shifts = 3 * (cp - 1) * layers;
  // What a link of half the bandwidth adds to the step, of what it adds to the shifts.
  const auto exposed = [&](double fast) { return (seconds(fast / 2) - seconds(fast)) / (shifts * share / fast); };
  CHECK(exposed(machine.node.p2p_bandwidth) == Approx(1.0 / 9).epsilon(0.05));
  CHECK(exposed(1e8) > 0.9);  // where attention is over long before
}
