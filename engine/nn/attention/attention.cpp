#include "engine/nn/attention/attention.h"

#include <utility>

#include "engine/nn/attention/rotary.h"
#include "engine/ops/add.h"
#include "engine/ops/column_gate.h"
#include "engine/ops/copy.h"
#include "engine/ops/matrix.h"
#include "engine/ops/rotary.h"
#include "engine/ops/run.h"
#include "engine/plan/framework.h"
#include "engine/point/statistics.h"

namespace mbench::nn {
namespace {

// A weight whose rows are not cut, of which each rank uses some.
LinearPlan uncut(const Plan& plan, Role role) {
  LinearPlan linear = plan.role(role);
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); linear.weight[axis].sharded(0)) linear.weight.set(axis, replicate);
  return linear;
}

bool groups_are_cut(const Plan& plan, const AttentionSpec& spec) {
  return spec.kv_heads % plan.mesh.size(axes_of_heads(plan, spec.qkv.role)) != 0;
}

std::optional<Linear> keys_and_values(ParameterStore& store, const Plan& plan, const AttentionSpec& spec) {
  if (!groups_are_cut(plan, spec)) return std::nullopt;
  const Axes axes = axes_of_heads(plan, spec.qkv.role);
  const std::int64_t ranks_of_group = plan.mesh.size(axes) / spec.kv_heads, width = spec.qk_dim + spec.v_dim;
  return Linear(store, plan, spec.keys_and_values(), uncut(plan, spec.qkv.role),
                store.groups().over(axes).rank() / ranks_of_group * width, width);
}

bool of_all_heads(const AttentionSpec& spec, const std::optional<NormSpec>& norm) {
  return norm && norm->width != spec.qk_dim;
}

// The tokens that a gamma acts on are the product's, and its heads are split as those are. Gammas of each head are cut as the heads are.
std::optional<ColumnsNorm> norm_of_heads(ParameterStore& store, const Plan& plan, const AttentionSpec& spec,
                                         const std::optional<NormSpec>& norm) {
  if (!norm || of_all_heads(spec, norm)) return std::nullopt;
  const LinearPlan& linear = plan.role(spec.qkv.role);
  return ColumnsNorm(store, *norm, linear.consumed.value, linear.gemm.value, linear.weight);
}

std::optional<AllHeadsNorm> norm_of_all_heads(ParameterStore& store, const Plan& plan, const AttentionSpec& spec,
                                              const std::optional<NormSpec>& norm) {
  if (!of_all_heads(spec, norm)) return std::nullopt;
  return AllHeadsNorm(store, *norm, axes_of_heads(plan, spec.qkv.role), plan.role(spec.qkv.role).consumed.value);
}

// A logit for each head, cut as the heads are.
Parameter* sinks_of(ParameterStore& store, const Plan& plan, const AttentionSpec& spec) {
  if (!spec.sinks) return nullptr;
  const LinearPlan& linear = plan.role(spec.qkv.role);
  return store.add(weight_of(*spec.sinks), linear.weight, linear.consumed.value, linear.gemm.value);
}

std::int64_t groups_in(const Tensor& qkv) {  // of all tokens
  const Shape& s = qkv.shape();
  return s[0] * s[1] * s[2];
}

}  // namespace

Attention::Attention(ParameterStore& store, const Plan& plan, const AttentionSpec& spec, Regions drop)
    : spec_(spec),
      documents_(in_chunks(plan.training.documents, plan.training.seq, spec.chunk)),
      head_axes_(axes_of_heads(plan, spec.qkv.role)),
      group_(groups_are_cut(plan, spec) ? spec.heads / plan.mesh.size(head_axes_) : spec.group()),
      kv_(keys_and_values(store, plan, spec)),
      qkv_(store, plan, kv_ ? spec.queries() : spec.qkv),
      q_norm_(norm_of_heads(store, plan, spec, spec.q_norm)),
      k_norm_(norm_of_heads(store, plan, spec, spec.k_norm)),
      all_q_norm_(norm_of_all_heads(store, plan, spec, spec.q_norm)),
      all_k_norm_(norm_of_all_heads(store, plan, spec, spec.k_norm)),
      sinks_(sinks_of(store, plan, spec)),
      proj_(store, plan, spec.proj),
      dropout_site_(site_of(spec.name + ".dropout")),
      core_(make_attention_core(plan)),
      core_checkpoint_(drop.has(Region::core_attention)),
      qkv_piece_(plan, OffloadedPart::qkv_linear),
      core_piece_(plan, OffloadedPart::core_attn),
      proj_piece_(plan, OffloadedPart::attn_proj),
      separate_(drop.has(Region::alternate_gemms)) {
  const bool norm = drop.has(Region::norm);
  if (kv_) kv_->in_layer(store, plan, norm, 2);
  qkv_.in_layer(store, plan, norm, kv_ ? 1 : 3);
  proj_.in_layer(store, plan, separate_);
  if (!kv_ && gates() == 0 && spec.qk_dim == spec.v_dim && group_ < 256)
    qkv_.stands_for(plan, {static_cast<std::uint8_t>(group_), 1, 1});
}

