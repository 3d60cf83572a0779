// Mixtures of experts: how tokens find them, whole experts on different ranks (expert parallelism, ep) and parts of one
// expert on several (etp). Both fold over tp x cp x dp (Liu et al. 2025, "MoE Parallel Folding"): with etp = tp the tokens
// of a tensor-parallel group go through the same parts of experts together, as through a dense block; with etp 1 every
// rank sends its own; between the two, the tokens of etp neighbouring ranks are gathered and go together. Over ep rows are sent to
// their experts, or all tokens are gathered, each rank computes what its experts have to do with them, and the sums are
// reduce-scattered; or a token goes once to each rank that has any of its experts, which sums what they make of it (Megatron-Core's
// dispatchers `alltoall`, `allgather` and `flex`).
#include <algorithm>
#include <numeric>

#include "strategies/routing.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

std::int64_t width_of_expert(const ModelSpec& m) {
  return m.expert_ffn == 0 ? m.ffn : m.expert_ffn;
}

// The groups of ranks within a tensor-parallel group that dispatch tokens of their own.
std::int64_t parts_of_sequence(const Point& p) {
  // Other rules ask before an etp beyond tp is refused.
  return p.sequence_parallel ? std::max<std::int64_t>(1, p.tp / p.expert_tp()) : 1;
}

// Positions of a sample that a rank dispatches together.
std::int64_t dispatched_seq(const Point& p) {
  return p.seq / p.cp / parts_of_sequence(p);
}

// Of those, how many at least stand one after the other: where the ranks of cp have two chunks each, some may have a part of
// both.
std::int64_t neighbouring_seq(const Point& p) {
  const std::int64_t seq = dispatched_seq(p);
  const bool chunks = p.cp > 1 && p.cp_communication != CpCommunication::all_to_all;
  return chunks && parts_of_sequence(p) % 2 == 1 ? seq / 2 : seq;
}

// Any so many tokens one after the other visit all experts equally often (ops/route.h); 0: however many, they do not.
std::int64_t balanced_run(const ModelSpec& m) {
  const RoutingSpec& routing = m.parts().routing;
  const bool limited = routing.chosen_groups < routing.groups;
  const std::int64_t groups = limited ? routing.groups : 1, chosen = limited ? routing.chosen_groups : 1;
  if (m.active_experts % chosen != 0) return 0;
  const std::int64_t size = m.experts / groups, visits = groups * (size / std::gcd(size, m.active_experts / chosen));
  return visits / std::gcd(visits, chosen);
}

constexpr Way kAllToAll = one_of("ep_communication", "all_to_all");

MaybeFault refuse_sizes(const Point& p) {
  const std::int64_t etp = p.expert_tp(), replicas = p.tp * p.cp * p.dp;
  if (p.tp % etp != 0) return infeasible({divisor("etp", p.tp)}, "etp {} does not divide tp {}", etp, p.tp);
  if (p.model.experts % p.ep != 0)
    return infeasible({divisor("ep", p.model.experts)}, "ep {} does not divide the {} experts", p.ep, p.model.experts);
  if (replicas % (etp * p.ep) != 0)
    return infeasible({divisor("ep", p.model.experts)}, "etp {} x ep {} does not divide tp {} x cp {} x dp {}", etp,
                      p.ep, p.tp, p.cp, p.dp);
  if (etp != p.tp && !p.sequence_parallel)
    return infeasible({one_of("sequence_parallel", "true"), exactly("etp", p.tp)},
                      "etp {} with tp {} sends each part of a sequence by itself", etp, p.tp);
  if (width_of_expert(p.model) % etp != 0)
    return infeasible({divisor("etp", p.tp), divisor("tp", p.model.heads)}, "etp {} does not divide expert_ffn {}", etp,
                      width_of_expert(p.model));
  const std::int64_t shared = p.model.shared_experts == 0 ? 0 : p.model.shared_width();
  if (shared % p.tp != 0)
    return infeasible({divisor("tp", shared)}, "tp {} does not divide the {} columns of the shared experts", p.tp,
                      shared);
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  const ModelSpec& m = p.model;
  if (m.experts == 0) {
    if (p.ep > 1) return infeasible({exactly("ep", 1)}, "ep {} of a model without experts", p.ep);
    if (p.etp > 1) return infeasible({exactly("etp", 1)}, "etp {} of a model without experts", p.etp);
    if (p.ep_communication != EpCommunication::all_to_all)
      return infeasible({kAllToAll}, "ep_communication {} of a model without experts", name_of(p.ep_communication));
    return std::nullopt;
  }
  if (const MaybeFault refusal = refuse_sizes(p)) return refusal;
  if (p.routing_imbalance > 1 && p.router.routing != Routing::learned)
    return infeasible({one_of("router", "learned"), one_of("routing_imbalance", "1")},
                      "routing_imbalance {} with router {}, which has none", p.routing_imbalance, str(p.router));
  if (p.ep_communication != EpCommunication::all_to_all && p.router.routing == Routing::capacity)
    return infeasible({one_of("router", "balanced|learned"), kAllToAll},
                      "ep_communication {} with router {}, whose capacity is of the tokens that a rank sends",
                      name_of(p.ep_communication), str(p.router));
  return std::nullopt;
}

