// Fused attention: out = dropout(softmax(scale * Q K^T, masked)) V for every sample and head, block by block,
// without whole score matrices in memory. With `probs` given, the probabilities (before dropout) are kept for
// the gradient; without, only the log-sum-exp of every row is, and the gradient computes them again.
#pragma once
#include <algorithm>

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
  std::int64_t window = 0;     // keys that a query sees: so many up to its own position; 0: all
  float softcap = 0;           // c: a scaled score becomes c tanh(score / c); 0: none
  bool alibi = false;          // then a score falls by slope(head) for each position that its key is before the query

  // Query 0 is so many positions after key 0: of a block of a longer sequence.
  std::int64_t ahead() const { return map.q0 - map.k0; }
  // The keys that query q may see: [first_key, end_key), which may be none.
  std::int64_t end_key(std::int64_t q) const { return causal ? q + 1 : seq; }
  std::int64_t first_key(std::int64_t q) const {
    return window == 0 ? 0 : std::clamp<std::int64_t>(q + ahead() - window + 1, 0, end_key(q));
  }
  // Of all queries together.
  double visible_pairs() const;
  // Whether scores are more than scaled products, of all keys before a query.
  bool plain() const { return window == 0 && softcap == 0 && !alibi; }

  std::int64_t batches() const { return batch * heads; }
  std::int64_t groups() const { return batches() / group; }
  std::int64_t v_dim() const { return value_dim == 0 ? head_dim : value_dim; }
};

// Of head `head` of `heads` (Press et al. 2022): 2^(-8 (i + 1) / n) of n heads, where n is a power of two; of another number those of
// the power of two below, and then every second one of the power above.
float alibi_slope(std::int64_t head, std::int64_t heads);

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
  bool deterministic =
      true;  // two runs give the same bits; else a device may add parts up in whatever order they arrive
  void check() const;
  Cost cost() const;
};

}  // namespace mbench::ops
