#include "engine/nn/attention/attention_core.h"

#include <cmath>

#include "engine/nn/attention/context_attention.h"
#include "engine/ops/arguments.h"
#include "engine/ops/attention.h"
#include "engine/ops/attention_sink.h"
#include "engine/ops/copy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/ops/softmax.h"
#include "engine/plan/framework.h"

namespace mbench::nn {
namespace {

// [seq, v_dim] of every group's first head.
ops::Matrix heads_of(const Tensor& context, const AttentionSizes& n) {
  return heads_of(context, n, n.seq, n.v_dim);
}

ops::HeadMap head_map(const MicroBatch& batch, const AttentionSizes& n) {
  return {n.heads, n.head0, batch.sample0};
}

// Head i of every group: of queries and outputs, and of scores.
ops::Matrix member(ops::Matrix m, std::int64_t i) {
  m.offset += i * m.cols;
  return m;
}
ops::Matrix scores_of(const Tensor& scores, const AttentionSizes& n, std::int64_t i) {
  return {scores, n.seq, n.seq, n.seq, i * n.seq * n.seq, n.group * n.seq * n.seq};
}

// y = a b for every group; or y += a b.
void multiply(Context& c, const AttentionSizes& n, const ops::Matrix& a, const ops::Matrix& b, const ops::Matrix& y,
              bool add = false) {
  ops::Matmul gemm{a, b, y};
  gemm.batch = n.groups();
  gemm.beta = add ? 1.0f : 0.0f;
  run(c.device, gemm);
}

// Op by op as Megatron-LM's CoreAttention: the probabilities, the dropout mask and the probabilities after
// dropout are kept, 5 bytes an element in 16 bit.
class EagerCore final : public AttentionCore {
 public:
  Tensor forward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                 const AttentionParts& parts, Saved& saved) const override {
    check(n.window == 0 && n.softcap == 0 && !n.alibi && !n.sinks, "attention",
          "scores op by op with a window, a cap, slopes or sinks");
    // Megatron's baddbmm takes a buffer of the scores' size as its (unused) input and writes to a new tensor.
    if (c.keeps().global_buffer) c.buffer.get(c.device, n.scores(), c.dtype());
    const Tensor scores = c.activation(n.scores(), "attention scores");
    for (std::int64_t i = 0; i < n.group; ++i) multiply(c, n, member(parts.q, i), parts.k.t(), scores_of(scores, n, i));
    saved.probs = c.activation(n.scores(), "attention probabilities");
    ops::Softmax softmax{scores, saved.probs, n.scale(), n.causal, {}, {}};
    if (n.documents) softmax.bounds = c.document_bounds(n.documents);
    // What is not causal hides padding alone. Where nothing is padded the mask of a micro batch is the causal one.
    if (const Tensor keep = keys_of(batch); !n.causal && keep) {
      softmax.mask = batch.attention_mask;
      if (!softmax.mask) softmax.keep = keep;
    }
    run(c.device, softmax);
    saved.dropped = saved.probs;
    if (c.dropout() > 0) {
      saved.dropped = c.activation(n.scores(), "attention probabilities after dropout");
      if (c.keeps().stored_masks)
        saved.mask = c.device.empty(n.scores(), DType::u8, Category::activations, "attention dropout mask");
      run(c.device, ops::Dropout{saved.probs, saved.dropped, saved.mask, dropout(c, site), head_map(batch, n)});
    }
    if (widens(c)) {
      saved.wide = c.device.empty(n.scores(), DType::f32, Category::activations, "attention probabilities in f32");
      run(c.device, ops::Copy{saved.probs, saved.wide});
      saved.probs.reset();
    }
    const Tensor context = c.activation(n.context(), "attention context");
    for (std::int64_t i = 0; i < n.group; ++i)
      multiply(c, n, scores_of(saved.dropped, n, i), parts.v, member(heads_of(context, n), i));
    return context;
  }

  void backward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                const Tensor& dcontext, const AttentionParts& parts, const AttentionParts& gradients,
                Saved& saved) const override {
    const ops::Matrix dout = heads_of(dcontext, n);
    Tensor dprobs = c.activation(n.scores(), "gradient of dropped probabilities");
    for (std::int64_t i = 0; i < n.group; ++i) {
      multiply(c, n, member(dout, i), parts.v.t(), scores_of(dprobs, n, i));
      multiply(c, n, scores_of(saved.dropped, n, i).t(), member(dout, i), gradients.v, i > 0);
    }
    saved.dropped.reset();
    if (c.dropout() > 0) {
      const Tensor before = c.activation(n.scores(), "gradient of probabilities");
      run(c.device, ops::DropoutGrad{dprobs, before, saved.mask, dropout(c, site), head_map(batch, n)});
      dprobs = before;
      saved.mask.reset();
    }
    if (saved.wide) {
      saved.probs = c.activation(n.scores(), "attention probabilities");
      run(c.device, ops::Copy{saved.wide, saved.probs});
      saved.wide.reset();
    }
    run(c.device, ops::SoftmaxGrad{dprobs, saved.probs, dprobs, n.scale(), n.causal});
    saved.probs.reset();
    for (std::int64_t i = 0; i < n.group; ++i) {
      multiply(c, n, scores_of(dprobs, n, i), parts.k, member(gradients.q, i));
      multiply(c, n, scores_of(dprobs, n, i).t(), member(parts.q, i), gradients.k, i > 0);
    }
  }

