#include "engine/ops/attention.h"

#include <bit>
#include <cmath>

namespace mbench::ops {
namespace {

// `heads` of them side by side: those of a group, or one.
void need_view(std::string_view op, std::string_view argument, const AttentionShape& s, const Matrix& m,
               std::int64_t dim, std::int64_t heads) {
  need_float(op, argument, m.data);
  mbench::check(!m.transposed && m.rows == s.seq && m.cols == dim, op,
                "{} must be [{}, {}] for each head, got [{}, {}]", argument, s.seq, dim, m.rows, m.cols);
  const std::int64_t last = m.offset + (s.groups() - 1) * m.batch_stride + (s.seq - 1) * m.ld + heads * dim;
  mbench::check(last <= m.data.numel(), op, "{} reaches past its tensor, got end {}, need at most {}", argument, last,
                m.data.numel());
}

void need_queries(std::string_view op, std::string_view argument, const AttentionShape& s, const Matrix& m) {
  need_view(op, argument, s, m, s.head_dim, s.group);
}
void need_keys(std::string_view op, std::string_view argument, const AttentionShape& s, const Matrix& m) {
  need_view(op, argument, s, m, s.head_dim, 1);
}
void need_values(std::string_view op, std::string_view argument, const AttentionShape& s, const Matrix& m) {
  need_view(op, argument, s, m, s.v_dim(), 1);
}
void need_outputs(std::string_view op, std::string_view argument, const AttentionShape& s, const Matrix& m) {
  need_view(op, argument, s, m, s.v_dim(), s.group);
}

void need_statistics(std::string_view op, const AttentionShape& s, const Tensor& lse, const Tensor& probs) {
  mbench::check(s.group > 0 && s.heads % s.group == 0, op, "heads, got {}, need a multiple of the group {}", s.heads,
                s.group);
  need_shape(op, "lse", lse, {s.batch, s.heads, s.seq});
  need_dtype(op, "lse", lse, DType::f32);
  if (probs) need_shape(op, "probs", probs, {s.batch, s.heads, s.seq, s.seq});
  if (s.keep) need_shape(op, "keep", s.keep, {s.batch, s.seq});
}

// One product of [seq, seq, dim] for every head. A causal kernel skips the hidden half of the blocks, and one with a window those
// before it. One that keeps probabilities has those of other documents too.
double gemm_flops(const AttentionShape& s, std::int64_t dim, bool keeps) {
  const double seq = static_cast<double>(s.seq), heads = static_cast<double>(s.batches()),
               width = static_cast<double>(dim);
  if (s.window > 0 || (s.documents && !keeps)) return 2 * heads * s.visible_pairs() * width;
  return 2 * heads * seq * seq * width * (s.causal ? 0.5 : 1);
}

void need_positions(std::string_view op, const AttentionShape& s, const Tensor& probs) {
  mbench::check(s.window >= 0 && s.softcap >= 0, op, "window {} and softcap {}, need at least 0", s.window, s.softcap);
  mbench::check((s.window == 0 && s.softcap == 0 && !s.alibi) || !probs, op,
                "kept probabilities with a window, a softcap or slopes, need none");
  if (s.documents)
    mbench::check(s.map.q0 + s.seq <= s.documents->seq() && s.map.k0 + s.seq <= s.documents->seq(), op,
                  "documents of {} tokens, got {} queries from {} and keys from {}, need all within them",
                  s.documents->seq(), s.seq, s.map.q0, s.map.k0);
  mbench::check(!s.causal || s.ahead() == 0, op, "causal block of query {} and key {}, need the same", s.map.q0,
                s.map.k0);
}

// Summed over queries [q0, q1) of one document: the keys of [k0, k1) that are at most q + ahead.
double keys_up_to(std::int64_t q0, std::int64_t q1, std::int64_t k0, std::int64_t k1, std::int64_t ahead) {
  // None before `from`, one more for each query from there on, and all from `to` on.
  const std::int64_t from = std::clamp(k0 - ahead, q0, q1), to = std::clamp(k1 - ahead, from, q1);
  const double first = static_cast<double>(from + ahead - k0 + 1), rising = static_cast<double>(to - from);
  return rising * (2 * first + rising - 1) / 2 + static_cast<double>(q1 - to) * static_cast<double>(k1 - k0);
}

// The pairs of a query and a key that it sees, document by document.
double pairs_within(const AttentionShape& s) {
  const Documents& all = *s.documents;
  double pairs = 0;
  for (std::int64_t d = all.at(s.map.q0); d < all.count() && all.first(d) < s.map.q0 + s.seq; ++d) {
    const auto within = [&](std::int64_t position, std::int64_t first) {
      return std::clamp<std::int64_t>(position - first, 0, s.seq);
    };
    const std::int64_t q0 = within(all.first(d), s.map.q0), q1 = within(all.end(d), s.map.q0),
                       k0 = within(all.first(d), s.map.k0), k1 = within(all.end(d), s.map.k0);
    if (k0 == k1) continue;
    pairs += s.causal ? keys_up_to(q0, q1, k0, k1, 0) : static_cast<double>((q1 - q0) * (k1 - k0));
    if (s.window > 0) pairs -= keys_up_to(q0, q1, k0, k1, s.ahead() - s.window);
  }
  return pairs;
}

// Of queries and outputs, and of keys and values.
double operand_bytes(const AttentionShape& s, DType t) {
  const std::int64_t a_position = (s.batches() + s.groups()) * (s.head_dim + s.v_dim());
  return static_cast<double>(s.seq * a_position) * static_cast<double>(size_of(t));
}

}  // namespace

double AttentionShape::visible_pairs() const {
  if (documents) return pairs_within(*this);
  const double n = static_cast<double>(seq);
  if (window == 0) return causal ? n * (n + 1) / 2 : n * n;
  if (causal) {
    const double w = static_cast<double>(std::min(window, seq));
    return w * (w + 1) / 2 + (n - w) * w;
  }
  // Hidden from query q: the keys before q + e, as far as there are some.
  const std::int64_t e = ahead() - window + 1;
  const double from = static_cast<double>(std::clamp<std::int64_t>(-e, 0, seq)),
               to = static_cast<double>(std::clamp<std::int64_t>(seq - e, 0, seq));
  const double ramp = to > from ? (to - from) * (from + to - 1 + 2 * static_cast<double>(e)) / 2 : 0;
  return n * n - ramp - (n - std::max(from, to)) * n;
}

float alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double i = static_cast<double>(head), n = static_cast<double>(power);
  if (head < power) return static_cast<float>(std::exp2(-8 * (i + 1) / n));
  return static_cast<float>(std::exp2(-4 * (2 * (i - n) + 1) / n));
}

