// The gradient of fused attention, block by block of query rows; a group of heads sums into one dK and dV. With P the probabilities, F the dropout
// factors and O = (P F) V: dV = (P F)^T dO, dP = F (dO V^T), dS = scale P (dP - rowsum(dO O)), dQ = dS K, dK
// = dS^T Q.
#include "engine/backend/cpu/attention_head.h"
#include "engine/backend/cpu/attention_native.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {
namespace {

using ops::AttentionGrad;
using ops::AttentionShape;

// Scratch of a group: what its threads share, and what each of them has of its own.
struct Shared {
  Shared(const HeadSizes& z, float* at)
      : k_panels(at), v_panels(k_panels + z.keys * z.width), k(v_panels + z.keys * z.v_width) {}
  static std::int64_t floats(const HeadSizes& z) { return z.keys * (z.width + z.v_width) + z.seq * z.width; }
  float *k_panels, *v_panels, *k;
};
struct Own {
  Own(const HeadSizes& z, float* at)
      : dk(at),
        dv(dk + z.seq * z.width),
        q(dv + z.seq * z.v_width),
        dout(q + z.block * z.width),
        out(dout + z.block * z.v_width),
        probs(out + z.block * z.widest()),
        dscores(probs + z.scores()),
        slopes(dscores + std::max(z.scores(), kPanel * z.widest())) {}
  static std::int64_t floats(const HeadSizes& z) {
    return z.seq * (z.width + z.v_width) + z.block * (z.width + z.v_width + z.widest()) +
           2 * std::max(z.scores(), kPanel * z.widest()) + z.ld;
  }
  float *dk, *dv;  // summed over this thread's blocks
  float *q, *dout, *out, *probs, *dscores;
  float* slopes;  // of a row of capped scores
};

template <class T, class TP>
void grad_block(const AttentionGrad& op, const HeadSizes& z, std::int64_t index, std::int64_t q0,
                const BlockRows& block, const Shared& shared, const Own& own, NextRows<T>& next) {
  const AttentionShape& s = op.shape;
  float *probs = own.probs - block.first, *dscores = own.dscores - block.first, *slopes = own.slopes - block.first;
  load_rows<T>(op.q, query_head(s, op.q, index), q0, block.rows, z.width, own.q);
  load_rows<T>(op.dout, query_head(s, op.dout, index), q0, block.rows, z.v_width, own.dout);
  load_rows<T>(op.out, query_head(s, op.out, index), q0, block.rows, z.v_width, own.out);
  if (!op.probs) score_block(block, z.ld, z.width, own.q, shared.k_panels, probs, [&] { next.ask(3); });
  score_block(block, z.ld, z.v_width, own.dout, shared.v_panels, dscores, [&] { next.ask(3); });
  const KeyMask mask = keys_of(s, index);
  for (const BlockRows::Tile& tile : block.tiles())
    for (std::int64_t r = tile.row; r < tile.row + tile.rows; ++r) {
      float *p = probs + r * z.ld, *ds = dscores + r * z.ld;
      const float *o = own.out + r * z.v_width, *go = own.dout + r * z.v_width;
      const std::int64_t first = block.first_key[r], end = block.end_key[r];
      next.ask(2);
      restore_probs<TP>(op, index, q0 + r, first, end, mask, p, slopes);
      const float dot = sum_of(z.v_width, [o, go](std::int64_t i) { return o[i] * go[i]; });
      grad_row(s, index, q0 + r, first, end, dot, p, ds, slopes);
      clear_hidden(block, tile, r, p);
      clear_hidden(block, tile, r, ds);
    }
  float* dq = own.out;
  add_rows_by_key(block, z.ld, z.v_width, probs, own.dout, own.dv);
  add_rows_by_key(block, z.ld, z.width, dscores, own.q, own.dk);
  weigh_values(block, z.ld, z.width, dscores, shared.k, dq, [&] { next.ask(3); });
  store_rows<T>(dq, op.dq, query_head(s, op.dq, index), q0, block.rows, z.width);
}

// `first`: the first head of the group.
template <class T, class TP>
void grad_group(const AttentionGrad& op, const HeadSizes& z, const Sharing& sharing, std::int64_t first,
                float* scratch) {
  const AttentionShape& s = op.shape;
  const Shared shared(z, scratch);
  float* owns = scratch + Shared::floats(z);
  const auto own = [&](int thread) { return Own(z, owns + thread * Own::floats(z)); };
  const std::int64_t panels = z.keys / kPanel;
  const std::int64_t k_head = key_head(s, op.k, first), v_head = key_head(s, op.v, first);
  const std::int64_t dk_head = key_head(s, op.dk, first), dv_head = key_head(s, op.dv, first);
  const bool alone = sharing.blocks == 1;  // then panels are loaded where a block needs them, and still in a cache
#pragma omp parallel if (!alone)
  {
    const Own mine = own(omp_get_thread_num());
    std::int64_t loaded = 0;
    const auto load = [&](std::int64_t p) {
      const std::int64_t row = p * kPanel, count = std::min(kPanel, z.seq - row);
      load_panel<T>(op.k, k_head, p, z.width, mine.probs, shared.k_panels);
      load_panel<T>(op.v, v_head, p, z.v_width, mine.probs, shared.v_panels);
      load_rows<T>(op.k, k_head, row, count, z.width, shared.k + row * z.width);
    };
    const auto load_up_to = [&](std::int64_t key) {
      for (; loaded * kPanel < key; ++loaded) {
        const std::int64_t row = loaded * kPanel, count = std::min(kPanel, z.seq - row);
        std::fill_n(mine.dk + row * z.width, count * z.width, 0.0f);
        std::fill_n(mine.dv + row * z.v_width, count * z.v_width, 0.0f);
        if (alone) load(loaded);
      }
    };
    if (!alone) load_up_to(z.seq);
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < (alone ? 0 : panels); ++p) {
      load(p);
    }
    // Round-robin, not dynamic: which thread sums which blocks must not depend on timing.
#pragma omp for schedule(static, 1)
    for (std::int64_t i = 0; i < s.group * z.blocks; ++i) {
      const std::int64_t b = i % z.blocks;
      const BlockRows block = z.rows_of(s, b);
      load_up_to(block.end);
      NextRows<T> next(alone && b + 1 < z.blocks, (b + 1) * z.block, z.block);
      const std::int64_t index = first + i / z.blocks;
      next.add(op.q, query_head(s, op.q, index));
      next.add(op.dout, query_head(s, op.dout, index));
      next.add(op.out, query_head(s, op.out, index));
      next.add_from(loaded * kPanel, op.k, k_head);
      next.add_from(loaded * kPanel, op.v, v_head);
      grad_block<T, TP>(op, z, index, b * z.block, block, shared, mine, next);
    }
    load_up_to(z.seq);
    // The threads' sums, added in order.
    const int threads = omp_get_num_threads();
    const Own total = own(0);
    const auto add_threads = [&](std::int64_t r, std::int64_t width, float* Own::*part) {
      float* sum = total.*part + r * width;
      for (int t = 1; t < threads; ++t) {
        const float* more = own(t).*part + r * width;
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) sum[c] += more[c];
      }
      return sum;
    };
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < z.seq; ++r) {
      store_rows<T>(add_threads(r, z.width, &Own::dk), op.dk, dk_head, r, 1, z.width);
      store_rows<T>(add_threads(r, z.v_width, &Own::dv), op.dv, dv_head, r, 1, z.v_width);
    }
  }
}

}  // namespace

template <>
void compute(CpuOps& cpu, const AttentionGrad& op) {
  const AttentionShape& s = op.shape;
  if (s.batches() == 0 || s.seq == 0 || grad_natively(cpu, op)) return;
  const HeadSizes z(s);
  const Sharing sharing(s.groups());
  const std::int64_t each = Shared::floats(z) + sharing.blocks * Own::floats(z);
  float* scratch = cpu.scratch.floats(each * sharing.heads);
  with_attention_types(op, {&op.k, &op.v, &op.out, &op.dout, &op.dq, &op.dk, &op.dv}, [&](auto type, auto probs_type) {
#pragma omp parallel for schedule(dynamic) if (sharing.heads > 1)
    for (std::int64_t i = 0; i < s.groups(); ++i)
      grad_group<decltype(type), decltype(probs_type)>(op, z, sharing, i * s.group,
                                                       scratch + omp_get_thread_num() * each);
  });
}

}  // namespace mbench::cpu