 private:
  static ops::DropoutSpec dropout(const Context& c, std::uint64_t site) { return dropout_at(c, site); }
  static bool widens(const Context& c) { return under_autocast(c.plan) && c.plan.framework->autocast.softmax_in_f32; }
};

// One op for all of it. attention "core" keeps the probabilities; "flash" only the statistics of each row.
class FusedCore final : public AttentionCore {
 public:
  explicit FusedCore(bool keep_probabilities) : keep_probabilities_(keep_probabilities) {}

  Tensor forward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                 const AttentionParts& parts, Saved& saved) const override {
    saved.lse =
        c.device.empty({n.batch, n.local_heads, n.seq}, DType::f32, Category::activations, "attention row statistics");
    if (keep_probabilities_) saved.probs = c.activation(n.scores(), "attention probabilities");
    saved.context = c.activation(n.context(), "attention context");
    run(c.device, ops::Attention{shape(c, batch, site, n), parts.q, parts.k, parts.v, heads_of(saved.context, n),
                                 saved.lse, saved.probs});
    add_sinks(c, n, saved.context, saved.lse);
    return saved.context;
  }

  void backward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                const Tensor& dcontext, const AttentionParts& parts, const AttentionParts& gradients,
                Saved& saved) const override {
    run(c.device, ops::AttentionGrad{shape(c, batch, site, n), heads_of(dcontext, n), parts.q, parts.k, parts.v,
                                     heads_of(saved.context, n), saved.lse, saved.probs, gradients.q, gradients.k,
                                     gradients.v, c.keeps().deterministic_attention});
    sinks_back(c, n, dcontext, saved.context, saved.lse);
    saved = {};
  }

 private:
  ops::AttentionShape shape(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n) const {
    return {n.batch,
            n.local_heads,
            n.seq,
            n.qk_dim,
            n.scale(),
            n.causal,
            n.causal ? Tensor() : keys_of(batch),
            dropout_at(c, site),
            head_map(batch, n),
            n.group,
            n.v_dim,
            n.window,
            n.softcap,
            n.alibi,
            n.documents,
            n.documents && keep_probabilities_ ? c.document_bounds(n.documents) : Tensor()};
  }
  bool keep_probabilities_;
};

}  // namespace

ops::Matrix heads_of(const Tensor& t, const AttentionSizes& n, std::int64_t rows, std::int64_t dim) {
  const std::int64_t width = n.group * dim;
  return {t, rows, dim, n.groups() * width, 0, width};
}

float AttentionSizes::scale() const {
  return own_scale != 0 ? own_scale : 1 / std::sqrt(static_cast<float>(qk_dim));
}

namespace {

Tensor by_head(const AttentionSizes& n, const Tensor& rows) {
  return rows.view({rows.shape()[0], n.batch, n.local_heads, n.v_dim});
}

}  // namespace

void add_sinks(Context& c, const AttentionSizes& n, const Tensor& out, const Tensor& lse) {
  if (n.sinks) run(c.device, ops::AttentionSink{by_head(n, out), lse, n.sinks});
}

void sinks_back(Context& c, const AttentionSizes& n, const Tensor& dout, const Tensor& out, const Tensor& lse) {
  if (n.dsinks) run(c.device, ops::AttentionSinkGrad{by_head(n, dout), by_head(n, out), lse, n.sinks, n.dsinks});
}

Axes axes_of_heads(const Plan& plan, Role role) {
  Axes axes;
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); plan.role(role).weight[axis].sharded(0)) axes.add(axis);
  return axes;
}

namespace {

std::unique_ptr<AttentionCore> make_whole_core(const Plan& plan) {
  if (plan.attention == AttentionKind::flash) return std::make_unique<FusedCore>(false);
  if (plan.keeps().fused_attention) return std::make_unique<FusedCore>(true);
  return std::make_unique<EagerCore>();
}

}  // namespace

std::unique_ptr<AttentionCore> make_attention_core(const Plan& plan) {
  if (plan.mesh.size(Axis::cp) == 1) return make_whole_core(plan);
  switch (plan.cp_communication) {
    case CpCommunication::all_to_all:
      return heads_for_positions(make_whole_core(plan));
    case CpCommunication::ring:
      return attention_by_blocks(KeysBy::ring);
    case CpCommunication::all_gather:
      return attention_by_blocks(KeysBy::all_gather);
  }
  return nullptr;
}

}  // namespace mbench::nn