void Attention::check() const {
  need_positions(name, shape, probs);
  need_statistics(name, shape, lse, probs);
  need_queries(name, "q", shape, q);
  need_keys(name, "k", shape, k);
  need_values(name, "v", shape, v);
  need_outputs(name, "out", shape, out);
}

Cost Attention::cost() const {
  const bool keeps = static_cast<bool>(probs);
  return {gemm_flops(shape, shape.head_dim, keeps) + gemm_flops(shape, shape.v_dim(), keeps),
          operand_bytes(shape, q.data.dtype()) + bytes_of(probs), true};
}

void AttentionGrad::check() const {
  need_positions(name, shape, probs);
  need_statistics(name, shape, lse, probs);
  need_queries(name, "q", shape, q);
  need_queries(name, "dq", shape, dq);
  need_keys(name, "k", shape, k);
  need_keys(name, "dk", shape, dk);
  need_values(name, "v", shape, v);
  need_values(name, "dv", shape, dv);
  need_outputs(name, "out", shape, out);
  need_outputs(name, "dout", shape, dout);
}

// dV and dP are as wide as values, dQ and dK, and the scores where they are computed again, as keys.
Cost AttentionGrad::cost() const {
  const bool keeps = static_cast<bool>(probs);
  return {2 * gemm_flops(shape, shape.v_dim(), keeps) + (keeps ? 2 : 3) * gemm_flops(shape, shape.head_dim, keeps),
          2 * operand_bytes(shape, q.data.dtype()) + bytes_of(probs), true};
}

}  // namespace mbench::ops