AttentionSizes Attention::sizes(const Context& c, const Shape& s) const {
  const std::int64_t heads = s[2] * group_;
  AttentionSizes n{s[0],         s[1],        spec_.heads,  heads, c.groups.over(head_axes_).rank() * heads,
                   spec_.qk_dim, spec_.v_dim, spec_.causal, group_};
  n.own_scale = spec_.scale, n.window = spec_.window, n.softcap = spec_.softcap, n.alibi = spec_.alibi;
  n.documents = documents_;
  if (sinks_ != nullptr) n.sinks = sinks_->value, n.dsinks = sinks_->gradient;
  return n;
}

AttentionParts Attention::parts_of(const Tensor& qkv, const Tensor& kv, const Tensor& normed) const {
  const auto part = [](const Tensor& t, std::int64_t first, std::int64_t dim) {
    const Shape& s = t.shape();
    return ops::Matrix(t, s[0], dim, s[1] * s[2] * s[3], first, s[3]);
  };
  const std::int64_t dim = spec_.qk_dim, queries = group_ * dim;
  AttentionParts parts{part(qkv, 0, dim), kv ? part(kv, 0, dim) : part(qkv, queries, dim),
                       kv ? part(kv, dim, spec_.v_dim) : part(qkv, queries + dim, spec_.v_dim)};
  if (normed) parts.q = part(normed, 0, dim), parts.k = part(normed, queries, dim);
  return parts;
}

AttentionParts Attention::parts_of(const Saved& saved) const {
  if (!saved.q) return parts_of(saved.qkv, saved.kv, saved.normed);
  const auto part = [](const Tensor& t, std::int64_t dim) {
    const Shape& s = t.shape();
    return ops::Matrix(t, s[0], dim, s[1] * s[2] * s[3], 0, s[3]);
  };
  return {part(saved.q, spec_.qk_dim), part(saved.k, spec_.qk_dim), part(saved.v, spec_.v_dim)};
}

Tensor Attention::part(Context& c, const Linear::Arrived& arrived, std::int64_t first, std::int64_t columns) const {
  const std::int64_t width = (group_ + 1) * spec_.qk_dim + spec_.v_dim, groups = qkv_.local_outputs() / width;
  const Tensor y = qkv_.make(c, arrived, {.groups = groups, .width = width, .first = first, .count = columns});
  const Shape& s = y.shape();
  return y.view({s[0], s[1], groups, columns});
}

Tensor Attention::turned(Context& c, Tensor heads) const {
  if (!spec_.rope) return heads;
  const Tensor& angles = c.angles.get(c.device, *spec_.rope, spec_.qk_dim, c.share(), c.training().positions_by());
  if (c.keeps().unfused_rotary) c.device.host_work(HostWork::call, kUnfusedRotaryCalls);
  run(c.device, ops::Rotary{heads, angles, heads.shape()[3] / spec_.qk_dim, spec_.qk_dim, 0, false});
  return heads;
}

void Attention::scale_queries(Context& c, const Tensor& qkv) const {
  if (spec_.temperature.scale == 0) return;
  const Tensor& factors =
      c.angles.get(c.device, spec_.temperature, spec_.qk_dim, c.share(), c.training().positions_by());
  run(c.device, ops::Rotary{qkv, factors, group_, spec_.qk_dim, 0, false});
}

Tensor Attention::keys(Context& c, const Linear::Arrived& arrived) const {
  return turned(c, part(c, arrived, group_ * spec_.qk_dim, spec_.qk_dim));
}

void Attention::keep_alternate_gemms(Mixer::Saved& kept) const {
  Saved& saved = static_cast<Saved&>(kept);
  saved.k.reset();
  saved.qkv_linear.forget_input();
}

Tensor Attention::make_others(Context& c, const MicroBatch&, Tensor x, Mixer::Saved& kept, bool output) const {
  Saved& saved = static_cast<Saved&>(kept);
  {
    const Linear::Arrived arrived = qkv_.arrive(c, x);
    saved.k = keys(c, arrived);
    qkv_.keep_input(c, std::move(x), arrived, saved.qkv_linear);
  }
  if (!output) return {};
  if (saved.output) return std::exchange(saved.output, Tensor());
  const Tensor context = saved.proj.x;
  return proj_.forward(c, context, saved.proj);
}

