#include "engine/ops/attention.h"

#include "engine/backend/cpu/attention_blocks.h"
#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {
namespace {

using ops::Attention;
using ops::AttentionGrad;
using ops::AttentionShape;

// Visible keys of query rows up to and with q.
std::int64_t keys_to(const AttentionShape& s, std::int64_t q) {
  return s.causal ? q + 1 : s.seq;
}

void drop(const AttentionShape& s, std::int64_t index, std::int64_t q, std::int64_t n, const float* from,
          float* to) {
  for (std::int64_t k = 0; k < n; k += kTile) {
    const std::int64_t count = std::min(kTile, n - k);
    float factor[kTile];
    draw_factors(s.dropout, first_word(s, index, q) + static_cast<std::uint64_t>(k), count, factor);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[k + i] = factor[i] == 0 ? 0.0f : from[k + i] * factor[i];
  }
}

template <class T, class TP>
void attend_head(const Attention& op, std::int64_t index, float* scratch) {
  const AttentionShape& s = op.shape;
  const std::int64_t d = s.head_dim, block = block_rows(s), head = s.seq * d;
  float* scores = scratch;  // [block, seq]
  float* buffers = scratch + block * s.seq;
  const HeadView q = head_of<T>(s, op.q, index, buffers), k = head_of<T>(s, op.k, index, buffers + head),
                 v = head_of<T>(s, op.v, index, buffers + 2 * head),
                 out = output_of<T>(s, op.out, index, buffers + 3 * head);
  const KeyMask mask = keys_of(s, index);
  for (std::int64_t q0 = 0; q0 < s.seq; q0 += block) {
    const std::int64_t rows = std::min(block, s.seq - q0), keys = keys_to(s, q0 + rows - 1), ld = s.seq;
    head_gemm(false, true, rows, keys, d, 1, q.row(q0), q.ld, k.data, k.ld, 0, scores, ld);
    parallel_rows(rows, keys, [&](std::int64_t r) {
      float* row = scores + r * ld;
      const std::int64_t visible = keys_to(s, q0 + r);
      op.lse.as<float>()[index * s.seq + q0 + r] = softmax_row(row, row, visible, s.scale, mask);
      std::fill(row + visible, row + keys, 0.0f);
      if (op.probs) {
        TP* kept = op.probs.as<TP>() + (index * s.seq + q0 + r) * s.seq;
        from_floats(row, kept, keys);
        std::fill(kept + keys, kept + s.seq, TP{});
      }
      if (s.dropout.p > 0) drop(s, index, q0 + r, visible, row, row);
    });
    head_gemm(false, false, rows, d, keys, 1, scores, ld, v.data, v.ld, 0, out.row(q0), out.ld);
  }
  store_head<T>(s, out, op.out, index);
}

// The probabilities of query row q again: as kept, or from its log-sum-exp and its scores, which are in
// `row`.
template <class TP>
void restore_probs(const AttentionGrad& op, std::int64_t index, std::int64_t q, std::int64_t n,
                   const KeyMask& mask, float* row) {
  const AttentionShape& s = op.shape;
  if (op.probs) {
    to_floats(op.probs.as<TP>() + (index * s.seq + q) * s.seq, row, n);
    return;
  }
  const float lse = op.lse.as<float>()[index * s.seq + q], scale = s.scale;
  if (mask.keep == nullptr) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) row[k] = exp_f32(scale * row[k] - lse);
  } else {
    const std::uint8_t* keep = mask.keep;
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) row[k] = keep[k] == 0 ? 0.0f : exp_f32(scale * row[k] - lse);
  }
}

