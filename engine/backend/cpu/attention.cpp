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

// Scores of a block become weights of values, and those of keys that a tile sees and a row does not become zero. Times its factor a row's
// weights are probabilities. `next`: rows are asked for between rows.
template <class T>
void make_weights(const Attention& op, const HeadSizes& z, std::int64_t index, std::int64_t q0, const BlockRows& block,
                  float* scores, float* factors, NextRows<T>& next) {
  const AttentionShape& s = op.shape;
  const bool scaled = bends_scores(s) || s.scale <= 0;  // by make_scores()
  const float scale = scaled ? 1.0f : s.scale;
  const KeyMask mask = keys_of(s, index);
  float tops[BlockRows::kMost], sums[BlockRows::kMost];
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t first = block.first_key[r], end = block.end_key[r];
    float* row = scores + r * z.ld;
    if (scaled) make_scores(s, index, q0 + r, first, end, row, nullptr);
    if (mask) hide_keys(row + first, end - first, mask.from(first));
    tops[r] = scale * largest_in(row + first, end - first);
  }
  for (const BlockRows::Tile& tile : block.tiles())
    for (std::int64_t r = tile.row; r < tile.row + tile.rows; ++r) {
      const std::int64_t first = block.first_key[r], end = block.end_key[r];
      float* row = scores + r * z.ld;
      next.ask(1);
      if (tops[r] == -kInf)
        tops[r] = softmax_row(row + first, row + first, end - first, scale, mask.from(first)), sums[r] = 1;
      else
        sums[r] = exp_row(row + first, end - first, scale, tops[r]);
      std::fill(row + tile.first, row + first, 0.0f);
      std::fill(row + end, row + tile.end, 0.0f);
    }
  float* lse = op.lse.as<float>() + index * s.seq + q0;
#pragma omp simd
  for (std::int64_t r = 0; r < block.rows; ++r) lse[r] = tops[r] + log_f32(sums[r]), factors[r] = 1.0f / sums[r];
}

// Weights become probabilities, which are kept, and then dropped.
template <class TP>
void keep_and_drop(const Attention& op, const HeadSizes& z, std::int64_t index, std::int64_t q0, const BlockRows& block,
                   float* weights, float* factors) {
  const AttentionShape& s = op.shape;
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t first = block.first_key[r], end = block.end_key[r];
    float* row = weights + r * z.ld;
    if (op.probs) {
      scale_row(end - first, factors[r], row + first), factors[r] = 1;
      TP* kept = op.probs.as<TP>() + (index * s.seq + q0 + r) * s.seq;
      std::fill(kept, kept + first, TP{});
      from_floats(row + first, kept + first, end - first);
      std::fill(kept + end, kept + s.seq, TP{});
    }
    if (s.dropout.p > 0) drop_row(s, index, q0 + r, first, end, row);
  }
}

template <class T, class TP>
void attend_block(const Attention& op, const HeadSizes& z, std::int64_t index, std::int64_t q0, const BlockRows& block,
                  const float* k_panels, const float* v, float* own, NextRows<T>& next) {
  const AttentionShape& s = op.shape;
  float *queries = own, *scores = own + z.block * z.widest() - block.first;
  load_rows<T>(op.q, query_head(s, op.q, index), q0, block.rows, z.width, queries);
  score_block(block, z.ld, z.width, queries, k_panels, scores, [&] { next.ask(3); });
  float factors[BlockRows::kMost];
  make_weights(op, z, index, q0, block, scores, factors, next);
  if (op.probs || s.dropout.p > 0) keep_and_drop<TP>(op, z, index, q0, block, scores, factors);
  float* out = queries;
  weigh_values(block, z.ld, z.v_width, scores, v, out, [&] { next.ask(3); });
  for (std::int64_t r = 0; r < block.rows; ++r) scale_row(z.v_width, factors[r], out + r * z.v_width);
  store_rows<T>(out, op.out, query_head(s, op.out, index), q0, block.rows, z.v_width);
}

template <class T, class TP>
void attend_head(const Attention& op, const HeadSizes& z, const Sharing& sharing, std::int64_t index, float* scratch) {
  float *k_panels = scratch, *v = k_panels + z.keys * z.width, *owns = v + z.seq * z.v_width;
  const std::int64_t q_head = query_head(op.shape, op.q, index), k_head = key_head(op.shape, op.k, index),
                     v_head = key_head(op.shape, op.v, index);
  const auto own = [&] { return owns + omp_get_thread_num() * own_floats(z); };
  const auto load = [&](std::int64_t p) {
    load_panel<T>(op.k, k_head, p, z.width, own(), k_panels);
    load_rows<T>(op.v, v_head, p * kPanel, std::min(kPanel, z.seq - p * kPanel), z.v_width, v + p * kPanel * z.v_width);
  };
  const bool alone = sharing.blocks == 1;  // then panels are loaded where a block needs them, and still in a cache
  std::int64_t loaded = 0;
#pragma omp parallel for schedule(static) if (!alone)
  for (std::int64_t p = 0; p < (alone ? 0 : z.keys / kPanel); ++p) load(p);
#pragma omp parallel for schedule(dynamic) if (!alone)
  for (std::int64_t b = 0; b < z.blocks; ++b) {
    const BlockRows block = z.rows_of(op.shape, b);
    if (alone)
      for (; loaded * kPanel < block.end; ++loaded) load(loaded);
    NextRows<T> next(alone && b + 1 < z.blocks, (b + 1) * z.block, z.block);
    next.add(op.q, q_head);
    next.add_from(loaded * kPanel, op.k, k_head);
    next.add_from(loaded * kPanel, op.v, v_head);
    attend_block<T, TP>(op, z, index, b * z.block, block, k_panels, v, own(), next);
  }
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