ops::Matrix Attention::heads_of(const Tensor& t, std::int64_t first, std::int64_t count) const {
  return {t, count, spec_.qk_dim, spec_.qk_dim, first * spec_.qk_dim, t.shape()[3]};
}

// Llama 4 norms behind the rotation. Without gamma that is the same: a rotation leaves the length of a head, and the norm is a number that
// follows from it.
void Attention::norm(Context& c, Saved& saved) const {
  const Shape& s = saved.qkv.shape();
  const std::int64_t batch = groups_in(saved.qkv);
  saved.normed = c.activation({s[0], s[1], s[2], (group_ + 1) * spec_.qk_dim}, "queries and keys after their norms");
  if (all_q_norm_) {
    const std::int64_t queries = group_ * spec_.qk_dim;
    all_q_norm_->forward(c, {saved.qkv, 0, queries}, {saved.normed, 0, queries}, saved.q_rstd);
    all_k_norm_->forward(c, {saved.qkv, queries, spec_.qk_dim}, {saved.normed, queries, spec_.qk_dim}, saved.k_rstd);
    return;
  }
  q_norm_->forward(c, heads_of(saved.qkv, 0, group_), heads_of(saved.normed, 0, group_), batch, saved.q_rstd);
  const ops::Matrix keys = saved.kv ? heads_of(saved.kv, 0, 1) : heads_of(saved.qkv, group_, 1);
  k_norm_->forward(c, keys, heads_of(saved.normed, group_, 1), batch, saved.k_rstd);
}

void Attention::norm_back(Context& c, const Tensor& dqkv, const Tensor& dkv, Saved& saved) const {
  const std::int64_t batch = groups_in(dqkv);
  if (all_q_norm_) {
    const std::int64_t queries = group_ * spec_.qk_dim;
    all_q_norm_->backward(c, {dqkv, 0, queries}, {saved.qkv, 0, queries}, saved.q_rstd);
    all_k_norm_->backward(c, {dqkv, queries, spec_.qk_dim}, {saved.qkv, queries, spec_.qk_dim}, saved.k_rstd);
    return;
  }
  const ops::Matrix dqueries = heads_of(dqkv, 0, group_);
  q_norm_->backward(c, dqueries, heads_of(saved.qkv, 0, group_), dqueries, batch, saved.q_rstd);
  const ops::Matrix keys = saved.kv ? heads_of(saved.kv, 0, 1) : heads_of(saved.qkv, group_, 1);
  const ops::Matrix dkeys = dkv ? heads_of(dkv, 0, 1) : heads_of(dqkv, group_, 1);
  k_norm_->backward(c, dkeys, keys, dkeys, batch, saved.k_rstd);
}

void Attention::turn(Context& c, const Tensor& qkv, const Tensor& kv, bool back) const {
  scale_queries(c, qkv);  // before or behind the rotation is the same
  if (!spec_.rope) return;
  const Tensor& angles = c.angles.get(c.device, *spec_.rope, spec_.qk_dim, c.share(), c.training().positions_by());
  // Frameworks turn queries and keys apart.
  if (c.keeps().unfused_rotary) c.device.host_work(HostWork::call, 2 * kUnfusedRotaryCalls);
  run(c.device, ops::Rotary{qkv, angles, kv ? group_ : group_ + 1, spec_.qk_dim, 0, back});
  if (kv) run(c.device, ops::Rotary{kv, angles, 1, spec_.qk_dim, 0, back});
}

void Attention::project(Context& c, Tensor x, Saved& saved) const {
  const auto by_group = [](const Tensor& y, std::int64_t width) {
    const Shape& s = y.shape();
    return y.view({s[0], s[1], s[2] / width, width});
  };
  const std::int64_t queries = group_ * spec_.qk_dim, key_and_value = spec_.qk_dim + spec_.v_dim;
  const bool leaves = qkv_piece_.leaves(c);
  if (leaves) qkv_piece_.begin(c);
  saved.separate_keys = kv_.has_value();
  if (kv_) saved.kv = by_group(kv_->forward_with_bias(c, x, saved.kv_linear), key_and_value);
  saved.qkv = by_group(qkv_.forward_with_bias(c, std::move(x), saved.qkv_linear),
                       kv_ ? queries : queries + key_and_value + gates());
  if (!leaves) return;
  c.offload.add(saved.qkv_linear.x);
  c.offload.add(saved.kv_linear.x);
  saved.qkv_group = qkv_piece_.end(c, saved.qkv, saved.kv);
}

