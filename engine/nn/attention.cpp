#include "engine/nn/attention.h"

#include <utility>

#include "engine/ops/ops.h"

namespace mbench {
namespace {

// The axes that cut the rows of the weight.
Axes cut_axes(const Plan& plan, Role role) {
  Axes axes;
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); plan.role(role).weight[axis].sharded(0)) axes.add(axis);
  return axes;
}

// A weight whose rows are not cut, of which each rank uses some.
LinearPlan uncut(const Plan& plan, Role role) {
  LinearPlan linear = plan.role(role);
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); linear.weight[axis].sharded(0))
      linear.weight.set(axis, replicate);
  return linear;
}

bool groups_are_cut(const Plan& plan, const AttentionSpec& spec) {
  return spec.kv_heads % plan.mesh.size(cut_axes(plan, spec.qkv.role)) != 0;
}

std::optional<Linear> keys_and_values(ParameterStore& store, const Plan& plan, const AttentionSpec& spec) {
  if (!groups_are_cut(plan, spec)) return std::nullopt;
  const Axes axes = cut_axes(plan, spec.qkv.role);
  const std::int64_t ranks_of_group = plan.mesh.size(axes) / spec.kv_heads, width = spec.qk_dim + spec.v_dim;
  return Linear(store, plan, spec.keys_and_values(), uncut(plan, spec.qkv.role),
                store.groups().over(axes).rank() / ranks_of_group * width, width);
}

}  // namespace

Attention::Attention(ParameterStore& store, const Plan& plan, const AttentionSpec& spec, Regions drop)
    : spec_(spec),
      head_axes_(cut_axes(plan, spec.qkv.role)),
      group_(groups_are_cut(plan, spec) ? spec.heads / plan.mesh.size(head_axes_) : spec.group()),
      kv_(keys_and_values(store, plan, spec)),
      qkv_(store, plan, kv_ ? spec.queries() : spec.qkv),
      proj_(store, plan, spec.proj),
      dropout_site_(site_of(spec.name + ".dropout")),
      core_(make_attention_core(plan)),
      core_checkpoint_(drop.has(Region::core_attention)) {}

AttentionSizes Attention::sizes(const Context& c, const Tensor& qkv) const {
  const Shape& s = qkv.shape();
  const std::int64_t heads = s[2] * group_;
  return {s[0],         s[1],        spec_.heads,  heads, c.groups.over(head_axes_).rank() * heads,
          spec_.qk_dim, spec_.v_dim, spec_.causal, group_};
}

AttentionParts Attention::parts_of(const Tensor& qkv, const Tensor& kv) const {
  const auto part = [](const Tensor& t, std::int64_t first, std::int64_t dim) {
    const Shape& s = t.shape();
    return ops::Matrix(t, s[0], dim, s[1] * s[2] * s[3], first, s[3]);
  };
  const Tensor& keys = kv ? kv : qkv;
  const std::int64_t key = kv ? 0 : group_ * spec_.qk_dim;
  return {part(qkv, 0, spec_.qk_dim), part(keys, key, spec_.qk_dim),
          part(keys, key + spec_.qk_dim, spec_.v_dim)};
}

void Attention::turn(Context& c, const Tensor& qkv, const Tensor& kv, bool back) const {
  if (!spec_.rope) return;
  const Tensor& angles = c.angles.get(c.device, *spec_.rope, spec_.qk_dim, qkv.shape()[0]);
  run(c.device, ops::Rotary{qkv, angles, kv ? group_ : group_ + 1, spec_.qk_dim, 0, back});
  if (kv) run(c.device, ops::Rotary{kv, angles, 1, spec_.qk_dim, 0, back});
}

Tensor Attention::forward(Context& c, const MicroBatch& batch, Tensor x,
                          std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  const auto by_group = [](const Tensor& y, std::int64_t width) {
    const Shape& s = y.shape();
    return y.view({s[0], s[1], s[2] / width, width});
  };
  const std::int64_t queries = group_ * spec_.qk_dim, key_and_value = spec_.qk_dim + spec_.v_dim;
  if (kv_) saved.kv = by_group(kv_->forward_with_bias(c, x, saved.kv_linear), key_and_value);
  saved.qkv = by_group(qkv_.forward_with_bias(c, std::move(x), saved.qkv_linear),
                       kv_ ? queries : queries + key_and_value);
  turn(c, saved.qkv, saved.kv, false);
  const Tensor context =
      core_->forward(c, batch, dropout_site_, sizes(c, saved.qkv), parts_of(saved.qkv, saved.kv), saved.core);
  core_checkpoint_.drop(saved.core);
  return proj_.forward(c, context, saved.proj);
}

Tensor Attention::backward(Context& c, const MicroBatch& batch, Tensor dy,
                           std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  Tensor dqkv, dkv;
  {
    const Tensor dcontext = proj_.backward(c, std::move(dy), saved.proj);
    const AttentionSizes n = sizes(c, saved.qkv);
    const AttentionParts parts = parts_of(saved.qkv, saved.kv);
    core_checkpoint_.restore(c, [&] { core_->forward(c, batch, dropout_site_, n, parts, saved.core); });
    dqkv = c.activation(saved.qkv.shape(), "qkv gradient");
    if (kv_) dkv = c.activation(saved.kv.shape(), "key and value gradient");
    core_->backward(c, batch, dropout_site_, n, dcontext, parts, parts_of(dqkv, dkv), saved.core);
    turn(c, dqkv, dkv, true);
  }
  saved.qkv.reset();
  saved.kv.reset();
  const auto flat = [](Tensor& d) {
    const Shape s = d.shape();
    return std::exchange(d, Tensor()).view({s[0], s[1], s[2] * s[3]});
  };
  const Tensor dx = qkv_.backward(c, flat(dqkv), saved.qkv_linear);
  if (kv_) run(c.device, ops::Add{dx, kv_->backward(c, flat(dkv), saved.kv_linear), dx});
  return dx;
}

}  // namespace mbench
