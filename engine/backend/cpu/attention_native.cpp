// The heads are taken in waves, and the queries of a wave in blocks. A block is a batched product for its scores, its rows on all threads,
// and batched products of what became of them. Each head of a group is a wave of its own, since they share keys and values.
#include "engine/backend/cpu/attention_native.h"

#include <cstddef>

#include "engine/backend/cpu/attention_head.h"
#include "engine/backend/cpu/bf16_gemms.h"

namespace mbench::cpu {
namespace {

using ops::Attention;
using ops::AttentionGrad;
using ops::AttentionShape;
using ops::Matrix;
using Place = Bf16Shape::Place;

// Windows, caps and slopes are the general code's: its blocks leave out the keys that no query of theirs sees.
bool native(const CpuOps& cpu, const AttentionShape& s, std::initializer_list<const Matrix*> matrices) {
  if (!cpu.bf16_gemms || !s.plain()) return false;
  for (const Matrix* m : matrices)
    if (m->data.dtype() != DType::bf16) return false;
  return true;
}

struct Cut {
  static constexpr std::int64_t kRows = 128;  // of a causal block of 128, half are of no use at worst
  static constexpr std::int64_t kScores =
      512 * 1024 / 4;  // f32 of a block for each thread: they stay in its second-level cache
  explicit Cut(const AttentionShape& shape)
      : s(shape), rows(std::min(kRows, s.seq)), blocks((s.seq + rows - 1) / rows), ld(round_up(s.seq, 32) + 32) {
    const std::int64_t threads = omp_get_max_threads(), groups = s.groups();
    wave = std::clamp(threads * kScores / (rows * ld), std::min(threads, groups), groups);
    while (groups % wave != 0) --wave;  // all alike, so that the same code computes each
  }
  std::int64_t first(std::int64_t b) const { return b * rows; }
  std::int64_t rows_of(std::int64_t b) const { return std::min(rows, s.seq - first(b)); }
  std::int64_t keys_of(std::int64_t b) const { return s.end_key(first(b) + rows_of(b) - 1); }
  std::int64_t scores() const { return wave * rows * ld; }
  Place scores_place(bool transposed = false) const { return {ld, rows * ld, transposed}; }
  const AttentionShape& s;
  std::int64_t rows, blocks;
  std::int64_t ld;    // of scores: not a power of two, which would put a column into one cache set
  std::int64_t wave;  // groups whose heads are computed together
};

Place place_of(const Matrix& m, bool transposed = false) {
  return {m.ld, m.batch_stride, transposed};
}

// The products of a block. Every one is a batch over a wave, into f32; those that do not begin a sum add to it.
struct Gemms {
  static Bf16Shape scores(const Cut& z, std::int64_t b, const Matrix& queries, const Matrix& keys) {
    return {z.rows_of(b),      z.keys_of(b),         queries.cols,     z.wave,
            place_of(queries), place_of(keys, true), z.scores_place(), true};
  }
  // A weighted sum of values for each query.
  static Bf16Shape mixed(const Cut& z, std::int64_t b, const Matrix& values, bool first) {
    return {z.rows_of(b),
            values.cols,
            z.keys_of(b),
            z.wave,
            z.scores_place(),
            place_of(values),
            {values.cols, z.rows * values.cols},
            true,
            false,
            1,
            first ? 0.0f : 1.0f};
  }
  // A weighted sum of `rows` for each key.
  static Bf16Shape summed(const Cut& z, std::int64_t b, const Matrix& rows, bool first) {
    return {z.keys_of(b),
            rows.cols,
            z.rows_of(b),
            z.wave,
            z.scores_place(true),
            place_of(rows),
            {rows.cols, z.s.seq * rows.cols},
            true,
            false,
            1,
            first ? 0.0f : 1.0f};
  }
};

// Memory of one call, handed out piece by piece; the first round, without memory, counts.
class Pieces {
 public:
  explicit Pieces(std::byte* memory = nullptr) : memory_(memory) {}
  template <class T>
  T* take(std::int64_t n) {
    T* piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + size_);
    size_ += (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  std::size_t size() const { return size_; }

 private:
  std::byte* memory_;
  std::size_t size_ = 0;
};

// The most memory that the products of those shapes work in; false if one of them has no code.
bool prepare(Bf16Gemms& gemms, std::initializer_list<Bf16Shape> shapes, std::size_t& most) {
  for (const Bf16Shape& shape : shapes) {
    const Bf16Gemm* gemm = gemms.find(shape);
    if (gemm == nullptr) return false;
    most = std::max(most, gemm->scratch_bytes());
  }
  return true;
}

// Queries or outputs of head `j` of the groups from `group` on, from query `row` on.
bf16* queries_at(const AttentionShape& s, const Matrix& m, std::int64_t group, std::int64_t j, std::int64_t row) {
  return m.data.as<bf16>() + query_head(s, m, group * s.group + j) + row * m.ld;
}
bf16* keys_at(const AttentionShape& s, const Matrix& m, std::int64_t group) {
  return m.data.as<bf16>() + key_head(s, m, group * s.group);
}

// f(head, r, at): each query row of block `b` of head `j` of each group of the wave; `at` is where its scores begin.
template <class F>
void for_rows(const Cut& z, std::int64_t group, std::int64_t j, std::int64_t b, F&& f) {
  const std::int64_t rows = z.rows_of(b);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < z.wave * rows; ++i)
    f((group + i / rows) * z.s.group + j, i % rows, (i / rows * z.rows + i % rows) * z.ld);
}

// A block of f32 numbers as the sum of two of bf16: 16 bits of each.
struct Operand {
  Operand(std::int64_t n, Pieces& pieces) : high(pieces.take<bf16>(n)), low(pieces.take<bf16>(n)) {}
  // n numbers from `at` on, and zeros up to `end`.
  void set(std::int64_t at, const float* from, std::int64_t n, std::int64_t end) const {
    from_floats(from, high + at, n);
    float rest[kTile];
    for (std::int64_t i = 0; i < n; i += kTile) {
      const std::int64_t count = std::min(kTile, n - i);
      to_floats(high + at + i, rest, count);
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) rest[c] = from[i + c] - rest[c];
      from_floats(rest, low + at + i, count);
    }
    std::fill(high + at + n, high + at + end, bf16{});
    std::fill(low + at + n, low + at + end, bf16{});
  }
  bf16 *high, *low;
};

struct ForwardMemory {
  ForwardMemory(const Cut& z, std::int64_t v_dim, std::size_t work_bytes, Pieces& pieces)
      : scores(pieces.take<float>(z.scores())),
        probs(z.scores(), pieces),
        out(pieces.take<float>(z.wave * z.rows * v_dim)),
        work(pieces.take<std::byte>(static_cast<std::int64_t>(work_bytes))) {}
  float* scores;
  Operand probs;
  float* out;  // of each group: [rows, v_dim]
  std::byte* work;
};

struct BackwardMemory {
  BackwardMemory(const Cut& z, std::int64_t d, std::int64_t v_dim, std::size_t work_bytes, Pieces& pieces)
      : probs(pieces.take<float>(z.scores())),
        dscores(pieces.take<float>(z.scores())),
        probs_operand(z.scores(), pieces),
        dscores_operand(z.scores(), pieces),
        dq(pieces.take<float>(z.wave * z.rows * d)),
        dk(pieces.take<float>(z.wave * z.s.seq * d)),
        dv(pieces.take<float>(z.wave * z.s.seq * v_dim)),
        work(pieces.take<std::byte>(static_cast<std::int64_t>(work_bytes))) {}
  float *probs, *dscores;
  Operand probs_operand, dscores_operand;
  float* dq;       // of each group: [rows, d]
  float *dk, *dv;  // of each group: [seq, width]
  std::byte* work;
};

// Takes what `Memory` of these arguments needs from the scratch.
template <class Memory, class... Arguments>
Memory take_memory(Scratch& scratch, const Arguments&... arguments) {
  Pieces counted;
  Memory(arguments..., counted);
  Pieces pieces(static_cast<std::byte*>(scratch.bytes(counted.size())));
  return Memory(arguments..., pieces);
}

// One row of scores becomes probabilities, kept and as an operand; those of hidden keys are zero.
template <class TP>
void attend_row(const Attention& op, std::int64_t head, std::int64_t q, std::int64_t keys, const ForwardMemory& memory,
                std::int64_t at) {
  const AttentionShape& s = op.shape;
  const std::int64_t visible = s.end_key(q);
  float* row = memory.scores + at;
  op.lse.as<float>()[head * s.seq + q] = softmax_row(row, row, visible, s.scale, keys_of(s, head));
  if (op.probs) {
    TP* kept = op.probs.as<TP>() + (head * s.seq + q) * s.seq;
    from_floats(row, kept, visible);
    std::fill(kept + visible, kept + s.seq, TP{});
  }
  if (s.dropout.p > 0) drop_row(s, head, q, 0, visible, row);
  memory.probs.set(at, row, visible, keys);
}

float dot_of(std::int64_t n, const bf16* x, const bf16* y) {
  float sum = 0, xs[kTile], ys[kTile];
  for (std::int64_t i = 0; i < n; i += kTile) {
    const std::int64_t count = std::min(kTile, n - i);
    to_floats(x + i, xs, count);
    to_floats(y + i, ys, count);
    sum += sum_of(count, [&](std::int64_t c) { return xs[c] * ys[c]; });
  }
  return sum;
}

// Probabilities again, and the gradient of the scores from that of the probabilities; both as operands.
template <class TP>
void grad_one_row(const AttentionGrad& op, std::int64_t head, std::int64_t q, std::int64_t keys,
                  const BackwardMemory& memory, std::int64_t at) {
  const AttentionShape& s = op.shape;
  const std::int64_t visible = s.end_key(q), v_dim = s.v_dim();
  float *p = memory.probs + at, *ds = memory.dscores + at;
  const bf16* out = op.out.data.as<bf16>() + query_head(s, op.out, head) + q * op.out.ld;
  const bf16* dout = op.dout.data.as<bf16>() + query_head(s, op.dout, head) + q * op.dout.ld;
  restore_probs<TP>(op, head, q, 0, visible, keys_of(s, head), p, nullptr);
  grad_row(s, head, q, 0, visible, dot_of(v_dim, out, dout), p, ds, nullptr);
  memory.probs_operand.set(at, p, visible, keys);
  memory.dscores_operand.set(at, ds, visible, keys);
}

// Rows of `from`, [wave, rows, width], to the queries of the block.
void store_block(const Cut& z, const Matrix& to, std::int64_t group, std::int64_t j, std::int64_t b,
                 const float* from) {
  const std::int64_t rows = z.rows_of(b);
  parallel_rows(z.wave * rows, to.cols, [&](std::int64_t i) {
    const std::int64_t g = i / rows, r = i % rows;
    from_floats(from + (g * z.rows + r) * to.cols, queries_at(z.s, to, group + g, j, z.first(b) + r), to.cols);
  });
}

}  // namespace

