// On a machine where only matrix products take time a step has to take what the textbook says.
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

// So wide that little but products remains, and with so few words that the stages are equal.
Point wide(std::int64_t pp, std::int64_t micro_batches, ScheduleKind schedule = ScheduleKind::one_f_one_b) {
  Point p;
  p.model = {"wide", "gpt", 16, 2048, 16, 8192, 64, 1024};
  p.seq = 1024;
  p.micro_batch = 1;
  p.global_batch = micro_batches;
  p.precision = Precision::fp16;
  p.dropout = 0;
  p.framework = keeps(Graph::eager);  // the full square of attention, as the model's FLOPs count it
  p.pp = pp;
  p.schedule = schedule;
  return p;
}

Simulation ideal(const Point& p) {
  return simulated(p, ideal_machine(), ideal_framework());
}

}  // namespace

TEST_CASE("on an ideal machine every FLOP of the model and no other takes time") {
  Point p = wide(1, 1);
  const PointResult plain = ideal(p).result;
  CHECK(plain.mfu.value() == Approx(1).epsilon(0.02));
  CHECK(plain.hfu.value() == Approx(1).epsilon(0.02));
  CHECK(plain.communication_fraction == 0);
  CHECK(plain.bubble_fraction == 0);
  // Cut up without a pipeline, it stays so.
  p.tp = 8;
  CHECK(ideal(p).result.mfu.value() == Approx(1).epsilon(0.02));
  p.dp = 4, p.global_batch = 4;
  p.sequence_parallel = true;
  CHECK(ideal(p).result.mfu.value() == Approx(1).epsilon(0.02));
  // A fused kernel leaves out what the causal mask hides.
  p.framework = keeps(Graph::fused);
  p.attention = AttentionKind::flash;
  const PointResult fused = ideal(p).result;
  CHECK(fused.hfu.value() == Approx(1).epsilon(0.02));
  CHECK(fused.mfu.value() > 1);
}

TEST_CASE("the bubble of GPipe and of 1F1B is (p - 1) / (m + p - 1)") {
  for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (const auto& [p, m] : {std::pair{2, 2}, std::pair{4, 4}, std::pair{4, 16}, std::pair{8, 8}}) {
      INFO(name_of(schedule) << ", " << p << " stages, " << m << " micro batches");
      const double bubble = (p - 1.0) / (m + p - 1.0);
      const Simulation s = ideal(wide(p, m, schedule));
      CHECK(s.result.bubble_fraction.value() == Approx(bubble).epsilon(0.03));
      CHECK(step_ms(s) * p == Approx(step_ms(ideal(wide(1, m))) * (m + p - 1) / m).epsilon(0.02));
    }
  }
}

TEST_CASE("interleaving v chunks a stage makes the bubble v times smaller against the work") {
  for (const auto& [p, m] : {std::pair{2, 4}, std::pair{4, 8}}) {
    double before = 1;
    for (const int v : {1, 2, 4}) {
      INFO(p << " stages, " << m << " micro batches, " << v << " chunks");
      Point point = wide(p, m, v == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved);
      point.virtual_stages = v;
      const double bubble = ideal(point).result.bubble_fraction.value();
      CHECK(bubble == Approx((p - 1.0) / (v * m + p - 1.0)).epsilon(0.05));
      CHECK(bubble < before);
      before = bubble;
    }
  }
}

TEST_CASE("full recompute costs a forward more, selective recompute only the attention core") {
  Point p = wide(1, 2);
  const double none = step_ms(ideal(p));
  p.recompute = Recompute::full;
  const Simulation full = ideal(p);
  CHECK(step_ms(full) / none == Approx(4.0 / 3).epsilon(0.01));
  CHECK(full.result.hfu.value() == Approx(1).epsilon(0.02));
  CHECK(full.result.mfu.value() == Approx(0.75).epsilon(0.02));
  p.recompute = Recompute::selective;
  // Of a layer's forward, 24 s h^2 + 4 s^2 h, the second term again.
  const double core = 4.0 * 1024 / (24 * 2048 + 4 * 1024);
  CHECK(step_ms(ideal(p)) / none == Approx(1 + core / 3).epsilon(0.01));
}

TEST_CASE("sequence parallelism with selective recompute takes less time than full recompute") {
  Point p = wide(1, 8);
  p.tp = 8, p.micro_batch = 4, p.global_batch = 16;
  p.model.layers = 24;
  p.attention = AttentionKind::core;
  for (const char* machine : {"V100-SXM2-32GB", "A100-SXM4-80GB"}) {
    INFO(machine);
    p.sequence_parallel = false, p.recompute = Recompute::none;
    const Simulation none = simulated(p, machine);
    p.recompute = Recompute::full;
    const Simulation full = simulated(p, machine);
    p.sequence_parallel = true, p.recompute = Recompute::selective;
    const Simulation both = simulated(p, machine);
    CHECK(step_ms(both) < 0.95 * step_ms(full));
    CHECK(both.peak_by_stage[0].total < none.peak_by_stage[0].total);
    CHECK(full.peak_by_stage[0].total < none.peak_by_stage[0].total);
  }
}

TEST_CASE("gradients are reduced while the backward goes on") {
  Point p = wide(1, 1);
  Machine machine = ideal_machine();
  const double alone = step_ms(simulated(p, machine, ideal_framework()));
  p.dp = 8, p.global_batch = 8;
  machine.node.links.back().bandwidth = 100e9;
  const double bytes = 2.0 * 1.75 * 16 * 12 * 2048 * 2048;  // fp16 gradients, two passes of a ring of 8
  const double together = step_ms(simulated(p, machine, ideal_framework()));
  CHECK(together > alone);
  CHECK(together < alone + 0.5 * bytes / 100e9 * 1e3);
}

TEST_CASE("what sharded state sends runs beside the products, but for the ends of a pass") {
  Point p = wide(1, 2);
  p.dp = 2;
  const double gemms = step_ms(ideal(p));
  // A layer's weights take half as long as its forward.
  Machine machine = ideal_machine();
  const double layer = 12.0 * 2048 * 2048 * 2, gather_ms = 0.5;
  for (Link& link : machine.node.links) link.bandwidth = layer / 2 / (gather_ms * 1e-3);
  for (const Zero zero : {Zero::stage_1, Zero::stage_2, Zero::stage_3}) {
    INFO("zero " << name_of(zero));
    p.zero = zero;
    const double all = 16 * gather_ms * (zero == Zero::stage_3 ? 3 : 2);
    const double exposed = step_ms(simulated(p, machine, ideal_framework())) - gemms;
    // A first layer's weights forward, a last one's backward, and the gradients that are ready last.
    CHECK(exposed > 0.9 * gather_ms);
    CHECK(exposed < 4 * gather_ms);
    CHECK(exposed < 0.15 * all);
  }
}
