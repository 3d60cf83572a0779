// Tensor parallelism (Shoeybi et al. 2019, "Megatron-LM"): the first linear layer of a block is split by
// output, the second by input, so that a block communicates once forward and once backward. Heads go with the
// QKV rows. The embedding table is split by vocabulary; its product is a sum over shards, and the logits stay
// split. Or, with `vocab_parallel` false, the table is whole on every rank, and the logits, split as they are made, are gathered.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kParallel = one_of("vocab_parallel", "true");

MaybeFault refuse(const Point& p) {
  const ModelSpec& m = p.model;
  if (!p.vocab_parallel) {
    if (p.tp == 1) return infeasible({within("tp", 2, m.heads), kParallel}, "vocab_parallel false with tp 1");
    if (m.ties_embedding())
      return infeasible({one_of("model.tied_embedding", "false"), kParallel},
                        "vocab_parallel false with a tied table, which logits have split");
    if (m.mtp_layers > 0)
      return not_built_in({exactly("model.mtp_layers", 0), kParallel}, "vocab_parallel false with mtp_layers {}",
                          m.mtp_layers);
  }
  if (m.heads % p.tp != 0)
    return infeasible({divisor("tp", m.heads)}, "tp {} does not divide the {} heads", p.tp, m.heads);
  const std::int64_t kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  if (kv_heads % p.tp != 0 && p.tp % kv_heads != 0)
    return infeasible({divisor("tp", m.heads)},
                      "tp {} neither divides the {} key and value heads nor is a multiple of them", p.tp, kv_heads);
  if (m.state_groups > 0 && m.state_groups % p.tp != 0)
    return infeasible({divisor("tp", m.state_groups)}, "tp {} does not divide the {} groups of state mixers", p.tp,
                      m.state_groups);
  if (m.mixes(MixerKind::short_conv) && m.conv_groups() % p.tp != 0)
    return infeasible({divisor("tp", m.conv_groups())},
                      "tp {} does not divide the {} groups of channels of short convolutions", p.tp, m.conv_groups());
  if (m.ffn % p.tp != 0) return infeasible({divisor("tp", m.ffn)}, "tp {} does not divide ffn {}", p.tp, m.ffn);
  return std::nullopt;
}

std::vector<Choice> choices(const Point& p, std::int64_t devices) {
  Choice tp{"tp", {}};
  const std::int64_t kv_heads = p.model.kv_heads == 0 ? p.model.heads : p.model.kv_heads;
  for (const std::int64_t n : divisors(p.model.heads, devices))
    if ((kv_heads % n == 0 || n % kv_heads == 0) && p.model.ffn % n == 0 && p.model.state_groups % n == 0 &&
        (!p.model.mixes(MixerKind::short_conv) || p.model.conv_groups() % n == 0) &&
        (!p.sequence_parallel || p.seq % (n * p.cp) == 0))
      tp.values.push_back(n);
  return {tp};
}

void write(const Point& p, Plan& plan) {
  plan.mesh.resize(Axis::tp, static_cast<int>(p.tp));
  const auto on_tp = [&](Placement value, Placement gradient) { return plan.hidden.with(Axis::tp, value, gradient); };
  const Flow whole = on_tp(replicate, replicate);
  const Flow copied = on_tp(replicate, partial);  // a value every shard of the weight consumes
  const Flow summed = on_tp(partial, replicate);  // a sum over shards
  const Flow split_last = on_tp(shard(2), shard(2));
  const auto role = [&](Role r) -> LinearPlan& { return plan.linear[static_cast<std::size_t>(r)]; };
  const Spread by_rows(Axis::tp, shard(0)), by_columns(Axis::tp, shard(1));
  role(Role::column) = {by_rows, plan.hidden, copied, split_last, split_last};
  role(Role::row) = {by_columns, split_last, split_last, summed, plan.hidden};
  role(Role::vocabulary) = p.vocab_parallel ? LinearPlan{by_rows, whole, whole, summed, plan.hidden}
                                            : LinearPlan{Spread(), whole, whole, whole, plan.hidden};
  role(Role::logits) = {by_rows, plan.hidden, copied, split_last, p.vocab_parallel ? split_last : whole};
  role(Role::whole) = Plan::whole_on(plan.hidden);
  role(Role::inner_row) = {by_columns, split_last, split_last, summed, whole};
  role(Role::inner_column) = {by_rows, copied, copied, split_last, split_last};
}

}  // namespace

Strategy tensor() {
  return {"tensor", {"tp", "vocab_parallel"}, refuse, choices, write};
}

}  // namespace mbench::strategies