std::vector<Choice> choices(const Point& p, std::int64_t) {
  if (p.model.experts == 0) return {};
  Choice ep{"ep", {}}, etp{"etp", {}};
  for (const std::int64_t n : divisors(p.model.experts, p.tp * p.cp * p.dp / p.expert_tp()))
    if (p.tp * p.cp * p.dp / p.expert_tp() % n == 0) ep.values.push_back(n);
  for (const std::int64_t n : divisors(width_of_expert(p.model), p.tp))
    if (p.tp % n == 0 && (n == p.tp || p.sequence_parallel)) etp.values.push_back(n);
  // What one dispatcher does for a layout another does as well, at another cost.
  Choice how{"ep_communication", {name_of(EpCommunication::all_to_all)}, true};
  if (p.router.routing != Routing::capacity && p.ep > 1)
    for (const EpCommunication other : {EpCommunication::all_gather, EpCommunication::flex})
      how.values.push_back(name_of(other));
  return {etp, ep, how};
}

void write(const Point& p, Plan& plan) {
  if (p.model.experts == 0) return;
  plan.router = p.router;
  plan.equal_shares = has_equal_shares(p);
  plan.routing_imbalance = p.routing_imbalance;
  plan.ep_communication = p.ep_communication;
  plan.mesh.resize(Axis::etp, static_cast<int>(p.expert_tp()));
  plan.mesh.resize(Axis::ep, static_cast<int>(p.ep));
  // Tokens arrive as a dense block's would where their experts are cut as it is; else those of the ranks that share an expert are
  // gathered: of etp neighbours of tp, each of which has its part of the sequence.
  const Axis gathered = p.expert_tp() == p.tp ? Axis::tp : Axis::etp;
  Flow hidden = gathered == Axis::tp ? plan.hidden : plan.hidden.with(Axis::etp, shard(0), shard(0));
  // Which tokens a rank of ep has is no matter here: they are put one after the other.
  const bool gathers = p.ep_communication == EpCommunication::all_gather;
  if (gathers) hidden = hidden.with(Axis::ep, shard(0), shard(0));
  Flow tokens = hidden.with(gathered, replicate, partial), sums = hidden.with(gathered, partial, replicate);
  if (gathers) tokens = tokens.with(Axis::ep, replicate, partial), sums = sums.with(Axis::ep, partial, replicate);
  const Spread by_expert(Axis::ep, shard(0));
  const auto role = [&](Role r) -> LinearPlan& { return plan.linear[static_cast<std::size_t>(r)]; };
  role(Role::expert_column) = {by_expert.with(Axis::etp, shard(1)), hidden, tokens, tokens, tokens};
  role(Role::expert_row) = {by_expert.with(Axis::etp, shard(2)), sums, sums, sums, hidden};
}

}  // namespace

bool has_dense(const ModelSpec& m) {
  for (std::int64_t i = 0; i < m.layers; ++i)
    if (!m.has_experts(i) && (m.hybrid_pattern.empty() || !m.mixer_at(i))) return true;
  return false;
}

bool has_equal_shares(const Point& p) {
  if (p.router.routing != Routing::balanced) return false;
  const std::int64_t run = balanced_run(p.model), seq = neighbouring_seq(p);
  return run > 0 && (seq == p.seq ? seq * p.micro_batch : seq) % run == 0;
}

std::int64_t dispatched_tokens(const Point& p) {
  return dispatched_seq(p) * p.micro_batch;
}

bool reads_rows(const Point& p) {
  const bool on_device = p.expert_rank_capacity > 0 && p.simulated();
  return p.model.experts > 0 && p.router.routing != Routing::capacity && !has_equal_shares(p) && !on_device;
}

Strategy expert() {
  return {"expert", {"ep", "etp", "ep_communication", "router", "routing_imbalance"}, refuse, choices, write};
}

}  // namespace mbench::strategies
