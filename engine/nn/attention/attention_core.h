// The attention core: from Q, K and V to the context, for every local head. Injected into the mixer, so that
// a way of computing attention is a class here and nothing else.
#pragma once
#include <memory>

#include "engine/nn/runtime/context.h"
#include "engine/ops/attention.h"

namespace mbench::nn {

// Q, K and V, or their gradients, inside whatever tensors hold them. Each group of heads that share keys and values has
// one [seq, head_dim] matrix; groups are counted over samples. The queries of a group are neighbours.
struct AttentionParts {
  ops::Matrix q, k, v;
};

// What an attention core works on.
struct AttentionSizes {
  std::int64_t seq = 0, batch = 0;
  std::int64_t heads = 0, local_heads = 0;
  std::int64_t head0 = 0;  // the first local head
  std::int64_t qk_dim = 0, v_dim = 0;
  bool causal = true;
  std::int64_t group = 1;   // heads that share keys and values
  float own_scale = 0;      // scale of scores; 0: 1 / sqrt(qk_dim)
  std::int64_t window = 0;  // this and the next two: as in ops::AttentionShape
  float softcap = 0;
  bool alibi = false;
  Tensor sinks{}, dsinks{};             // optional: a logit of each local head, and its gradient
  DocumentsOrNone documents = nullptr;  // of the whole sequence, optional

  std::int64_t groups() const { return batch * local_heads / group; }
  Shape scores() const { return {batch, local_heads, seq, seq}; }
  Shape context() const { return {seq, batch, local_heads * v_dim}; }
  float scale() const;
};

class AttentionCore {
 public:
  // Whatever an implementation keeps for its gradient.
  struct Saved {
    Tensor probs, mask, dropped;  // eager: probabilities, dropout mask, probabilities after dropout
    Tensor wide;                  // eager, under autocast: probabilities in f32, in place of those above
    Tensor lse, context;          // fused: row statistics and the output
    Tensor exchanged;             // where heads were exchanged for positions: Q, K and V of all positions
  };
  virtual ~AttentionCore() = default;
  // Returns [seq, batch, local heads * v_dim]. `site` names the dropout.
  virtual Tensor forward(Context& context, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& sizes,
                         const AttentionParts& parts, Saved& saved) const = 0;
  // Writes the gradients of Q, K and V; frees what was saved.
  virtual void backward(Context& context, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& sizes,
                        const Tensor& dcontext, const AttentionParts& parts, const AttentionParts& gradients,
                        Saved& saved) const = 0;
  // Whether forward keeps Q, K and V elsewhere, so that backward does not read the parts that it is given.
  virtual bool keeps_parts() const { return false; }
};

// Heads of queries or outputs inside such a tensor, or one like it: `dim` wide, of `rows` positions.
ops::Matrix heads_of(const Tensor& t, const AttentionSizes& sizes, std::int64_t rows, std::int64_t dim);

// Attention with sinks from attention without: the output and the statistics change. Then the sinks' gradient. Nothing
// without sinks.
void add_sinks(Context& context, const AttentionSizes& sizes, const Tensor& out, const Tensor& lse);
void sinks_back(Context& context, const AttentionSizes& sizes, const Tensor& dout, const Tensor& out,
                const Tensor& lse);

// The axes along which heads are split: those that cut the rows of the weights of that role.
Axes axes_of_heads(const Plan& plan, Role role);

std::unique_ptr<AttentionCore> make_attention_core(const Plan& plan);

}  // namespace mbench::nn
