#include "engine/nn/attention.h"

#include "engine/ops/ops.h"

namespace mbench {
Attention::Attention(ParameterStore& store, const Plan& plan, const AttentionSpec& spec, Regions drop)
    : spec_(spec),
      qkv_(store, plan, spec.qkv),
      proj_(store, plan, spec.proj),
      dropout_site_(site_of(spec.name + ".dropout")),
      core_(make_attention_core(plan)),
      core_checkpoint_(drop.has(Region::core_attention)) {
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); plan.role(spec.qkv.role).weight[axis].sharded(0))
      head_axes_.add(axis);
}

AttentionSizes Attention::sizes(const Context& c, const Tensor& qkv) const {
  const Shape& s = qkv.shape();
  const std::int64_t heads = s[2] * spec_.group();
  return {s[0],         s[1],        spec_.heads,  heads,        c.groups.over(head_axes_).rank() * heads,
          spec_.qk_dim, spec_.v_dim, spec_.causal, spec_.group()};
}

AttentionParts Attention::parts_of(const Tensor& qkv) const {
  const Shape& s = qkv.shape();
  const auto part = [&](std::int64_t first, std::int64_t dim) {
    return ops::Matrix(qkv, s[0], dim, s[1] * s[2] * s[3], first, s[3]);
  };
  const std::int64_t key = spec_.group() * spec_.qk_dim;
  return {part(0, spec_.qk_dim), part(key, spec_.qk_dim), part(key + spec_.qk_dim, spec_.v_dim)};
}

void Attention::turn(Context& c, const Tensor& qkv, bool back) const {
  if (!spec_.rope) return;
  const Tensor& angles = c.angles.get(c.device, *spec_.rope, spec_.qk_dim, qkv.shape()[0]);
  run(c.device, ops::Rotary{qkv, angles, spec_.group() + 1, spec_.qk_dim, 0, back});
}

Tensor Attention::forward(Context& c, const MicroBatch& batch, Tensor x,
                          std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  {
    const Tensor qkv = qkv_.forward_with_bias(c, std::move(x), saved.qkv_linear);
    const std::int64_t d = (spec_.group() + 1) * spec_.qk_dim + spec_.v_dim;
    saved.qkv = qkv.view({qkv.shape()[0], qkv.shape()[1], qkv.shape()[2] / d, d});
  }
  turn(c, saved.qkv, false);
  const Tensor context =
      core_->forward(c, batch, dropout_site_, sizes(c, saved.qkv), parts_of(saved.qkv), saved.core);
  core_checkpoint_.drop(saved.core);
  return proj_.forward(c, context, saved.proj);
}

Tensor Attention::backward(Context& c, const MicroBatch& batch, Tensor dy,
                           std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  Tensor dqkv;
  {
    const Tensor dcontext = proj_.backward(c, std::move(dy), saved.proj);
    const AttentionSizes n = sizes(c, saved.qkv);
    const AttentionParts parts = parts_of(saved.qkv);
    core_checkpoint_.restore(c, [&] { core_->forward(c, batch, dropout_site_, n, parts, saved.core); });
    dqkv = c.activation(saved.qkv.shape(), "qkv gradient");
    core_->backward(c, batch, dropout_site_, n, dcontext, parts, parts_of(dqkv), saved.core);
    turn(c, dqkv, true);
  }
  saved.qkv.reset();
  const Shape& s = dqkv.shape();
  return qkv_.backward(c, dqkv.view({s[0], s[1], s[2] * s[3]}), saved.qkv_linear);
}

}  // namespace mbench
