// Static room for the rows of a rank's experts (Megatron-Core's experts without synchronization, --moe-expert-rank-capacity-factor), and
// pages for what they keep (--moe-paged-stash). Its documentation: docs/user-guide/features/paged_stash.md; what it refuses:
// TransformerConfig.__post_init__.
#include <algorithm>
#include <cmath>

#include "strategies/routing.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kNoRoom = exactly("expert_rank_capacity", 0), kNoStash = exactly("paged_stash", 0);

// The most forwards of layers with experts that wait for their backward, on a stage; with `stashed` without the layers before the loss,
// whose backward follows at once.
std::int64_t waiting_on(const Plan& plan, std::size_t stage, bool stashed) {
  std::int64_t now = 0, most = 0;
  for (const Action& a : plan.schedule[stage]) {
    const ChunkPlan& chunk = plan.chunks[stage][static_cast<std::size_t>(a.chunk)];
    const std::int64_t layers = std::max(0, chunk.expert_layers - (stashed && chunk.last ? 1 : 0));
    if (a.part > 0) continue;
    if (a.kind == Action::Kind::forward) most = std::max(most, now += layers);
    if (a.kind == Action::Kind::backward) now -= layers;
  }
  return most;
}

ExpertRoom room_of(const Point& p) {
  ExpertRoom room;
  room.mean = dispatched_tokens(p) * p.model.active_experts;
  // Rounded as by HybridEP's manager (setup_metadata), which then pads to the multiple that its kernels want.
  room.rows = static_cast<std::int64_t>(static_cast<double>(room.mean) * p.expert_rank_capacity);
  room.stash = p.paged_stash;
  return room;
}

MaybeFault refuse_capacity(const Point& p) {
  const double capacity = p.expert_rank_capacity;
  if (p.ep_communication != EpCommunication::flex)
    return infeasible({one_of("ep_communication", "flex"), kNoRoom},
                      "expert_rank_capacity {} with ep_communication {}, whose tensors follow the rows", capacity,
                      name_of(p.ep_communication));
  if (p.ep == 1)
    return infeasible({kNoRoom}, "expert_rank_capacity {} with ep 1: all rows of a rank are its own", capacity);
  if (capacity < 1)
    return infeasible({one_of("expert_rank_capacity", "1.5")},
                      "expert_rank_capacity {}: some rank gets the mean, and every step is run again", capacity);
  if (p.routing_imbalance > capacity)
    return infeasible({one_of("routing_imbalance", "1"), kNoRoom},
                      "expert_rank_capacity {} with routing_imbalance {}: every step is run again", capacity,
                      p.routing_imbalance);
  const Keeps& keeps = framework_of(p.framework)->keeps;
  if (keeps.reads_token_map)
    return infeasible({one_of("framework.index_map_fusion", "true"), kNoRoom},
                      "expert_rank_capacity {} with index_map_fusion false, whose host waits for rows", capacity);
  if (!keeps.grouped_experts)
    return infeasible({one_of("framework.grouped_experts", "true"), kNoRoom},
                      "expert_rank_capacity {} with grouped_experts false, whose host launches as many GEMMs as rows "
                      "want",
                      capacity);
  if (quantises(p.precision))
    return not_built_in({one_of("precision", "bf16"), kNoRoom}, "expert_rank_capacity {} with precision {}", capacity,
                        name_of(p.precision));
  if (p.replicas == Replicas::single_process)
    return not_built_in({one_of("replicas", "ranks"), kNoRoom}, "expert_rank_capacity {} with replicas single_process",
                        capacity);
  return std::nullopt;
}

// Pages that the rows of a simulation, or balanced ones, do not fit into: every step would be run again.
MaybeFault refuse_pages(const Point& p) {
  // What the pipeline refuses it says itself.
  if (pipeline().why_not(p)) return std::nullopt;
  Plan plan;
  pipeline().write(p, plan);
  const ExpertRoom room = room_of(p);
  const auto rows = static_cast<std::int64_t>(std::ceil(static_cast<double>(room.mean) * p.routing_imbalance));
  const std::int64_t pages = ExpertRoom::pages_of(rows);
  for (std::size_t stage = 0; stage < plan.chunks.size(); ++stage) {
    const std::int64_t need = waiting_on(plan, stage, true) * pages,
                       got = room.pages_for(waiting_on(plan, stage, false));
    if (need > got)
      return infeasible({kNoStash},
                        "paged_stash {} with routing_imbalance {}, {} pages of {} rows on stage {} where {} are in "
                        "use: every step is run again",
                        p.paged_stash, p.routing_imbalance, got, ExpertRoom::kPageRows, stage, need);
  }
  return std::nullopt;
}

MaybeFault refuse_stash(const Point& p) {
  if (p.expert_rank_capacity == 0)
    return infeasible({kNoStash}, "paged_stash {} without expert_rank_capacity: tensors are as long as the rows",
                      p.paged_stash);
  const Regions& regions = p.recompute.regions;
  if (regions.has(Region::layer) || regions.has(Region::moe))
    return infeasible({one_of("recompute", "none|moe_act"), kNoStash},
                      "paged_stash {} with recompute {}, which keeps nothing within experts", p.paged_stash,
                      name_of(p.recompute));
  const OffloadedActivations& offloaded = p.offload_activations;
  if (offloaded.layers > 0 || offloaded.parts.has(OffloadedPart::expert_fc1) ||
      offloaded.parts.has(OffloadedPart::moe_act))
    return infeasible({one_of("offload_activations", "none|core_attn"), kNoStash},
                      "paged_stash {} with offload_activations {}, which takes the same tensors", p.paged_stash,
                      name_of(offloaded));
  if (auto fault = refuse_pages(p)) return fault;
  if (p.adapter.on()) return not_built_in({one_of("adapter", "none"), kNoStash}, "paged_stash with an adapter");
  if (p.overlap_moe)
    return not_built_in({one_of("overlap_moe", "false"), kNoStash},
                        "paged_stash with overlap_moe, whose micro batches take turns,");
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  const bool asked = p.expert_rank_capacity > 0 || p.paged_stash > 0;
  if (!asked) return std::nullopt;
  if (p.model.experts == 0) {
    if (p.paged_stash > 0) return infeasible({kNoStash}, "paged_stash {} of a model without experts", p.paged_stash);
    return infeasible({kNoRoom}, "expert_rank_capacity {} of a model without experts", p.expert_rank_capacity);
  }
  if (p.paged_stash > 0)
    if (auto fault = refuse_stash(p); fault && fault->outcome == Outcome::infeasible) return fault;
  if (auto fault = refuse_capacity(p)) return fault;
  return p.paged_stash > 0 ? refuse_stash(p) : std::nullopt;
}

// After the pipeline has made chunks and schedules.
void write(const Point& p, Plan& plan) {
  if (p.expert_rank_capacity == 0) return;
  plan.expert_room = room_of(p);
  for (std::size_t stage = 0; stage < plan.chunks.size(); ++stage)
    plan.expert_room.waiting.push_back(waiting_on(plan, stage, false));
}

}  // namespace

Strategy expert_room() {
  return {"expert_room", {"expert_rank_capacity", "paged_stash"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
