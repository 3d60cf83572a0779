#include "engine/nn/attention/latent_attention.h"

#include <utility>

#include "engine/nn/attention/rotary.h"
#include "engine/nn/runtime/column_groups.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/rotary.h"
#include "engine/ops/run.h"
#include "engine/ops/sum_blocks.h"
#include "engine/point/statistics.h"

namespace mbench::nn {
namespace {

// Columns [first, first + count) of every row of a tensor, as one matrix.
ops::Matrix columns(const Tensor& t, std::int64_t first, std::int64_t count) {
  return {t, t.shape().rows(), count, t.shape().cols(), first};
}

// The same of a [seq, batch, heads, width], one matrix for each head.
ops::Matrix columns_by_head(const Tensor& t, std::int64_t first, std::int64_t count) {
  const Shape& s = t.shape();
  return {t, s[0] * s[1], count, s[2] * s[3], first, s[3]};
}

// The norms of the latents act where the layer that makes them leaves them.
ColumnsNorm latent_norm(ParameterStore& store, const Plan& plan, const LatentAttentionSpec& spec,
                        const NormSpec& norm) {
  const Spread& made = plan.role(spec.down.role).output.value;
  return {store, norm, made, made};
}

}  // namespace

LatentAttention::LatentAttention(ParameterStore& store, const Plan& plan, const LatentAttentionSpec& spec, Regions drop)
    : spec_(spec),
      head_axes_(axes_of_heads(plan, spec.kv.role)),
      shared_(Transition::between(plan.role(spec.down.role).output, plan.role(spec.kv.role).consumed, plan.mesh)),
      down_(store, plan, spec.down),
      q_norm_(spec.q_norm ? std::optional(latent_norm(store, plan, spec, *spec.q_norm)) : std::nullopt),
      kv_norm_(latent_norm(store, plan, spec, spec.kv_norm)),
      q_(store, plan, spec.q),
      kv_(store, plan, spec.kv),
      proj_(store, plan, spec.proj),
      dropout_site_(site_of(spec.name + ".dropout")),
      core_(make_attention_core(plan)),
      core_checkpoint_(drop.has(Region::core_attention)),
      up_checkpoint_(drop.has(Region::mla_up_proj)),
      input_again_(drop.has(Region::norm)),
      qkv_piece_(plan, OffloadedPart::qkv_linear),
      core_piece_(plan, OffloadedPart::core_attn),
      proj_piece_(plan, OffloadedPart::attn_proj) {
  // Queries straight from the input are made from it again where they are dropped.
  const bool norm = drop.has(Region::norm), straight = !q_norm_;
  down_.in_layer(store, plan, norm || (straight && up_checkpoint_.dropped()));
  q_.in_layer(store, plan, norm && straight);
  kv_.in_layer(store, plan);
  proj_.in_layer(store, plan);
}

AttentionSizes LatentAttention::sizes(const Context& c, const Shape& s) const {
  AttentionSizes n{s[0],           s[1],        spec_.heads, s[2], c.groups.over(head_axes_).rank() * s[2],
                   spec_.qk_dim(), spec_.v_dim, spec_.causal};
  n.own_scale = spec_.scale;
  n.documents = c.training().documents;
  return n;
}

AttentionParts LatentAttention::parts_of(const Tensor& queries, const Tensor& keys_and_values) const {
  const auto part = [](const Tensor& t, std::int64_t first, std::int64_t dim) {
    const Shape& s = t.shape();
    return ops::Matrix(t, s[0], dim, s[1] * s[2] * s[3], first, s[3]);
  };
  return {part(queries, 0, spec_.qk_dim()), part(keys_and_values, 0, spec_.qk_dim()),
          part(keys_and_values, spec_.qk_dim(), spec_.v_dim)};
}

void LatentAttention::turn(Context& c, const Tensor& heads, bool back) const {
  if (!spec_.rope) return;
  const Tensor& angles = c.angles.get(c.device, *spec_.rope, spec_.turned_dim, c.share(), c.training().positions_by());
  if (c.keeps().unfused_rotary) c.device.host_work(HostWork::call, kUnfusedRotaryCalls);
  run(c.device, ops::Rotary{heads, angles, 1, heads.shape()[3], 0, back});
}

Tensor LatentAttention::make_queries(Context& c, Tensor x, Saved& saved) const {
  if (q_norm_) {
    const Shape& s = saved.latents.shape();
    x = c.activation({s[0], s[1], spec_.q_rank}, "latent of queries");
    q_norm_->forward(c, columns(saved.latents, 0, spec_.q_rank), ops::Matrix(x), 1, saved.up.q_rstd);
  }
  const Tensor queries = in_groups(q_.forward_with_bias(c, x, saved.up.q), spec_.qk_dim());
  turn(c, queries, false);
  return queries;
}

Tensor LatentAttention::make_keys_and_values(Context& c, Saved& saved) const {
  const Shape& s = saved.latents.shape();
  const std::int64_t own = spec_.plain_dim + spec_.v_dim;
  Tensor shared = c.activation({s[0], s[1], spec_.turned_dim}, "turned columns of keys");
  run(c.device,
      ops::CopyBlocks{columns(saved.latents, spec_.q_rank + spec_.kv_rank, spec_.turned_dim), ops::Matrix(shared)});
  shared = communicate(c, shared_.forward, shared);
  turn(c, in_groups(shared, spec_.turned_dim), false);
  Tensor latent = c.activation({s[0], s[1], spec_.kv_rank}, "latent of keys and values");
  kv_norm_.forward(c, columns(saved.latents, spec_.q_rank, spec_.kv_rank), ops::Matrix(latent), 1, saved.up.kv_rstd);
  const Tensor kv = in_groups(kv_.forward_with_bias(c, std::move(latent), saved.up.kv), own);
  const Shape& heads = kv.shape();
  const Tensor all = c.activation({heads[0], heads[1], heads[2], spec_.turned_dim + own}, "keys and values of heads");
  run(c.device, ops::CopyBlocks{columns(kv, 0, own), columns(all, spec_.turned_dim, own)});
  run(c.device, ops::CopyBlocks{ops::Matrix(shared), columns_by_head(all, 0, spec_.turned_dim), heads[2]});
  return all;
}

void LatentAttention::make_up(Context& c, Tensor x, Saved& saved) const {
  saved.up.queries = make_queries(c, std::move(x), saved);
  saved.up.keys_and_values = make_keys_and_values(c, saved);
}

Tensor LatentAttention::forward(Context& c, const MicroBatch& batch, Tensor x,
                                std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  if (c.keeps().down_separate && q_norm_) c.device.host_work(HostWork::call, 1);
  project(c, std::move(x), saved);
  Saved::Up& up = saved.up;
  saved.queries_shape = up.queries.shape(), saved.keys_shape = up.keys_and_values.shape();
  const auto core = [&] {
    const Tensor y = core_->forward(c, batch, dropout_site_, sizes(c, saved.queries_shape),
                                    parts_of(up.queries, up.keys_and_values), saved.core);
    saved.kept_by_core = !core_checkpoint_.drop(saved.core) && core_->keeps_parts();
    if (saved.kept_by_core) up.queries.reset(), up.keys_and_values.reset();
    up_checkpoint_.drop(saved.up);
    return y;
  };
  const Tensor context = core_piece_.forward(c, saved.core_group, core,
                                             [&](const auto& keep) { keep(up.queries), keep(up.keys_and_values); });
  return proj_piece_.forward(
      c, saved.proj_group, [&] { return proj_.forward(c, context, saved.proj); },
      [&](const auto& keep) { keep(saved.proj.x); });
}

// Where what is made of the latents is dropped, only the input and the latents are left to go to the host.
void LatentAttention::project(Context& c, Tensor x, Saved& saved) const {
  const bool leaves = qkv_piece_.leaves(c);
  if (leaves) qkv_piece_.begin(c);
  saved.latents = down_.forward_with_bias(c, x, saved.down);
  saved.straight = !q_norm_;
  if (leaves && !input_again_) c.offload.add(saved.down.x);
  if (leaves && up_checkpoint_.dropped()) saved.qkv_group = qkv_piece_.end(c, Tensor());
  make_up(c, std::move(x), saved);
  if (!leaves || up_checkpoint_.dropped()) return;
  if (!saved.straight || !input_again_) c.offload.add(saved.up.q.x);
  saved.qkv_group = qkv_piece_.end(c, saved.up.queries, saved.up.keys_and_values);
}

Tensor LatentAttention::queries_back(Context& c, Tensor gradient, const Tensor& dlatents, Saved& saved) const {
  turn(c, gradient, true);
  const Tensor dx = q_.backward(c, ungrouped(std::exchange(gradient, Tensor())), saved.up.q);
  if (!q_norm_) return dx;
  q_norm_->backward(c, ops::Matrix(dx), columns(saved.latents, 0, spec_.q_rank), columns(dlatents, 0, spec_.q_rank), 1,
                    saved.up.q_rstd);
  return {};
}

void LatentAttention::keys_and_values_back(Context& c, Tensor gradient, const Tensor& dlatents, Saved& saved) const {
  const Shape s = gradient.shape();
  const std::int64_t own = spec_.plain_dim + spec_.v_dim;
  {
    Tensor dshared = c.activation({s[0], s[1], spec_.turned_dim}, "gradient of turned columns of keys");
    run(c.device, ops::SumBlocks{columns_by_head(gradient, 0, spec_.turned_dim), ops::Matrix(dshared), s[2]});
    turn(c, in_groups(dshared, spec_.turned_dim), true);
    dshared = communicate(c, shared_.backward, dshared);
    run(c.device,
        ops::CopyBlocks{ops::Matrix(dshared), columns(dlatents, spec_.q_rank + spec_.kv_rank, spec_.turned_dim)});
  }
  Tensor dkv = c.activation({s[0], s[1], s[2], own}, "gradient of keys and values");
  run(c.device, ops::CopyBlocks{columns(gradient, spec_.turned_dim, own), columns(dkv, 0, own)});
  gradient.reset();
  const Tensor dlatent = kv_.backward(c, ungrouped(std::exchange(dkv, Tensor())), saved.up.kv);
  kv_norm_.backward(c, ops::Matrix(dlatent), columns(saved.latents, spec_.q_rank, spec_.kv_rank),
                    columns(dlatents, spec_.q_rank, spec_.kv_rank), 1, saved.up.kv_rstd);
}

Tensor LatentAttention::backward(Context& c, const MicroBatch& batch, Tensor dy,
                                 std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  Tensor dqueries, dkeys_and_values;
  if (c.keeps().down_separate && q_norm_) c.device.host_work(HostWork::call, 3);
  {
    c.offload.bring_back(c.device, saved.proj_group);
    const Tensor dcontext = proj_.backward(c, std::move(dy), saved.proj);
    c.offload.bring_back(c.device, saved.core_group);
    if (up_checkpoint_.dropped()) c.offload.bring_back(c.device, saved.qkv_group);
    up_checkpoint_.restore(c, [&] { make_up(c, saved.down.x, saved); });
    const AttentionSizes n = sizes(c, saved.queries_shape);
    const AttentionParts parts =
        saved.kept_by_core ? AttentionParts() : parts_of(saved.up.queries, saved.up.keys_and_values);
    core_checkpoint_.restore(c, [&] { core_->forward(c, batch, dropout_site_, n, parts, saved.core); });
    dqueries = c.activation(saved.queries_shape, "gradient of queries");
    dkeys_and_values = c.activation(saved.keys_shape, "gradient of keys and values of heads");
    core_->backward(c, batch, dropout_site_, n, dcontext, parts, parts_of(dqueries, dkeys_and_values), saved.core);
  }
  saved.up.queries.reset();
  saved.up.keys_and_values.reset();
  c.offload.bring_back(c.device, saved.qkv_group);
  Tensor dlatents = c.activation(saved.latents.shape(), "gradient of latents");
  keys_and_values_back(c, std::move(dkeys_and_values), dlatents, saved);
  const Tensor by_queries = queries_back(c, std::move(dqueries), dlatents, saved);
  saved.latents.reset();
  const Tensor dx = down_.backward(c, std::move(dlatents), saved.down);
  if (by_queries) run(c.device, ops::Add{dx, by_queries, dx});
  return dx;
}

}  // namespace mbench::nn