bool attend_natively(CpuOps& cpu, const Attention& op) {
  if (!native(cpu, op.shape, {&op.q, &op.k, &op.v, &op.out})) return false;
  const AttentionShape& s = op.shape;
  const Cut z(s);
  Bf16Gemms& gemms = *cpu.bf16_gemms;
  const auto scores = [&](std::int64_t b) { return Gemms::scores(z, b, op.q, op.k); };
  const auto mixed = [&](std::int64_t b, bool first) { return Gemms::mixed(z, b, op.v, first); };
  std::size_t work = 0;
  for (std::int64_t b = 0; b < z.blocks; ++b)
    if (!prepare(gemms, {scores(b), mixed(b, true), mixed(b, false)}, work)) return false;
  const auto memory = take_memory<ForwardMemory>(cpu.scratch, z, s.v_dim(), work);
  const auto run = [&](const Bf16Shape& shape, const bf16* left, const bf16* right, float* to) {
    gemms.find(shape)->run(left, right, to, nullptr, memory.work);
  };
  const auto block = [&](std::int64_t group, std::int64_t j, std::int64_t b, auto probs_type) {
    const std::int64_t q0 = z.first(b), keys = z.keys_of(b);
    const bf16 *k = keys_at(s, op.k, group), *v = keys_at(s, op.v, group);
    run(scores(b), queries_at(s, op.q, group, j, q0), k, memory.scores);
    for_rows(z, group, j, b, [&](std::int64_t head, std::int64_t r, std::int64_t at) {
      attend_row<decltype(probs_type)>(op, head, q0 + r, keys, memory, at);
    });
    run(mixed(b, true), memory.probs.high, v, memory.out);
    run(mixed(b, false), memory.probs.low, v, memory.out);
    store_block(z, op.out, group, j, b, memory.out);
  };
  with_type(op.probs ? op.probs.dtype() : DType::f32, [&](auto probs_type) {
    for (std::int64_t group = 0; group < s.groups(); group += z.wave)
      for (std::int64_t j = 0; j < s.group; ++j)
        for (std::int64_t b = 0; b < z.blocks; ++b) block(group, j, b, probs_type);
  });
  return true;
}

