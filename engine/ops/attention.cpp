#include "engine/ops/attention.h"

namespace mbench::ops {
namespace {

void need_view(std::string_view op, std::string_view argument, const AttentionShape& s, const Matrix& m) {
  need_float(op, argument, m.data);
  mbench::check(!m.transposed && m.rows == s.seq && m.cols == s.head_dim, op,
                "{} must be [{}, {}] for each head, got [{}, {}]", argument, s.seq, s.head_dim, m.rows,
                m.cols);
  const std::int64_t last = m.offset + (s.batches() - 1) * m.batch_stride + (s.seq - 1) * m.ld + s.head_dim;
  mbench::check(last <= m.data.numel(), op, "{} reaches past its tensor, got end {}, need at most {}",
                argument, last, m.data.numel());
}

void need_statistics(std::string_view op, const AttentionShape& s, const Tensor& lse, const Tensor& probs) {
  need_shape(op, "lse", lse, {s.batch, s.heads, s.seq});
  need_dtype(op, "lse", lse, DType::f32);
  if (probs) need_shape(op, "probs", probs, {s.batch, s.heads, s.seq, s.seq});
  if (s.keep) need_shape(op, "keep", s.keep, {s.batch, s.seq});
}

// One product of [seq, seq, head_dim] for every head. A causal kernel skips the hidden half of the blocks.
double product_flops(const AttentionShape& s) {
  const double seq = static_cast<double>(s.seq);
  return 2 * static_cast<double>(s.batches()) * seq * seq * static_cast<double>(s.head_dim) *
         (s.causal ? 0.5 : 1);
}

double view_bytes(const AttentionShape& s, DType t) {
  return static_cast<double>(s.batches() * s.seq * s.head_dim) * static_cast<double>(size_of(t));
}

}  // namespace

void Attention::check() const {
  need_view(name, "q", shape, q);
  need_view(name, "k", shape, k);
  need_view(name, "v", shape, v);
  need_view(name, "out", shape, out);
  need_statistics(name, shape, lse, probs);
}

Cost Attention::cost() const {
  return {2 * product_flops(shape), 4 * view_bytes(shape, q.data.dtype()) + bytes_of(probs), true};
}

void AttentionGrad::check() const {
  for (const auto& [label, m] : {std::pair<const char*, const Matrix*>{"dout", &dout},
                                 {"q", &q},
                                 {"k", &k},
                                 {"v", &v},
                                 {"out", &out},
                                 {"dq", &dq},
                                 {"dk", &dk},
                                 {"dv", &dv}})
    need_view(name, label, shape, *m);
  need_statistics(name, shape, lse, probs);
}

Cost AttentionGrad::cost() const {
  return {(probs ? 4 : 5) * product_flops(shape), 8 * view_bytes(shape, q.data.dtype()) + bytes_of(probs),
          true};
}

}  // namespace mbench::ops
