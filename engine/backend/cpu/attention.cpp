#include "engine/ops/attention.h"

#include "engine/backend/cpu/attention_head.h"
#include "engine/backend/cpu/attention_native.h"
#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {
namespace {

using ops::Attention;
using ops::AttentionShape;

// Shared by the threads that work on a head: K transposed and V. Each thread's own: a block of q or out, and
// scores.
std::int64_t shared_floats(const HeadSizes& z) {
  return z.keys * z.width + z.seq * z.v_width;
}
std::int64_t own_floats(const HeadSizes& z) {
  return z.block * z.widest() + std::max(z.scores(), kPanel * z.width);
}

template <class T, class TP>
void attend_block(const Attention& op, const HeadSizes& z, std::int64_t index, std::int64_t b, const float* k_panels,
                  const float* v, float* own) {
  const AttentionShape& s = op.shape;
  float *queries = own, *scores = own + z.block * z.widest();
  const std::int64_t q0 = b * z.block, rows = z.rows_of(b), keys = s.end_key(q0 + rows - 1), from = first_vector(s, q0);
  load_rows<T>(op.q, query_head(s, op.q, index), q0, rows, z.width, queries);
  score_block(z.ld, rows, from, keys, z.width, queries, k_panels, scores);
  const KeyMask mask = keys_of(s, index);
  const bool scaled = bends_scores(s) || s.scale <= 0;  // by make_scores()
  float inverses[HeadSizes::kMostRows];
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * z.ld;
    const std::int64_t visible = s.end_key(q0 + r), first = s.first_key(q0 + r);
    if (scaled) make_scores(s, index, q0 + r, first, visible, row, nullptr);
    const ExpRow made = exp_row(row + first, visible - first, scaled ? 1.0f : s.scale, mask.from(first));
    op.lse.as<float>()[index * s.seq + q0 + r] = made.lse;
    inverses[r] = made.inverse;
    if (op.probs) {
      scale_row(visible - first, made.inverse, row + first);
      inverses[r] = 1;
    }
    std::fill(row + std::min(from, visible), row + first, 0.0f);
    std::fill(row + visible, row + keys, 0.0f);
    if (op.probs) {
      TP* kept = op.probs.as<TP>() + (index * s.seq + q0 + r) * s.seq;
      std::fill(kept, kept + from, TP{});
      from_floats(row + from, kept + from, keys - from);
      std::fill(kept + keys, kept + s.seq, TP{});
    }
    if (s.dropout.p > 0) drop_row(s, index, q0 + r, first, visible, row);
  }
  float* out = queries;
  block_gemm(rows, z.v_width, keys - from, {scores + from, z.ld, 1}, v + from * z.v_width, z.v_width, out, z.v_width,
             false);
  for (std::int64_t r = 0; r < rows; ++r) scale_row(z.v_width, inverses[r], out + r * z.v_width);
  store_rows<T>(out, op.out, query_head(s, op.out, index), q0, rows, z.v_width);
}

template <class T, class TP>
void attend_head(const Attention& op, const HeadSizes& z, const Sharing& sharing, std::int64_t index, float* scratch) {
  float *k_panels = scratch, *v = k_panels + z.keys * z.width, *owns = v + z.seq * z.v_width;
  const std::int64_t k_head = key_head(op.shape, op.k, index), v_head = key_head(op.shape, op.v, index);
  const auto own = [&] { return owns + omp_get_thread_num() * own_floats(z); };
  const std::int64_t panels = z.keys / kPanel;
#pragma omp parallel for schedule(static) if (sharing.blocks > 1)
  for (std::int64_t p = 0; p < panels; ++p) {
    load_panel<T>(op.k, k_head, p, z.width, own(), k_panels);
    load_rows<T>(op.v, v_head, p * kPanel, std::min(kPanel, z.seq - p * kPanel), z.v_width, v + p * kPanel * z.v_width);
  }
#pragma omp parallel for schedule(dynamic) if (sharing.blocks > 1)
  for (std::int64_t b = 0; b < z.blocks; ++b) attend_block<T, TP>(op, z, index, b, k_panels, v, own());
}

}  // namespace

template <>
void compute(CpuOps& cpu, const Attention& op) {
  const AttentionShape& s = op.shape;
  if (s.batches() == 0 || s.seq == 0 || attend_natively(cpu, op)) return;
  const HeadSizes z(s);
  const Sharing sharing(s.batches());
  const std::int64_t each = shared_floats(z) + sharing.blocks * own_floats(z);
  float* scratch = cpu.scratch.floats(each * sharing.heads);
  with_attention_types(op, {&op.k, &op.v, &op.out}, [&](auto type, auto probs_type) {
#pragma omp parallel for schedule(dynamic) if (sharing.heads > 1)
    for (std::int64_t i = 0; i < s.batches(); ++i)
      attend_head<decltype(type), decltype(probs_type)>(op, z, sharing, i, scratch + omp_get_thread_num() * each);
  });
}

}  // namespace mbench::cpu
