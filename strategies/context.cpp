// Context parallelism (Megatron-Core): the sequence is split in all of the model, attention included, where the ranks bring
// one another keys and values, or change heads for positions. State mixers always change heads for positions.
#include <algorithm>

#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// Groups of heads that a tensor-parallel rank has, each with keys and values of its own.
std::int64_t local_groups(const Point& p) {
  const ModelSpec& m = p.model;
  const std::int64_t kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  return std::max<std::int64_t>(1, kv_heads / p.tp);
}

// What the sequence is cut into.
std::int64_t parts(const Point& p) {
  return p.cp_communication == CpCommunication::all_to_all ? p.cp : 2 * p.cp;
}

// Ranks divide the heads of a state mixer, by whole groups of them or within each group (engine/nn/layers/scan_share.h).
MaybeFault refuse_state_mixers(const Point& p) {
  const ModelSpec& m = p.model;
  for (const MixerKind kind : {MixerKind::mamba, MixerKind::short_conv, MixerKind::lightning})
    if (m.mixes(kind))
      return not_built_in({exactly("cp", 1)}, "cp {} with mixer {} (model {})", p.cp, name_of(kind), m.name);
  if (!m.has_scans() || m.state_groups % p.tp != 0) return std::nullopt;
  const std::int64_t heads = m.state_heads / p.tp, groups = m.state_groups / p.tp;
  if (heads % p.cp != 0)
    return infeasible({divisor("cp", heads)},
                      "cp {} does not divide the {} heads of state mixers of a tensor-parallel rank", p.cp, heads);
  if (groups % p.cp != 0 && p.cp % groups != 0)
    return infeasible({divisor("cp", groups)},
                      "cp {} neither divides the {} groups of state mixers of a tensor-parallel rank nor is a multiple "
                      "of them",
                      p.cp, groups);
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  if (p.cp == 1) return std::nullopt;
  if (p.seq % parts(p) != 0)
    return infeasible({multiple("seq", parts(p))}, "cp {} by {} cuts a sequence into {}, got seq {}", p.cp,
                      name_of(p.cp_communication), parts(p), p.seq);
  if (auto fault = refuse_state_mixers(p)) return fault;
  if (!p.model.mixes(MixerKind::attention)) return std::nullopt;
  if (p.cp_communication == CpCommunication::all_to_all) {
    if (local_groups(p) % p.cp == 0) return std::nullopt;
    return infeasible({divisor("cp", local_groups(p)), one_of("cp_communication", "ring|all_gather")},
                      "cp {} by all_to_all does not divide the {} key and value heads of a tensor-parallel rank", p.cp,
                      local_groups(p));
  }
  if (p.attention != AttentionKind::flash)
    return not_built_in({one_of("attention", "flash"), one_of("cp_communication", "all_to_all")},
                        "cp_communication {} with attention {}, which keeps probabilities,",
                        name_of(p.cp_communication), name_of(p.attention));
  if (framework_of(p.framework)->keeps.attention_mask)
    return not_built_in({one_of("framework.preset", "mbench"), one_of("cp_communication", "all_to_all")},
                        "cp_communication {} with framework {}, which keeps a mask of all positions,",
                        name_of(p.cp_communication), p.framework.preset);
  return std::nullopt;
}

std::vector<Choice> choices(const Point& p, std::int64_t devices) {
  Choice cp{"cp", {}}, communication{"cp_communication", {}};
  const auto can = [](Point other) {
    other.tp_comm_overlap = false, other.tp_gathers = TpGathers::block;  // which want what a search has yet to choose
    return !refuse(other) && !sequence().why_not(other) && !expert().why_not(other);
  };
  Point other = p;
  // Each of a rank's two parts of a sequence has the rows that a tensor core multiplies at once, at least; more ranks have less to do
  // than to say to each other.
  constexpr std::int64_t kRows = 16;
  for (const std::int64_t n : divisors(p.seq, std::clamp<std::int64_t>(p.seq / (2 * kRows), 1, devices))) {
    other.cp = n;
    if (can(other)) cp.values.push_back(n);
  }
  other = p;
  for (const CpCommunication c : {CpCommunication::all_gather, CpCommunication::ring, CpCommunication::all_to_all}) {
    if (p.cp == 1 && c != p.cp_communication) continue;  // of one rank they are all the same
    other.cp_communication = c;
    if (can(other)) communication.values.push_back(name_of(c));
  }
  return {cp, communication};
}

void write(const Point& p, Plan& plan) {
  plan.mesh.resize(Axis::cp, static_cast<int>(p.cp));
  plan.cp_communication = p.cp_communication;
  plan.hidden = plan.hidden.with(Axis::cp, shard(0), shard(0));
}

}  // namespace

Strategy context() {
  return {"context", {"cp", "cp_communication"}, refuse, choices, write};
}

}  // namespace mbench::strategies