bool grad_natively(CpuOps& cpu, const AttentionGrad& op) {
  if (!native(cpu, op.shape, {&op.q, &op.k, &op.v, &op.out, &op.dout, &op.dq, &op.dk, &op.dv})) return false;
  const AttentionShape& s = op.shape;
  const Cut z(s);
  Bf16Gemms& gemms = *cpu.bf16_gemms;
  const std::int64_t d = s.head_dim, v_dim = s.v_dim();
  const auto scores = [&](std::int64_t b) { return Gemms::scores(z, b, op.q, op.k); };
  const auto dprobs = [&](std::int64_t b) { return Gemms::scores(z, b, op.dout, op.v); };
  const auto dq = [&](std::int64_t b, bool first) { return Gemms::mixed(z, b, op.k, first); };
  const auto dv = [&](std::int64_t b, bool first) { return Gemms::summed(z, b, op.dout, first); };
  const auto dk = [&](std::int64_t b, bool first) { return Gemms::summed(z, b, op.q, first); };
  const std::int64_t last = z.blocks - 1;  // sees all keys: it begins the sums over queries
  std::size_t work = 0;
  for (std::int64_t b = 0; b < z.blocks; ++b) {
    if (!prepare(gemms, {scores(b), dprobs(b), dq(b, true), dq(b, false), dv(b, false), dk(b, false)}, work))
      return false;
    if (b == last && !prepare(gemms, {dv(b, true), dk(b, true)}, work)) return false;
  }
  const auto memory = take_memory<BackwardMemory>(cpu.scratch, z, d, v_dim, work);
  const auto run = [&](const Bf16Shape& shape, const bf16* left, const bf16* right, float* to) {
    gemms.find(shape)->run(left, right, to, nullptr, memory.work);
  };
  const auto block = [&](std::int64_t group, std::int64_t j, std::int64_t b, auto probs_type) {
    const std::int64_t q0 = z.first(b), keys = z.keys_of(b);
    const bf16 *q = queries_at(s, op.q, group, j, q0), *k = keys_at(s, op.k, group),
               *dout = queries_at(s, op.dout, group, j, q0);
    if (!op.probs) run(scores(b), q, k, memory.probs);
    run(dprobs(b), dout, keys_at(s, op.v, group), memory.dscores);
    for_rows(z, group, j, b, [&](std::int64_t head, std::int64_t r, std::int64_t at) {
      grad_one_row<decltype(probs_type)>(op, head, q0 + r, keys, memory, at);
    });
    const Operand &p = memory.probs_operand, &ds = memory.dscores_operand;
    const bool first = j == 0 && b == last;
    run(dv(b, first), p.high, dout, memory.dv);
    run(dv(b, false), p.low, dout, memory.dv);
    run(dk(b, first), ds.high, q, memory.dk);
    run(dk(b, false), ds.low, q, memory.dk);
    run(dq(b, true), ds.high, k, memory.dq);
    run(dq(b, false), ds.low, k, memory.dq);
    store_block(z, op.dq, group, j, b, memory.dq);
  };
  with_type(op.probs ? op.probs.dtype() : DType::f32, [&](auto probs_type) {
    for (std::int64_t group = 0; group < s.groups(); group += z.wave) {
      for (std::int64_t j = 0; j < s.group; ++j)
        for (std::int64_t b = z.blocks; b-- > 0;) block(group, j, b, probs_type);
      parallel_rows(z.wave * s.seq, d + v_dim, [&](std::int64_t i) {
        const std::int64_t at = group + i / s.seq, row = i % s.seq;
        from_floats(memory.dk + i * d, keys_at(s, op.dk, at) + row * op.dk.ld, d);
        from_floats(memory.dv + i * v_dim, keys_at(s, op.dv, at) + row * op.dv.ld, v_dim);
      });
    }
  });
  return true;
}

}  // namespace mbench::cpu
