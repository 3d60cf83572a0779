#include "engine/nn/transformer_layer.h"

#include <cmath>

namespace mbench {
namespace {

// Megatron's initialisation: 0.02, and for what adds to the residual stream 0.02 / sqrt(2 layers).
constexpr float kStddev = 0.02f;

float residual_stddev(const Plan& plan) {
  return kStddev / std::sqrt(2 * static_cast<float>(plan.point.model.layers));
}

std::string site(std::int64_t layer, const char* what) {
  return fmt::format("layers.{}.{}", layer, what);
}

}  // namespace

TransformerLayer::TransformerLayer(ParameterStore& store, const Plan& plan, std::int64_t i)
    : save_(plan.save),
      norm1_(store, plan, site(i, "norm1")),
      qkv_(store, plan, site(i, "qkv"), {plan.point.model.hidden, 3 * plan.point.model.hidden},
           plan.layer.qkv, kStddev),
      proj_(store, plan, site(i, "proj"), {plan.point.model.hidden, plan.point.model.hidden}, plan.layer.proj,
            residual_stddev(plan)),
      norm2_(store, plan, site(i, "norm2")),
      fc1_(store, plan, site(i, "fc1"), {plan.point.model.hidden, plan.point.model.ffn}, plan.layer.fc1,
           kStddev),
      fc2_(store, plan, site(i, "fc2"), {plan.point.model.ffn, plan.point.model.hidden}, plan.layer.fc2,
           residual_stddev(plan)),
      residual1_(site(i, "attention.residual.dropout")),
      residual2_(site(i, "mlp.residual.dropout")),
      attention_site_(site_of(site(i, "attention.dropout"))),
      core_(make_attention_core(plan)) {}

Tensor TransformerLayer::attention(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor qkv;
  {
    const Tensor normed = norm1_.forward(c, x, saved.norm1);
    qkv = qkv_.forward_with_bias(c, normed, saved.qkv_linear);
  }
  const std::int64_t d = c.point().model.head_dim();
  saved.qkv = qkv.view({qkv.shape()[0], qkv.shape()[1], qkv.shape()[2] / (3 * d), 3 * d});
  Tensor branch;
  {
    const Tensor context = core_->forward(c, batch, attention_site_, saved.qkv, saved.core);
    if (save_.drop_attention_core) saved.core = {};
    branch = proj_.forward(c, context, saved.proj);
  }
  return residual1_.forward(c, batch, branch, proj_.bias(), x, saved.residual1);
}

Tensor TransformerLayer::mlp(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor branch;
  {
    const Tensor normed = norm2_.forward(c, x, saved.norm2);
    const Tensor wide = fc1_.forward_with_gelu(c, normed, saved.fc1, saved.gelu);
    branch = fc2_.forward(c, wide, saved.fc2);
  }
  return residual2_.forward(c, batch, branch, fc2_.bias(), x, saved.residual2);
}

Tensor TransformerLayer::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor y;
  {
    const Tensor middle = attention(c, batch, x, saved);
    y = mlp(c, batch, middle, saved);
  }
  if (save_.drop_layers) {
    saved = {};
    saved.input = x;
  }
  return y;
}

Tensor TransformerLayer::mlp_backward(Context& c, const MicroBatch& batch, const Tensor& dy,
                                      Saved& saved) const {
  Tensor dnormed;
  {
    Tensor wide;
    {
      const Tensor dbranch = residual2_.backward(c, batch, dy, saved.residual2);
      wide = fc2_.backward_with_gelu(c, dbranch, saved.fc2, saved.gelu);
    }
    dnormed = fc1_.backward(c, wide, saved.fc1);
  }
  return norm2_.backward(c, dnormed, dy, saved.norm2);
}

Tensor TransformerLayer::attention_backward(Context& c, const MicroBatch& batch, const Tensor& dy,
                                            Saved& saved) const {
  Tensor dnormed;
  {
    Tensor dqkv;
    {
      Tensor dcontext;
      {
        const Tensor dbranch = residual1_.backward(c, batch, dy, saved.residual1);
        dcontext = proj_.backward(c, dbranch, saved.proj);
      }
      if (save_.drop_attention_core) {
        c.device.host_work(HostWork::recompute);
        core_->forward(c, batch, attention_site_, saved.qkv, saved.core);
      }
      dqkv = core_->backward(c, batch, attention_site_, dcontext, saved.qkv, saved.core);
    }
    saved.qkv.reset();
    const Shape& s = dqkv.shape();
    dnormed = qkv_.backward(c, dqkv.view({s[0], s[1], s[2] * s[3]}), saved.qkv_linear);
  }
  return norm1_.backward(c, dnormed, dy, saved.norm1);
}

Tensor TransformerLayer::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  if (save_.drop_layers) {
    c.device.host_work(HostWork::recompute);
    const Tensor x = saved.input;
    saved = {};
    const Tensor middle = attention(c, batch, x, saved);
    mlp(c, batch, middle, saved);
  }
  const Tensor dmiddle = mlp_backward(c, batch, dy, saved);
  return attention_backward(c, batch, dmiddle, saved);
}

}  // namespace mbench
