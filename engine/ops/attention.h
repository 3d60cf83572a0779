// Fused attention: out = dropout(softmax(scale * Q K^T, masked)) V for every sample and head, block by block,
// without whole score matrices in memory. With `probs` given, the probabilities (before dropout) are kept for
// the gradient; without, only the log-sum-exp of every row is, and the gradient computes them again.
#pragma once
#include "engine/ops/matrix.h"

namespace mbench::ops {

// Grouped queries: `group` neighbouring heads share a head of keys and values. Of a group, a Matrix of queries or outputs
// has its heads side by side, `cols` apart; its batch index, like that of keys and values, counts groups.
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, seq = 0,
               head_dim = 0;  // local; heads of queries; width of queries and keys
  float scale = 1;
  bool causal = false;
  Tensor keep;          // optional [batch, seq] u8, 1 = a real key
  DropoutSpec dropout;  // p = 0: none
  HeadMap map;
  std::int64_t group = 1;
  std::int64_t value_dim = 0;  // width of values and outputs; 0: head_dim

  std::int64_t batches() const { return batch * heads; }
  std::int64_t groups() const { return batches() / group; }
  std::int64_t v_dim() const { return value_dim == 0 ? head_dim : value_dim; }
};

struct Attention {
  static constexpr std::string_view name = "attention";
  static constexpr TimePart part = TimePart::attention;
  AttentionShape shape;
  Matrix q, k;    // [seq, head_dim], batch index b * groups of a sample + group; strided views
  Matrix v, out;  // [seq, v_dim], likewise
  Tensor lse;     // [batch, heads, seq] f32: log of the sum of exp(scale * score) of a row
  Tensor probs;   // optional [batch, heads, seq, seq]
  void check() const;
  Cost cost() const;
};

struct AttentionGrad {
  static constexpr std::string_view name = "attention_grad";
  static constexpr TimePart part = TimePart::attention;
  AttentionShape shape;
  Matrix dout;
  Matrix q, k, v, out;
  Tensor lse;
  Tensor probs;       // as kept by the forward, or empty
  Matrix dq, dk, dv;  // overwritten
  bool deterministic = true;  // two runs give the same bits; else a device may add parts up in whatever order they arrive
  void check() const;
  Cost cost() const;
};

}  // namespace mbench::ops
