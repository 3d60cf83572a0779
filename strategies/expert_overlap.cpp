// Experts' exchange overlapped with another micro batch (Megatron-Core: combined 1F1B, --overlap-moe-expert-parallel-comm): the forward of
// one and the backward of another take turns, and each computes while the other's tokens travel. The schedule is pipeline.cpp's.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kOff = one_of("overlap_moe", "false");

MaybeFault refuse(const Point& p) {
  if (!p.overlap_moe) {
    if (!p.delay_wgrad) return std::nullopt;
    return infeasible(
        {one_of("delay_wgrad", "false"), one_of("overlap_moe", "true")},
        "delay_wgrad true with overlap_moe false: there is nothing to make gradients of weights meanwhile");
  }
  if (p.ep == 1) return infeasible({kOff, divisor("ep", p.model.experts)}, "overlap_moe true with ep 1");
  if (p.micro_batches() == 1)
    return infeasible({kOff, multiple("global_batch", 2 * p.micro_batch * p.dp)},
                      "overlap_moe true with 1 micro batch");
  if (p.schedule != ScheduleKind::one_f_one_b && p.schedule != ScheduleKind::interleaved &&
      p.schedule != ScheduleKind::dualpipev)
    return infeasible({one_of("schedule", "1f1b|interleaved|dualpipev"), kOff},
                      "overlap_moe true with schedule {}, which has no backward next to a forward",
                      name_of(p.schedule));
  if (p.ep_communication == EpCommunication::all_gather)
    return infeasible({one_of("ep_communication", "all_to_all|flex"), kOff},
                      "overlap_moe true with ep_communication all_gather, which sends no tokens to experts");
  if (p.capture.step) return not_built_in({one_of("capture", "false"), kOff}, "overlap_moe with capture");
  if (p.defer_embedding_wgrad)
    return not_built_in({one_of("defer_embedding_wgrad", "false"), kOff}, "overlap_moe with defer_embedding_wgrad");
  if (p.adapter.on() && p.delay_wgrad)
    return not_built_in({one_of("delay_wgrad", "false")}, "delay_wgrad with an adapter");
  return std::nullopt;
}

}  // namespace

Strategy expert_overlap() {
  return {"expert_overlap", {"overlap_moe", "delay_wgrad"}, refuse, nullptr, nullptr};
}

}  // namespace mbench::strategies
