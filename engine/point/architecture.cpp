#include "engine/point/architecture.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/point/state_architecture.h"

namespace mbench {
namespace {

NormSpec rms_norm_of(const ModelSpec& m, std::string name, std::int64_t width) {
  return {std::move(name), NormKind::rms_norm, width, static_cast<float>(m.parts().norm_eps)};
}

// A norm of queries or keys: of each of `heads` heads' columns, or of all of them.
std::optional<NormSpec> qk_norm_of(const ModelSpec& m, std::string name, std::int64_t heads, std::int64_t dim) {
  NormSpec norm = rms_norm_of(m, std::move(name), dim);
  switch (m.parts().qk_norm) {
    case QkNorm::none:
      return std::nullopt;
    case QkNorm::each_head:
      return norm;
    case QkNorm::without_weights:
      norm.gamma = false;
      return norm;
    case QkNorm::all_heads:
      norm.width = heads * dim;
      return norm;
    case QkNorm::layer_norm:
      norm.kind = NormKind::layer_norm;
      return norm;
    case QkNorm::layer_norm_by_head:
      norm.kind = NormKind::layer_norm, norm.beta = false, norm.heads = heads;
      return norm;
  }
  return std::nullopt;
}

AttentionSpec attention_of(const ModelSpec& m, const std::string& layer) {
  const ModelParts& parts = m.parts();
  AttentionSpec a;
  a.name = layer + ".attention";
  a.heads = m.heads;
  a.kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  a.qk_dim = a.v_dim = m.head_dim();
  a.causal = parts.causal;
  if (parts.position == PositionKind::rotary) a.rope = parts.rope;
  a.alibi = parts.position == PositionKind::alibi;
  a.scale = static_cast<float>(parts.attention_scale);
  a.window = parts.window;
  a.chunk = parts.attention_chunk;
  a.temperature = parts.attention_temperature;
  a.softcap = static_cast<float>(parts.attention_softcap);
  a.gate = parts.attention_gate;
  if (parts.attention_sinks) a.sinks = VectorSpec{layer + ".sinks", m.heads, Role::column, kStddev};
  a.q_norm = qk_norm_of(m, layer + ".q_norm", a.heads, a.qk_dim);
  a.k_norm = qk_norm_of(m, layer + ".k_norm", a.kv_heads, a.qk_dim);
  const std::int64_t kv = a.kv_heads * (a.qk_dim + a.v_dim), gate = a.gate ? a.heads * a.v_dim : 0;
  a.qkv = {layer + ".qkv", m.hidden, a.heads * a.qk_dim + kv + gate, Role::column, parts.bias.qkv, kStddev};
  a.proj = {layer + ".proj", a.heads * a.v_dim, m.hidden, Role::row, parts.bias.proj, residual_stddev(m)};
  return a;
}

LatentAttentionSpec latent_attention_of(const ModelSpec& m, const std::string& layer) {
  const ModelParts& parts = m.parts();
  if (m.kv_lora_rank == 0 || m.qk_nope_head_dim == 0 || m.qk_rope_head_dim == 0 || m.v_head_dim == 0)
    fail(ErrorKind::unsupported, "model", "the weights of attention {} do not follow from the sizes of {}",
         name_of(parts.attention_form), m.name);
  LatentAttentionSpec a;
  a.name = layer + ".attention";
  a.heads = m.heads;
  a.q_rank = m.q_lora_rank, a.kv_rank = m.kv_lora_rank;
  a.turned_dim = m.qk_rope_head_dim, a.plain_dim = m.qk_nope_head_dim, a.v_dim = m.v_head_dim;
  a.causal = parts.causal;
  a.scale = static_cast<float>(parts.attention_scale);
  a.rope = parts.rope;  // its columns for it are turned whatever else has positions, as in Megatron-Core
  const auto norm = [&](const char* name, std::int64_t width) {
    return NormSpec{layer + name, NormKind::rms_norm, width, static_cast<float>(inner_eps(parts))};
  };
  if (a.q_rank > 0) a.q_norm = norm(".q_norm", a.q_rank);
  a.kv_norm = norm(".kv_norm", a.kv_rank);
  a.down = {layer + ".down", m.hidden, a.q_rank + a.kv_rank + a.turned_dim, Role::whole, parts.bias.qkv, kStddev};
  a.q = {layer + ".q", a.q_rank > 0 ? a.q_rank : m.hidden, a.heads * a.qk_dim(), Role::column, parts.bias.qkv, kStddev};
  a.kv = {layer + ".kv", a.kv_rank, a.heads * (a.plain_dim + a.v_dim), Role::column, parts.bias.qkv, kStddev};
  a.proj = {layer + ".proj", a.heads * a.v_dim, m.hidden, Role::row, parts.bias.proj, residual_stddev(m)};
  return a;
}

NormSpec norm_of(const ModelSpec& m, std::string name) {
  const ModelParts& parts = m.parts();
  return {std::move(name),  parts.norm,
          m.hidden,         static_cast<float>(parts.norm_eps),
          parts.norm_gamma, parts.norm_gamma && parts.norm_beta};
}

// xIELU begins with softplus(alpha_p) = 0.8 and 0.5 + softplus(alpha_n) = 0.8, as in transformers.
constexpr float kMeanAlphaP = 0.20338237f, kMeanAlphaN = -1.0502256f;

// With `experts`, so many of them as one weight, of which a token meets the share.
// `outer`: what they read and write, hidden unless given.
MlpSpec mlp_of(const ModelSpec& m, const std::string& name, std::int64_t width, std::int64_t experts = 0,
               double share = 1, std::int64_t outer = 0) {
  const ModelParts& parts = m.parts();
  const bool routed = experts > 0;
  const std::int64_t hidden = outer == 0 ? m.hidden : outer;
  const std::int64_t wide = is_gated(parts.activation) ? 2 * width : width;
  const bool bias = routed ? parts.bias.experts : parts.bias.dense;
  const Meets meets = routed ? Meets::routed_token : Meets::every_token;
  MlpSpec mlp{parts.activation,
              {name + ".fc1", hidden, wide, routed ? Role::expert_column : Role::column, bias, kStddev, meets, false,
               experts, share},
              {name + ".fc2", width, hidden, routed ? Role::expert_row : Role::row, bias, residual_stddev(m), meets,
               false, experts, share}};
  mlp.gate_factor = static_cast<float>(parts.multipliers.gates);
  if (parts.activation == Activation::xielu) {
    mlp.alpha_p = VectorSpec{name + ".alpha_p", 1, Role::whole, 0, kMeanAlphaP};
    mlp.alpha_n = VectorSpec{name + ".alpha_n", 1, Role::whole, 0, kMeanAlphaN};
  }
  return mlp;
}

using MixerSpec = decltype(BranchSpec::mixer);

MixerSpec mixer_of_positions(const ModelSpec& m, std::int64_t index, const std::string& layer, MixerKind kind) {
  if (kind == MixerKind::lightning) return lightning_of(m, index, layer);
  if (kind == MixerKind::short_conv) return short_conv_of(m, layer);
  if (kind != MixerKind::attention) return state_mixer_of(m, layer, kind);
  if (m.parts().attention_form == AttentionForm::latent) return latent_attention_of(m, layer);
  return attention_of(m, layer);
}

float factor_of(const Multipliers& m, const MixerSpec& mixer) {
  const bool attends =
      std::holds_alternative<AttentionSpec>(mixer) || std::holds_alternative<LatentAttentionSpec>(mixer);
  const bool carries = std::holds_alternative<StateMixerSpec>(mixer) || std::holds_alternative<ShortConvSpec>(mixer) ||
                       std::holds_alternative<LightningSpec>(mixer);
  return static_cast<float>(attends ? m.attention : carries ? m.state : m.feed_forward);
}

// Of a model as one layer sees it.
MixerSpec feed_forward_of(const ModelSpec& m, const std::string& layer) {
  if (m.experts == 0) return mlp_of(m, layer, m.ffn);
  const std::int64_t width = m.expert_ffn == 0 ? m.ffn : m.expert_ffn;
  const double share = static_cast<double>(m.active_experts) / static_cast<double>(m.experts);
  MoeSpec moe{layer + ".moe",
              m.experts,
              m.active_experts,
              m.parts().routing,
              {layer + ".router", m.hidden, m.experts, Role::whole, m.parts().bias.router, kStddev},
              mlp_of(m, layer + ".experts", width, m.experts, share, m.moe_latent),
              {},
              {},
              {},
              {}};
  if (m.shared_experts > 0) moe.shared = mlp_of(m, layer + ".shared", m.shared_width());
  if (m.shared_experts > 0 && m.parts().shared_gate)
    moe.shared_gate = LinearSpec{layer + ".shared_gate", m.hidden, 1, Role::whole, false, kStddev};
  if (m.moe_latent > 0) {
    moe.down = LinearSpec{layer + ".latent_down", m.hidden, m.moe_latent, Role::whole, false, kStddev};
    moe.up = LinearSpec{layer + ".latent_up", m.moe_latent, m.hidden, Role::whole, false, residual_stddev(m)};
  }
  return moe;
}

}  // namespace

std::string_view name_of(Role role) {
  static constexpr std::string_view names[kRoles] = {
      "column", "row", "vocabulary", "logits", "whole", "expert column", "expert row", "inner row", "inner column"};
  return names[static_cast<int>(role)];
}

EmbeddingSpec embedding_of(const ModelSpec& m, std::int64_t vocab) {
  const ModelParts& parts = m.parts();
  EmbeddingSpec e;
  e.word = {"embedding.word", vocab, m.hidden, Role::vocabulary, kStddev};
  if (parts.position == PositionKind::learned)
    e.position = TableSpec{"embedding.position", m.positions, m.hidden, Role::whole, kStddev};
  if (parts.token_types > 0)
    e.token_type = TableSpec{"embedding.token_type", parts.token_types, m.hidden, Role::whole, kStddev};
  if (parts.norm_place == NormPlace::post || parts.embedding_norm) e.norm = norm_of(m, "embedding.norm");
  e.scale = static_cast<float>(parts.embedding_scale);
  return e;
}

LayerSpec layer_of(const ModelSpec& model, std::int64_t index) {
  const ModelSpec m = model.at_layer(index);
  const ModelParts& parts = m.parts();
  const std::string layer = fmt::format("layers.{}", index);
  LayerSpec spec;
  spec.norm_place = parts.norm_place;
  spec.residual_scale = static_cast<float>(parts.residual_scale);
  const auto add = [&](std::string name, const char* norm, MixerSpec mixer) {
    const float factor = factor_of(parts.multipliers, mixer);
    BranchSpec branch{std::move(name), {}, {}, std::move(mixer), factor};
    const std::string norm_name = fmt::format("{}.{}", layer, norm);
    const bool shares = (parts.branches == Branches::parallel && !spec.branches.empty()) ||
                        (parts.branches == Branches::parallel_mixers && spec.branches.size() == 1);
    if (parts.norm_place != NormPlace::output && !shares) branch.norm = norm_of(m, norm_name);
    if (parts.norm_place == NormPlace::sandwich || parts.norm_place == NormPlace::output)
      branch.output_norm = norm_of(m, norm_name + "_output");
    spec.branches.push_back(std::move(branch));
  };
  // A depth of multi-token prediction stands behind the last layer and has both branches.
  const std::optional<MixerKind> kind = model.mixer_at(index);
  const bool beside = parts.branches == Branches::parallel_mixers && kind;
  if (beside) add(layer + ".attention", "norm1", mixer_of_positions(m, index, layer, MixerKind::attention));
  if (kind) add(layer + (beside ? ".state" : ".attention"), "norm1", mixer_of_positions(m, index, layer, *kind));
  if (beside) spec.parallel = spec.branches.size();
  if (m.hybrid_pattern.empty() || !kind) add(layer + ".mlp", "norm2", feed_forward_of(m, layer));
  if (!beside && parts.branches != Branches::sequential) spec.parallel = spec.branches.size();
  return spec;
}

bool same_kind(const ModelSpec& m, std::int64_t a, std::int64_t b) {
  if (m.layers_of.empty() && m.hybrid_pattern.empty()) return m.has_experts(a) == m.has_experts(b);
  return m.at_layer(a) == m.at_layer(b);
}

std::vector<std::int64_t> kinds_of_layers(const ModelSpec& m) {
  std::vector<std::int64_t> firsts;
  for (std::int64_t i = 0; i < m.layers; ++i) {
    const bool known =
        std::any_of(firsts.begin(), firsts.end(), [&](std::int64_t first) { return same_kind(m, first, i); });
    if (!known) firsts.push_back(i);
  }
  return firsts;
}

HeadSpec head_of(const ModelSpec& m, std::int64_t vocab) {
  const ModelParts& parts = m.parts();
  const std::int64_t h = m.hidden;
  HeadSpec head;
  if (parts.norm_place != NormPlace::post) head.norm = norm_of(m, "final_norm");
  const bool masked = parts.objective == Objective::masked_words_and_order;
  if (masked)
    head.classes = HeadSpec::Classes{LinearSpec{"pooler", h, h, Role::whole, true, kStddev, Meets::one_token},
                                     {"binary_head", h, 2, Role::whole, true, kStddev, Meets::one_token}};
  if (m.labels > 0) {
    if (!masked) head.classes = HeadSpec::Classes{};
    LinearSpec& classifier = head.classes->classifier;
    classifier = {"classifier", h, m.labels, Role::whole, masked, kStddev, Meets::one_token};
    classifier.thawed = true;
    if (masked) head.classes->dropout = "classifier.dropout";
    return head;
  }
  if (masked)
    head.transform =
        HeadSpec::Transform{{"lm_head.dense", h, h, Role::whole, true, kStddev},
                            parts.activation == Activation::gelu_erf ? Activation::gelu_erf : Activation::gelu,
                            norm_of(m, "lm_head.norm")};
  head.logits =
      LinearSpec{"lm_head",           h, vocab, Role::logits, masked || parts.bias.logits, kStddev, Meets::every_token,
                 parts.tied_embedding};
  head.logit_scale = static_cast<float>(parts.logit_scale);
  head.logit_softcap = static_cast<float>(parts.logit_softcap);
  return head;
}

DepthSpec depth_of(const ModelSpec& m, std::int64_t depth, std::int64_t vocab) {
  const bool repeats = m.parts().mtp_use_repeated_layer;
  const std::string name = fmt::format("mtp.{}", repeats ? 0 : depth);
  DepthSpec d{norm_of(m, name + ".word_norm"),
              norm_of(m, name + ".hidden_norm"),
              {name + ".join", 2 * m.hidden, m.hidden, Role::column, false, kStddev},
              layer_of(m, m.layer_of_depth(depth)),
              norm_of(m, name + ".norm"),
              head_of(m, vocab).logits.value()};
  d.logits.name = name + "." + d.logits.name;
  d.logits.tied = true;
  // Its router sees a step's tokens once for each depth, and balances them as one layer does (Megatron-Core:
  // attach_and_log_load_balancing_loss).
  if (repeats)
    for (BranchSpec& branch : d.layer.branches)
      if (auto* moe = std::get_if<MoeSpec>(&branch.mixer))
        moe->routing.balance_loss /= static_cast<double>(m.mtp_layers);
  return d;
}

namespace {

// The rows of a group of qkv from `first` on, `block` of them.
LinearSpec rows_of_groups(const AttentionSpec& a, std::string name, std::int64_t first, std::int64_t block) {
  LinearSpec rows = a.qkv;
  rows.name = std::move(name);
  rows.out = a.kv_heads * block;
  rows.rows_of = RowsOf{a.qkv.name, block, a.qkv.out / a.kv_heads, first};
  return rows;
}

}  // namespace

LinearSpec AttentionSpec::queries() const {
  return rows_of_groups(*this, name + ".q", 0, group() * qk_dim);
}

LinearSpec AttentionSpec::keys_and_values() const {
  return rows_of_groups(*this, name + ".kv", group() * qk_dim, qk_dim + v_dim);
}

WeightSpec weight_of(const LinearSpec& l) {
  const Shape shape = l.experts > 0 ? Shape{l.experts, l.out, l.in} : Shape{l.out, l.in};
  WeightSpec w{l.name + ".weight", shape, l.role, l.stddev, 0, l.meets, l.share, l.tied, l.rows_of};
  if (w.rows_of) w.rows_of->whole += ".weight";
  w.thawed = l.thawed;
  return w;
}

WeightSpec weight_of(const TableSpec& t) {
  return {t.name, {t.rows, t.width}, t.role, t.stddev};
}

WeightSpec weight_of(const VectorSpec& v) {
  return {v.name, {v.width}, v.role, v.stddev, v.constant};
}

WeightSpec bias_of(const LinearSpec& l) {
  WeightSpec b{l.name + ".bias", l.experts > 0 ? Shape{l.experts, l.out} : Shape{l.out}, l.role};
  b.bias = true;
  b.thawed = l.thawed;
  return b;
}

WeightSpec gamma_of(const NormSpec& n) {
  return {n.name + ".gamma", {n.heads * n.width}, n.heads > 1 ? Role::column : Role::whole, 0, 1};
}

WeightSpec beta_of(const NormSpec& n) {
  return {n.name + ".beta", {n.width}, Role::whole};
}

namespace {

void add(std::vector<WeightSpec>& list, const LinearSpec& l) {
  list.push_back(weight_of(l));
  if (l.bias) list.push_back(bias_of(l));
}

void add(std::vector<WeightSpec>& list, const NormSpec& n) {
  if (n.gamma) list.push_back(gamma_of(n));
  if (n.kind == NormKind::layer_norm && n.beta) list.push_back(beta_of(n));
}

void add(std::vector<WeightSpec>& list, const AttentionSpec& a) {
  add(list, a.qkv);
  if (a.q_norm) add(list, *a.q_norm);
  if (a.k_norm) add(list, *a.k_norm);
  if (a.sinks) list.push_back(weight_of(*a.sinks));
  add(list, a.proj);
}

void add(std::vector<WeightSpec>& list, const LatentAttentionSpec& a) {
  add(list, a.down);
  if (a.q_norm) add(list, *a.q_norm);
  add(list, a.kv_norm);
  add(list, a.q);
  add(list, a.kv);
  add(list, a.proj);
}

void add(std::vector<WeightSpec>& list, const StateMixerSpec& s) {
  add(list, s.in);
  list.push_back(weight_of(s.conv));
  if (s.conv_bias) list.push_back(weight_of(*s.conv_bias));
  if (s.x) add(list, *s.x);
  if (s.dt) add(list, *s.dt);
  list.push_back(weight_of(s.a_log));
  list.push_back(weight_of(s.dt_bias));
  if (s.d) list.push_back(weight_of(*s.d));
  if (!s.selective() && s.norm != StateNorm::none) list.push_back(weight_of(s.gamma));
  for (const NormSpec& norm : s.norms) add(list, norm);
  add(list, s.out);
}

void add(std::vector<WeightSpec>& list, const ShortConvSpec& s) {
  add(list, s.in);
  list.push_back(weight_of(s.conv));
  add(list, s.out);
}

void add(std::vector<WeightSpec>& list, const LightningSpec& s) {
  add(list, s.in);
  add(list, s.norm);
  add(list, s.out);
}

void add(std::vector<WeightSpec>& list, const MlpSpec& m) {
  add(list, m.fc1);
  if (m.alpha_p) list.push_back(weight_of(*m.alpha_p));
  if (m.alpha_n) list.push_back(weight_of(*m.alpha_n));
  add(list, m.fc2);
}

void add(std::vector<WeightSpec>& list, const MoeSpec& m) {
  add(list, m.router);
  if (m.down) add(list, *m.down);
  add(list, m.expert);
  if (m.up) add(list, *m.up);
  if (m.shared) add(list, *m.shared);
  if (m.shared_gate) add(list, *m.shared_gate);
}

}  // namespace

std::vector<WeightSpec> weights_of(const EmbeddingSpec& e) {
  std::vector<WeightSpec> list = {weight_of(e.word)};
  if (e.position) list.push_back(weight_of(*e.position));
  if (e.token_type) list.push_back(weight_of(*e.token_type));
  if (e.norm) add(list, *e.norm);
  return list;
}

std::vector<WeightSpec> weights_of(const LayerSpec& layer) {
  std::vector<WeightSpec> list;
  for (const BranchSpec& branch : layer.branches) {
    if (branch.norm) add(list, *branch.norm);
    std::visit([&](const auto& mixer) { add(list, mixer); }, branch.mixer);
    if (branch.output_norm) add(list, *branch.output_norm);
  }
  return list;
}

std::vector<WeightSpec> weights_of(const HeadSpec& head) {
  std::vector<WeightSpec> list;
  if (head.norm) add(list, *head.norm);
  if (head.classes) {
    if (head.classes->pooler) add(list, *head.classes->pooler);
    add(list, head.classes->classifier);
  }
  if (head.transform) {
    add(list, head.transform->dense);
    add(list, head.transform->norm);
  }
  if (head.logits) add(list, *head.logits);
  return list;
}

std::vector<WeightSpec> weights_of(const DepthSpec& depth) {
  std::vector<WeightSpec> list;
  add(list, depth.word_norm);
  add(list, depth.hidden_norm);
  add(list, depth.join);
  for (const WeightSpec& w : weights_of(depth.layer)) list.push_back(w);
  add(list, depth.norm);
  list.push_back(weight_of(depth.logits));
  return list;
}

std::vector<WeightSpec> weights_of(const ModelSpec& m, std::int64_t vocab) {
  std::vector<WeightSpec> all = weights_of(embedding_of(m, vocab));
  const auto append = [&](const std::vector<WeightSpec>& part) { all.insert(all.end(), part.begin(), part.end()); };
  for (std::int64_t i = 0; i < m.layers; ++i) append(weights_of(layer_of(m, i)));
  append(weights_of(head_of(m, vocab)));
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) {
    std::vector<WeightSpec> depth = weights_of(depth_of(m, i, vocab));
    if (i > 0 && m.parts().mtp_use_repeated_layer)
      for (WeightSpec& w : depth) w.tied = true;
    append(depth);
  }
  return all;
}

}  // namespace mbench
