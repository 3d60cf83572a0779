// Static room for the rows of a rank's experts (Megatron-Core's experts without synchronization, --moe-expert-rank-capacity-factor), and
// pages for what they keep (--moe-paged-stash). Its documentation: docs/user-guide/features/paged_stash.md; what it refuses:
// TransformerConfig.__post_init__.
#include <algorithm>
#include <cmath>

#include "strategies/expert_pages.h"
#include "strategies/routing.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// By their text: a factor such as 0.5 has no whole numbers next to it.
constexpr Way kNoRoom = one_of("expert_rank_capacity", "0"), kNoStash = one_of("paged_stash", "0"),
              kNoHost = one_of("paged_stash_host", "0");

// That come to a rank with balanced routing.
std::int64_t balanced_rows(const Point& p) {
  return dispatched_tokens(p) * p.model.active_experts;
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
  if (p.replicas == Replicas::single_process)
    return not_built_in({one_of("replicas", "ranks"), kNoRoom}, "expert_rank_capacity {} with replicas single_process",
                        capacity);
  return std::nullopt;
}

// The part of a plan that says which pages there are.
std::optional<Plan> plan_of_pages(const Point& p) {
  // What these refuse they say themselves.
  const auto refused = [&](const Strategy& s) { return s.why_not && s.why_not(p); };
  if (refused(expert())) return std::nullopt;
  Plan plan;
  for (const Strategy& s : {model(), graph(), pipeline(), recompute()}) {
    if (refused(s)) return std::nullopt;
    s.write(p, plan);
  }
  return plan;
}

// The rows of a simulation's fullest rank, or balanced ones.
std::int64_t most_rows(const Point& p) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(balanced_rows(p)) * p.routing_imbalance));
}

// Pages that these rows do not fit into: every step would be run again.
MaybeFault refuse_pages(const Point& p) {
  const std::optional<Plan> plan = plan_of_pages(p);
  if (!plan) return std::nullopt;
  const auto pages = pages_for(p, *plan, balanced_rows(p));
  for (std::size_t stage = 0; stage < pages.size(); ++stage) {
    const FoundPages found = find_pages(p, *plan, stage, most_rows(p), pages[stage]);
    if (found.all) continue;
    const auto of = std::ranges::find(pages[stage], found.row_bytes, &ExpertRoom::Pages::row_bytes);
    const std::string host = p.paged_stash_host > 0 ? fmt::format(" and paged_stash_host {}", p.paged_stash_host) : "";
    return infeasible({kNoStash},
                      "paged_stash {}{} with routing_imbalance {}, {} pages of {} rows of {} bytes on stage {}, and {} "
                      "are free where a tensor wants {}: every step is run again",
                      p.paged_stash, host, p.routing_imbalance, of->device + of->host, ExpertRoom::kPageRows,
                      found.row_bytes, stage, found.free, found.wanted);
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
  if (p.paged_stash_host > 0 && p.capture.any())
    return not_built_in({one_of("capture", "false"), kNoHost}, "paged_stash_host {} with capture {}",
                        p.paged_stash_host, name_of(p.capture));
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  if (p.paged_stash_host > 0 && p.paged_stash == 0)
    return infeasible({kNoHost}, "paged_stash_host {} without paged_stash: nothing goes to pages", p.paged_stash_host);
  const bool asked = p.expert_rank_capacity > 0 || p.paged_stash > 0;
  if (!asked) return std::nullopt;
  if (p.model.experts == 0) {
    if (p.paged_stash > 0) return infeasible({kNoStash}, "paged_stash {} of a model without experts", p.paged_stash);
    return infeasible({kNoRoom}, "expert_rank_capacity {} of a model without experts", p.expert_rank_capacity);
  }
  MaybeFault stash = p.paged_stash > 0 ? refuse_stash(p) : std::nullopt;
  if (stash && stash->outcome == Outcome::infeasible) return stash;
  if (auto fault = refuse_capacity(p)) return fault;
  return stash;
}

// After the pipeline has made chunks and schedules, and recompute has said what its layers drop.
void write(const Point& p, Plan& plan) {
  if (p.expert_rank_capacity == 0) return;
  ExpertRoom& room = plan.expert_room;
  // Rounded as by HybridEP's manager (setup_metadata), which then pads to the multiple that its kernels want.
  room.rows = static_cast<std::int64_t>(static_cast<double>(balanced_rows(p)) * p.expert_rank_capacity);
  if (p.paged_stash == 0) return;
  room.pages = pages_for(p, plan, balanced_rows(p));
  if (!room.on_host()) return;
  for (std::size_t stage = 0; stage < room.pages.size(); ++stage)
    room.spills = room.spills || find_pages(p, plan, stage, most_rows(p), room.pages[stage]).host;
}

}  // namespace

Strategy expert_room() {
  return {"expert_room", {"expert_rank_capacity", "paged_stash", "paged_stash_host"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
