// When an MoE's shared experts compute: what that takes of a step's time, and of memory.
#include "engine/sim/run/simulate.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/engine/sim/threaded/threaded_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

constexpr const char* kMachine = "H100-SXM5-80GB";

// Two nodes, so that rows travel for long.
Point mixture(EpCommunication communication) {
  Point p;
  p.model = {"mixture", "mixtral", 4, 2048, 16, 4096, 4096, 4096};
  p.model.kv_heads = 16;
  p.model.experts = 32, p.model.active_experts = 4, p.model.expert_ffn = 1024, p.model.shared_experts = 2;
  p.seq = 4096;
  p.precision = Precision::bf16, p.attention = AttentionKind::flash;
  p.micro_batch = 1, p.global_batch = 8;
  p.tp = 2, p.dp = 8, p.ep = 16, p.etp = 1, p.sequence_parallel = true;
  p.ep_communication = communication;
  p.framework.preset = "megatron-core";
  return p;
}

Simulation run_as(Point p, const char* overlap) {
  p.framework.options["shared_expert_overlap"] = overlap;
  return simulated(p, find_machine(kMachine, "test"), ideal_framework(), 16);
}

}  // namespace

TEST_CASE("shared experts in parts compute while tokens travel, in turn they do not") {
  for (const EpCommunication communication : {EpCommunication::all_to_all, EpCommunication::flex}) {
    const Point p = mixture(communication);
    const double in_turn = step_ms(run_as(p, "false")), in_parts = step_ms(run_as(p, "true"));
    INFO(name_of(communication) << ": " << in_turn << " ms in turn, " << in_parts << " in parts");
    CHECK(in_parts < 0.99 * in_turn);
    Point none = p;
    none.model.shared_experts = 0;
    CHECK(step_ms(run_as(none, "true")) == step_ms(run_as(none, "false")));
  }
}

TEST_CASE("shared experts in parts keep their input gathered over tp") {
  Point p = mixture(EpCommunication::all_to_all);
  p.model.vocab = 65536, p.micro_batch = 4,
  p.global_batch = 32;  // the peak is at the logits, where all layers' tensors are kept
  const auto peak = [](const Point& point, const char* overlap) {
    return run_as(point, overlap).peak_by_stage.front().total;
  };
  // In each layer, 16 bits of each position: the router keeps this rank's half of them too.
  const auto gathered =
      static_cast<std::uint64_t>(p.model.layers * p.seq * p.micro_batch * p.model.hidden) * sizeof(std::uint16_t);
  CHECK(peak(p, "true") == peak(p, "false") + gathered);
  Point whole = p;
  whole.tp = 1, whole.dp = 16, whole.global_batch = 64, whole.sequence_parallel = false, whole.etp = 0;
  CHECK(peak(whole, "true") == peak(whole, "false"));
}

TEST_CASE("a replayed step of shared experts in parts takes as long as one in threads") {
  Point p = mixture(EpCommunication::all_to_all);
  p.framework.options["shared_expert_overlap"] = "true";
  const Machine machine = find_machine(kMachine, "test");
  const Plan plan = plan_on(ideal_framework(), p);
  CHECK(step_ms(simulate_point(p, plan, machine, 16)) ==
        Approx(step_ms(run_in_threads(p, plan, machine, 16))).epsilon(1e-9));
}
