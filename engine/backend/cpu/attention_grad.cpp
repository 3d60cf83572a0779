// The gradient of fused attention, block by block of query rows. With P the probabilities, F the dropout
// factors and O = (P F) V: dV = (P F)^T dO, dP = F (dO V^T), dS = scale P (dP - rowsum(dO O)), dQ = dS K, dK
// = dS^T Q.
#include "engine/backend/cpu/attention_head.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {
namespace {

using ops::AttentionGrad;
using ops::AttentionShape;

// Scratch of a head: what its threads share, and what each of them has of its own.
struct Shared {
  Shared(const HeadSizes& z, float* at) : k_panels(at), v_panels(at + z.panels()), k(v_panels + z.panels()) {}
  static std::int64_t floats(const HeadSizes& z) { return 2 * z.panels() + z.head(); }
  float *k_panels, *v_panels, *k;
};
struct Own {
  Own(const HeadSizes& z, float* at)
      : dk(at),
        dv(dk + z.head()),
        q(dv + z.head()),
        dout(q + z.queries()),
        out(dout + z.queries()),
        probs(out + z.queries()),
        dscores(probs + z.scores()) {}
  static std::int64_t floats(const HeadSizes& z) {
    return 2 * z.head() + 3 * z.queries() + 2 * std::max(z.scores(), kPanel * z.width);
  }
  float *dk, *dv;  // summed over this thread's blocks
  float *q, *dout, *out, *probs, *dscores;
};

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

// p: P -> P F; ds: dO V^T -> dS, over n visible keys of query q.
void grad_row(const AttentionShape& s, std::int64_t index, std::int64_t q, std::int64_t n, float dot,
              float* p, float* ds) {
  const float scale = s.scale;
  if (s.dropout.p <= 0) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) ds[i] = scale * p[i] * (ds[i] - dot);
    return;
  }
  for (std::int64_t k = 0; k < n; k += kTile) {
    const std::int64_t count = std::min(kTile, n - k);
    float factor[kTile];
    draw_factors(s.dropout, first_word(s, index, q) + static_cast<std::uint64_t>(k), count, factor);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      ds[k + i] = scale * p[k + i] * (ds[k + i] * factor[i] - dot);
      p[k + i] *= factor[i];
    }
  }
}

template <class T, class TP>
void grad_block(const AttentionGrad& op, const HeadSizes& z, std::int64_t index, std::int64_t b,
                const Shared& shared, const Own& own) {
  const AttentionShape& s = op.shape;
  const std::int64_t q0 = b * z.block, rows = z.rows_of(b), keys = visible_keys(s, q0 + rows - 1);
  load_rows<T>(z, op.q, index, q0, rows, own.q);
  load_rows<T>(z, op.dout, index, q0, rows, own.dout);
  load_rows<T>(z, op.out, index, q0, rows, own.out);
  if (!op.probs) score_block(z, rows, keys, own.q, shared.k_panels, own.probs);
  score_block(z, rows, keys, own.dout, shared.v_panels, own.dscores);
  const KeyMask mask = keys_of(s, index);
  for (std::int64_t r = 0; r < rows; ++r) {
    float *p = own.probs + r * z.ld, *ds = own.dscores + r * z.ld;
    const float *o = own.out + r * z.width, *go = own.dout + r * z.width;
    const std::int64_t visible = visible_keys(s, q0 + r);
    restore_probs<TP>(op, index, q0 + r, visible, mask, p);
    const float dot = sum_of(z.width, [o, go](std::int64_t i) { return o[i] * go[i]; });
    grad_row(s, index, q0 + r, visible, dot, p, ds);
    std::fill(p + visible, p + keys, 0.0f);
    std::fill(ds + visible, ds + keys, 0.0f);
  }
  float* dq = own.out;
  block_gemm(keys, z.width, rows, {own.probs, 1, z.ld}, own.dout, z.width, own.dv, z.width, true);
  block_gemm(keys, z.width, rows, {own.dscores, 1, z.ld}, own.q, z.width, own.dk, z.width, true);
  block_gemm(rows, z.width, keys, {own.dscores, z.ld, 1}, shared.k, z.width, dq, z.width, false);
  store_rows<T>(z, dq, op.dq, index, q0, rows);
}

template <class T, class TP>
void grad_head(const AttentionGrad& op, const HeadSizes& z, const Sharing& sharing, std::int64_t index,
               float* scratch) {
  const Shared shared(z, scratch);
  float* owns = scratch + Shared::floats(z);
  const auto own = [&](int thread) { return Own(z, owns + thread * Own::floats(z)); };
  const std::int64_t panels = z.keys / kPanel;
#pragma omp parallel if (sharing.blocks > 1)
  {
    const Own mine = own(omp_get_thread_num());
    std::fill(mine.dk, mine.dk + 2 * z.head(), 0.0f);  // dk and dv
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t first = p * kPanel, count = std::min(kPanel, z.seq - first);
      load_panel<T>(z, op.k, index, p, mine.probs, shared.k_panels);
      load_panel<T>(z, op.v, index, p, mine.probs, shared.v_panels);
      load_rows<T>(z, op.k, index, first, count, shared.k + first * z.width);
    }
    // Round-robin, not dynamic: which thread sums which blocks must not depend on timing.
#pragma omp for schedule(static, 1)
    for (std::int64_t b = 0; b < z.blocks; ++b) grad_block<T, TP>(op, z, index, b, shared, mine);
    // The threads' sums, added in order.
    const int threads = omp_get_num_threads();
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < z.seq; ++r) {
      float *dk = own(0).dk + r * z.width, *dv = own(0).dv + r * z.width;
      for (int t = 1; t < threads; ++t) {
        const float *more_dk = own(t).dk + r * z.width, *more_dv = own(t).dv + r * z.width;
#pragma omp simd
        for (std::int64_t c = 0; c < z.width; ++c) {
          dk[c] += more_dk[c];
          dv[c] += more_dv[c];
        }
      }
      store_rows<T>(z, dk, op.dk, index, r, 1);
      store_rows<T>(z, dv, op.dv, index, r, 1);
    }
  }
}

}  // namespace

template <>
void compute(CpuOps& cpu, const AttentionGrad& op) {
  const AttentionShape& s = op.shape;
  if (s.batches() == 0 || s.seq == 0) return;
  const HeadSizes z(s);
  const Sharing sharing(s);
  const std::int64_t each = Shared::floats(z) + sharing.blocks * Own::floats(z);
  float* scratch = cpu.scratch.floats(each * sharing.heads);
  with_attention_types(op, {&op.k, &op.v, &op.out, &op.dout, &op.dq, &op.dk, &op.dv},
                       [&](auto type, auto probs_type) {
#pragma omp parallel for schedule(dynamic) if (sharing.heads > 1)
                         for (std::int64_t i = 0; i < s.batches(); ++i)
                           grad_head<decltype(type), decltype(probs_type)>(
                               op, z, sharing, i, scratch + omp_get_thread_num() * each);
                       });
}

}  // namespace mbench::cpu
