// Fused attention: out = dropout(softmax(scale * Q K^T, masked)) V for every sample and head, block by block, without
// whole score matrices in memory. With `probs`, the probabilities (before dropout) are kept for the gradient. Without,
// only every row's log-sum-exp is kept, and the gradient recomputes the probabilities.
#pragma once
#include <algorithm>

#include "engine/base/documents.h"
#include "engine/ops/matrix.h"

namespace mbench::ops {

// Grouped queries: `group` neighbouring heads share a head of keys and values. A Matrix of queries or outputs has the
// heads of a group next to each other, `cols` columns each. Its batch index counts groups, and so does the batch index
// of keys and values.
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
  std::int64_t window = 0;     // how many keys a query sees, up to its own position; 0: all
  float softcap = 0;           // c: a scaled score becomes c tanh(score / c); 0: none
  bool alibi = false;          // then a score falls by slope(head) for each position that its key is before the query
  // Of the whole sequence, optional: a query sees the keys of its own document only. Position 0 is query map.q0 and key map.k0.
  DocumentsOrNone documents = nullptr;
  Tensor document_bounds{};  // with kept probabilities, see engine/ops/softmax.h

  // How many positions query 0 is after key 0, in a block of a longer sequence.
  std::int64_t ahead() const { return map.q0 - map.k0; }
  // Of query q; 0 where there are none.
  std::int64_t document_of(std::int64_t q) const { return documents ? documents->at(map.q0 + q) : 0; }
  // The keys that query q, which is in that document, may see: [first, end), which may be none.
  struct Keys {
    std::int64_t first, end;
  };
  Keys keys_of(std::int64_t q, std::int64_t document) const {
    std::int64_t first = window == 0 ? 0 : q + ahead() - window + 1, end = causal ? q + 1 : seq;
    if (documents) {
      first = std::max(first, documents->first(document) - map.k0);
      end = std::clamp<std::int64_t>(documents->end(document) - map.k0, 0, end);
    }
    return {first <= 0 ? 0 : std::min(first, end), end};
  }
  std::int64_t end_key(std::int64_t q) const { return keys_of(q, document_of(q)).end; }
  std::int64_t first_key(std::int64_t q) const { return keys_of(q, document_of(q)).first; }
  // Summed over all queries.
  double visible_pairs() const;
  // Whether scores are only scaled dot products, with all keys before a query.
  bool plain() const { return window == 0 && softcap == 0 && !alibi && !documents; }

  std::int64_t batches() const { return batch * heads; }
  std::int64_t groups() const { return batches() / group; }
  std::int64_t v_dim() const { return value_dim == 0 ? head_dim : value_dim; }
};

// The slope of head `head` of `heads` (Press et al. 2022).
// Of n heads, where n is a power of two, head i has 2^(-8 (i + 1) / n).
// Otherwise the first heads have the slopes of the power of two below, the others every second slope of the power above.
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
  Tensor probs;               // as kept by the forward, or empty
  Matrix dq, dk, dv;          // overwritten
  bool deterministic = true;  // true: two runs give the same bits; false: parts may be added in any order
  void check() const;
  Cost cost() const;
};

}  // namespace mbench::ops