Tensor Attention::forward(Context& c, const MicroBatch& batch, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  const std::int64_t queries = group_ * spec_.qk_dim, key_and_value = spec_.qk_dim + spec_.v_dim;
  if (separate_) {
    const Linear::Arrived arrived = qkv_.arrive(c, x);
    saved.q = turned(c, part(c, arrived, 0, queries));
    scale_queries(c, saved.q);
    saved.k = keys(c, arrived);
    saved.v = part(c, arrived, queries + spec_.qk_dim, spec_.v_dim);
    saved.qkv_linear.x = std::move(x);
    const Shape& s = saved.q.shape();
    saved.qkv_shape = {s[0], s[1], s[2], queries + key_and_value};
    const Tensor y = attend(c, batch, saved);
    if (proj_.scatters_output()) saved.output = y;
    return y;
  }
  if (under_autocast(c.plan))
    for (int i = kv_ ? 2 : 1; i < c.plan.framework->autocast.qkv_inputs; ++i) {
      saved.casts.push_back(c.activation(x.shape(), "input of Q, K and V, cast again"));
      run(c.device, ops::Copy{x, saved.casts.back()});
    }
  project(c, std::move(x), saved);
  if (norms()) {
    norm(c, saved);
    turn(c, saved.normed, Tensor(), false);
  } else {
    turn(c, saved.qkv, saved.kv, false);
  }
  saved.qkv_shape = saved.qkv.shape();
  if (saved.kv) saved.kv_shape = saved.kv.shape();
  return attend(c, batch, saved);
}

Tensor Attention::attend(Context& c, const MicroBatch& batch, Saved& saved) const {
  const auto core = [&] {
    const Tensor y = core_->forward(c, batch, dropout_site_, sizes(c, saved.qkv_shape), parts_of(saved), saved.core);
    saved.kept_by_core = !core_checkpoint_.drop(saved.core) && core_->keeps_parts();
    if (saved.kept_by_core) {
      saved.normed.reset();
      if (!norms() && !spec_.gate) saved.qkv.reset(), saved.kv.reset();
    }
    return y;
  };
  const Tensor context = core_piece_.forward(
      c, saved.core_group, core, [&](const auto& keep) { keep(saved.qkv), keep(saved.kv), keep(saved.normed); });
  const auto project = [&](const Tensor& in) {
    return proj_piece_.forward(
        c, saved.proj_group, [&] { return proj_.forward(c, in, saved.proj); },
        [&](const auto& keep) { keep(saved.proj.x); });
  };
  if (!spec_.gate) return project(context);
  const Shape& s = saved.qkv.shape();
  saved.ungated = context.view({s[0], s[1], s[2], gates()});
  const Tensor gated = c.activation(context.shape(), "gated output of attention");
  run(c.device, ops::ColumnGate{saved.ungated, saved.qkv, gated.view(saved.ungated.shape()), first_gate()});
  return project(gated);
}

Tensor Attention::qkv_gradient(Context& c, const Saved& saved) const {
  const InParts parts(qkv_.parts());
  return c.activation(saved.qkv_shape, "qkv gradient");
}

Tensor Attention::backward(Context& c, const MicroBatch& batch, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  Tensor dqkv, dkv;
  {
    c.offload.bring_back(c.device, saved.proj_group);
    const Tensor dcontext = proj_.backward(c, std::move(dy), saved.proj);
    c.offload.bring_back(c.device, saved.core_group);
    if (spec_.gate) {
      const Tensor d = dcontext.view(saved.ungated.shape());
      dqkv = qkv_gradient(c, saved);
      run(c.device, ops::ColumnGateGrad{d, saved.ungated, saved.qkv, d, dqkv, first_gate()});
      saved.ungated.reset();
    }
    const AttentionSizes n = sizes(c, saved.qkv_shape);
    const AttentionParts parts = saved.kept_by_core ? AttentionParts() : parts_of(saved);
    core_checkpoint_.restore(c, [&] { core_->forward(c, batch, dropout_site_, n, parts, saved.core); });
    if (!dqkv) dqkv = qkv_gradient(c, saved);
    if (kv_) dkv = c.activation(saved.kv_shape, "key and value gradient");
    core_->backward(c, batch, dropout_site_, n, dcontext, parts, parts_of(dqkv, dkv, Tensor()), saved.core);
  }
  saved.normed.reset();
  saved.q.reset(), saved.k.reset(), saved.v.reset();
  turn(c, dqkv, dkv, true);
  if (norms()) norm_back(c, dqkv, dkv, saved);
  saved.qkv.reset();
  saved.kv.reset();
  const auto flat = [](Tensor& d) {
    const Shape s = d.shape();
    return std::exchange(d, Tensor()).view({s[0], s[1], s[2] * s[3]});
  };
  c.offload.bring_back(c.device, saved.qkv_group);
  const Tensor dx = qkv_.backward(c, flat(dqkv), saved.qkv_linear);
  saved.casts.clear();
  if (kv_) run(c.device, ops::Add{dx, kv_->backward(c, flat(dkv), saved.kv_linear), dx});
  return dx;
}

}  // namespace mbench::nn