// With P the probabilities, F the dropout factors, O = (P F) V: dV = (P F)^T dO, dP = F (dO V^T),
// dS = scale P (dP - rowsum(dO O)), dQ = dS K, dK = dS^T Q.
template <class T, class TP>
void attend_head_grad(const AttentionGrad& op, std::int64_t index, float* scratch) {
  const AttentionShape& s = op.shape;
  const std::int64_t d = s.head_dim, block = block_rows(s), head = s.seq * d, ld = s.seq;
  float *probs = scratch, *dscores = probs + block * ld;  // [block, seq] each
  float* buffers = dscores + block * ld;
  const HeadView q = head_of<T>(s, op.q, index, buffers), k = head_of<T>(s, op.k, index, buffers + head),
                 v = head_of<T>(s, op.v, index, buffers + 2 * head),
                 out = head_of<T>(s, op.out, index, buffers + 3 * head),
                 dout = head_of<T>(s, op.dout, index, buffers + 4 * head),
                 dq = output_of<T>(s, op.dq, index, buffers + 5 * head),
                 dk = output_of<T>(s, op.dk, index, buffers + 6 * head),
                 dv = output_of<T>(s, op.dv, index, buffers + 7 * head);
  const KeyMask mask = keys_of(s, index);
  const std::int64_t blocks = (s.seq + block - 1) / block;
  // From the last block, which sees all keys and so overwrites the whole of dk and dv, to the first.
  for (std::int64_t b = blocks - 1; b >= 0; --b) {
    const std::int64_t q0 = b * block, rows = std::min(block, s.seq - q0), keys = keys_to(s, q0 + rows - 1);
    const float beta = b == blocks - 1 ? 0.0f : 1.0f;
    if (!op.probs) head_gemm(false, true, rows, keys, d, 1, q.row(q0), q.ld, k.data, k.ld, 0, probs, ld);
    head_gemm(false, true, rows, keys, d, 1, dout.row(q0), dout.ld, v.data, v.ld, 0, dscores, ld);
    parallel_rows(rows, keys, [&](std::int64_t r) {
      float *p = probs + r * ld, *ds = dscores + r * ld;
      const float *o = out.row(q0 + r), *go = dout.row(q0 + r);
      const std::int64_t visible = keys_to(s, q0 + r);
      restore_probs<TP>(op, index, q0 + r, visible, mask, p);
      const float dot = sum_of(d, [o, go](std::int64_t i) { return o[i] * go[i]; });
      const float scale = s.scale;
      if (s.dropout.p > 0) {
        for (std::int64_t k0 = 0; k0 < visible; k0 += kTile) {
          const std::int64_t count = std::min(kTile, visible - k0);
          float factor[kTile];
          draw_factors(s.dropout, first_word(s, index, q0 + r) + static_cast<std::uint64_t>(k0), count,
                       factor);
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) {
            const float dp = factor[i] == 0 ? 0.0f : ds[k0 + i] * factor[i];
            ds[k0 + i] = scale * p[k0 + i] * (dp - dot);
            p[k0 + i] = factor[i] == 0 ? 0.0f : p[k0 + i] * factor[i];
          }
        }
      } else {
#pragma omp simd
        for (std::int64_t i = 0; i < visible; ++i) ds[i] = scale * p[i] * (ds[i] - dot);
      }
      std::fill(p + visible, p + keys, 0.0f);
      std::fill(ds + visible, ds + keys, 0.0f);
    });
    head_gemm(true, false, keys, d, rows, 1, probs, ld, dout.row(q0), dout.ld, beta, dv.data, dv.ld);
    head_gemm(false, false, rows, d, keys, 1, dscores, ld, k.data, k.ld, 0, dq.row(q0), dq.ld);
    head_gemm(true, false, keys, d, rows, 1, dscores, ld, q.row(q0), q.ld, beta, dk.data, dk.ld);
  }
  store_head<T>(s, dq, op.dq, index);
  store_head<T>(s, dk, op.dk, index);
  store_head<T>(s, dv, op.dv, index);
}

// f(T(), TP()) for the types of the operands and of the kept probabilities.
template <class Op, class F>
void with_types(const Op& op, F&& f) {
  with_type(op.q.data.dtype(), [&](auto type) {
    with_type(op.probs ? op.probs.dtype() : DType::f32, [&](auto probs_type) { f(type, probs_type); });
  });
}

void need_one_type(std::string_view op, DType type, std::initializer_list<const ops::Matrix*> matrices) {
  for (const ops::Matrix* m : matrices)
    check(m->data.dtype() == type, op, "operands must have one dtype, got {} and {}", name_of(type),
          name_of(m->data.dtype()));
}

}  // namespace

void CpuOps::run(const Attention& op) {
  const AttentionShape& s = op.shape;
  if (s.batches() == 0 || s.seq == 0) return;
  need_one_type(op.name, op.q.data.dtype(), {&op.k, &op.v, &op.out});
  with_types(op, [&](auto type, auto probs_type) {
    using T = decltype(type);
    using TP = decltype(probs_type);
    const bool shared_out = share_heads(s);
    const std::int64_t each = block_rows(s) * s.seq + (std::is_same_v<T, float> ? 0 : 4 * s.seq * s.head_dim);
    float* scratch = scratch_.floats(each * (shared_out ? omp_get_max_threads() : 1));
#pragma omp parallel for schedule(dynamic) if (shared_out)
    for (std::int64_t i = 0; i < s.batches(); ++i)
      attend_head<T, TP>(op, i, scratch + omp_get_thread_num() * each);
  });
}

void CpuOps::run(const AttentionGrad& op) {
  const AttentionShape& s = op.shape;
  if (s.batches() == 0 || s.seq == 0) return;
  need_one_type(op.name, op.q.data.dtype(), {&op.k, &op.v, &op.out, &op.dout, &op.dq, &op.dk, &op.dv});
  with_types(op, [&](auto type, auto probs_type) {
    using T = decltype(type);
    using TP = decltype(probs_type);
    const bool shared_out = share_heads(s);
    const std::int64_t each =
        2 * block_rows(s) * s.seq + (std::is_same_v<T, float> ? 0 : 8 * s.seq * s.head_dim);
    float* scratch = scratch_.floats(each * (shared_out ? omp_get_max_threads() : 1));
#pragma omp parallel for schedule(dynamic) if (shared_out)
    for (std::int64_t i = 0; i < s.batches(); ++i)
      attend_head_grad<T, TP>(op, i, scratch + omp_get_thread_num() * each);
  });
}

}  // namespace mbench::cpu
