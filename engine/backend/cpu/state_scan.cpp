#include "engine/ops/state_scan.h"

#include <omp.h>

#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/scan_chunk.h"

namespace mbench::cpu {
namespace {

using ops::ScanShape;

// Which elements of the tensors a chunk of a head or of a group has.
struct ScanPlaces {
  explicit ScanPlaces(const ScanShape& s)
      : groups(s.groups()),
        group(s.group()),
        heads(s.heads()),
        seq(s.seq()),
        batch(s.batch()),
        p(s.head_dim),
        n(s.state_dim),
        row(s.batch() * s.groups() * s.channels()),
        out_row(s.batch() * s.groups() * s.group_width()),
        in_row(s.batch() * s.groups() * s.in.shape()[3]),
        channels(s.channels()),
        width(s.group_width()),
        in_width(s.in.shape()[3]),
        first(s.first),
        chunk(s.chunk),
        state(n * p),
        longest(std::min(s.chunk, std::max<std::int64_t>(1, s.seq()))) {}
  std::int64_t groups, group, heads, seq, batch, p, n, row, out_row, in_row, channels, width, in_width, first, chunk,
      state, longest;

  std::int64_t of_group(std::int64_t b, std::int64_t g, std::int64_t c) const {
    return c * chunk * row + (b * groups + g) * channels;
  }
  std::int64_t x(std::int64_t b, std::int64_t h, std::int64_t c) const {
    return of_group(b, h / group, c) + h % group * p;
  }
  std::int64_t y(std::int64_t b, std::int64_t h, std::int64_t c) const {
    return c * chunk * out_row + (b * groups + h / group) * width + h % group * p;
  }
  std::int64_t raw(std::int64_t b, std::int64_t h, std::int64_t c) const {
    return c * chunk * in_row + (b * groups + h / group) * in_width + first + h % group;
  }
  std::int64_t steps(std::int64_t b, std::int64_t h, std::int64_t c) const { return (b * heads + h) * seq + c * chunk; }
  std::int64_t state_at(std::int64_t b, std::int64_t h, std::int64_t c) const {
    return ((c * batch + b) * heads + h) * state;
  }
};

// Heads of one group.
struct Heads {
  std::int64_t first, end;
};

// The forward's pieces of work: a chunk of heads that share a group. A group is cut where there are fewer chunks of groups than threads.
class Pieces {
 public:
  Pieces(const ScanPlaces& at, std::int64_t chunks)
      : at_(at),
        chunks_(chunks),
        parts_(std::clamp<std::int64_t>(
            omp_get_max_threads() / std::max<std::int64_t>(1, at.batch * at.groups * chunks), 1, at.group)) {}
  std::int64_t count() const { return at_.batch * at_.groups * parts_ * chunks_; }
  struct Piece {
    std::int64_t b, c;
    Heads heads;
  };
  Piece operator[](std::int64_t i) const {
    const std::int64_t part = i / chunks_ % parts_, g = i / chunks_ / parts_ % at_.groups, first = g * at_.group;
    return {i / chunks_ / parts_ / at_.groups,
            i % chunks_,
            {first + at_.group * part / parts_, first + at_.group * (part + 1) / parts_}};
  }

 private:
  const ScanPlaces& at_;
  std::int64_t chunks_, parts_;
};

// ln(1 + e^z).
inline float scan_softplus(float z) {
  return z > 20.0f ? z : std::log1p(std::exp(z));
}

// dt of a chunk of a head, and the sums of dt A.
template <class T>
void make_steps(const ScanShape& s, const ScanPlaces& at, std::int64_t b, std::int64_t h, std::int64_t c, float* steps,
                float* sums) {
  const float bias = element_of(s.dt_bias, h), a = -std::exp(element_of(s.a_log, h));
  const T* raw = static_cast<const T*>(s.in.as<T>()) + at.raw(b, h, c);
  float sum = 0;
  for (std::int64_t t = 0; t < s.length(c); ++t) {
    float value = 0;
    to_floats(raw + t * at.in_row, &value, 1);
    steps[t] = scan_softplus(value + bias);
    sum += steps[t] * a;
    sums[t] = sum;
  }
}

// What a chunk of each of a group's heads adds to its state: the sum over t of exp(end - sums[t]) dt[t] B[t] x[t]^T.
template <class T>
void chunk_states(const ops::StateScan& op, const ScanPlaces& at, std::int64_t b, Heads heads, std::int64_t c,
                  float* room) {
  const ScanShape& s = op.shape;
  const std::int64_t length = s.length(c);
  ScanRoom buffers(room);
  float *x = buffers.take(at.longest, padded(at.p)), *bs = buffers.take(at.longest, padded(at.n)),
        *factors = buffers.take(1, padded(at.longest)), *state = buffers.take(at.n, padded(at.p));
  const T* from = static_cast<const T*>(s.xbc.as<T>());
  load_block(from + at.of_group(b, heads.first / at.group, c) + at.width, at.row, length, at.n, bs);
  for (std::int64_t h = heads.first; h < heads.end; ++h) {
    const float *steps = op.steps.as<float>() + at.steps(b, h, c), *sums = op.sums.as<float>() + at.steps(b, h, c);
    load_block(from + at.x(b, h, c), at.row, length, at.p, x);
    for (std::int64_t t = 0; t < length; ++t) factors[t] = exp_f32(sums[length - 1] - sums[t]) * steps[t];
    scale_block(length, at.p, factors, x, x);
    scan_gemm(at.n, at.p, length, {bs, 1, padded(at.n)}, x, state, false);
    store_block(state, at.n, at.p, op.states.as<float>() + at.state_at(b, h, c + 1), at.p);
  }
}

// From what each chunk adds, which stands where the next one begins, to the states.
void pass_states(const ScanShape& s, const ScanPlaces& at, const Tensor& sums, const Tensor& states) {
  const std::int64_t all = at.batch * at.heads;
  parallel_rows(all, at.state * s.chunks(), [&](std::int64_t i) {
    const FlushDenormals flush;
    const std::int64_t b = i / at.heads, h = i % at.heads;
    float* first = states.as<float>() + at.state_at(b, h, 0);
    std::fill(first, first + at.state, 0.0f);
    for (std::int64_t c = 1; c < s.chunks(); ++c) {
      const float decay = exp_f32(sums.as<float>()[at.steps(b, h, c) - 1]);
      const float* before = states.as<float>() + at.state_at(b, h, c - 1);
      float* state = states.as<float>() + at.state_at(b, h, c);
#pragma omp simd
      for (std::int64_t k = 0; k < at.state; ++k) state[k] += decay * before[k];
    }
  });
}

// Decays exp(sums[t] - sums[s]) of the positions up to t, row by row; of sums whole vectors are read. Before the block of rows that t is in, a decay is the product of one
// up to the block and one within it: few exponentials are computed.
class Decays {
 public:
  Decays(const float* sums, float* room) : sums_(sums), before_(room), row_(room + kMost) {}
  // [t + 1] and zeros up to a whole vector; valid until the next row, which is t + 1. What is before a block is whole vectors.
  const float* row(std::int64_t t) {
    const std::int64_t first = t / kScanRows * kScanRows, block = first / kVector * kVector;
    if (t == first)
      for (std::int64_t s = 0; s < block; s += kVector)
        store_vector(exp_of(sums_[block] - load_vector(sums_ + s)), before_ + s);
    const float grown = exp_f32(sums_[t] - sums_[block]), sum = sums_[t];
    std::int64_t s = 0;
    for (; s < block; s += kVector) store_vector(grown * load_vector(before_ + s), row_ + s);
    for (; s <= t; s += kVector) store_vector(first_of(exp_of(sum - load_vector(sums_ + s)), t - s + 1), row_ + s);
    return row_;
  }
  static constexpr std::int64_t kMost = ops::kMostChunk;
  static constexpr std::int64_t kRoom = 2 * kMost;

 private:
  const float* sums_;
  float *before_, *row_;
};

// y[t] += the sum over s <= t of M[t, s] x[s], M[t, s] = scores[t, s] exp(sums[t] - sums[s]) dt[s]. `m` has room for the kScanRows rows of
// M that are used at a time.
inline void add_decayed(std::int64_t length, std::int64_t p, const float* scores, const float* steps, const float* sums,
                        const float* x, float* m, float* y) {
  const std::int64_t wide = padded(length), cols = padded(p);
  float room[Decays::kRoom];
  Decays decays(sums, room);
  for (std::int64_t first = 0; first < length; first += kScanRows) {
    const std::int64_t end = std::min(length, first + kScanRows);
    for (std::int64_t t = first; t < end; ++t) {
      const float *from = scores + t * wide, *decay = decays.row(t);
      float* to = m + (t - first) * wide;
      for (std::int64_t s = 0; s <= t; s += kVector)
        store_vector(load_vector(from + s) * load_vector(decay + s) * load_vector(steps + s), to + s);
      std::fill(to + t + 1, to + end, 0.0f);
    }
    block_gemm(end - first, cols, end, {m, wide, 1}, x, cols, y + first * cols, cols, true);
  }
}

// Steps of a head's chunk and the sums of dt A, with zeros up to a whole vector.
struct ChunkSteps {
  float *steps, *sums;
  ChunkSteps(ScanRoom& room, const ScanPlaces& at)
      : steps(room.take(1, padded(at.longest))), sums(room.take(1, padded(at.longest))) {}
  static std::int64_t floats(const ScanPlaces& at) { return 2 * padded(at.longest); }
  void load(const Tensor& all_steps, const Tensor& all_sums, std::int64_t first, std::int64_t length) const {
    load_block(static_cast<const float*>(all_steps.as<float>()) + first, length, 1, length, steps);
    load_block(static_cast<const float*>(all_sums.as<float>()) + first, length, 1, length, sums);
  }
};

// B transposed and C of a group's chunk, and their scores. Backward needs B as it is too.
struct GroupChunk {
  float *bs, *cs, *b_turned, *scores;
  GroupChunk(ScanRoom& room, const ScanPlaces& at, bool backward)
      : bs(backward ? room.take(at.longest, padded(at.n)) : nullptr),
        cs(room.take(at.longest, padded(at.n))),
        b_turned(room.take(at.n, padded(at.longest))),
        scores(room.take(at.longest, padded(at.longest))) {}
  static std::int64_t floats(const ScanPlaces& at, bool backward) {
    return (backward ? 2 : 1) * at.longest * padded(at.n) + at.n * padded(at.longest) + at.longest * padded(at.longest);
  }
  template <class T>
  void load(const ScanShape& s, const ScanPlaces& at, std::int64_t b, std::int64_t g, std::int64_t c) {
    const T* from = static_cast<const T*>(s.xbc.as<T>()) + at.of_group(b, g, c) + at.width;
    const std::int64_t length = s.length(c);
    if (bs != nullptr) load_block(from, at.row, length, at.n, bs);
    load_block(from + at.n, at.row, length, at.n, cs);
    load_turned(from, at.row, length, at.n, b_turned);
    causal_scores(length, at.n, cs, padded(at.n), b_turned, scores);
  }
};

template <class T>
void scan_chunk(const ops::StateScan& op, const ScanPlaces& at, std::int64_t b, Heads heads, std::int64_t c,
                float* room) {
  const ScanShape& s = op.shape;
  const std::int64_t length = s.length(c);
  ScanRoom buffers(room);
  GroupChunk group(buffers, at, false);
  group.load<T>(s, at, b, heads.first / at.group, c);
  float *x = buffers.take(at.longest, padded(at.p)), *y = buffers.take(at.longest, padded(at.p)),
        *m = buffers.take(kScanRows, padded(at.longest)), *state = buffers.take(at.n, padded(at.p)),
        *factors = buffers.take(1, padded(at.longest));
  const ChunkSteps chunk(buffers, at);
  for (std::int64_t h = heads.first; h < heads.end; ++h) {
    chunk.load(op.steps, op.sums, at.steps(b, h, c), length);
    load_block(static_cast<const T*>(s.xbc.as<T>()) + at.x(b, h, c), at.row, length, at.p, x);
    load_block(static_cast<const float*>(op.states.as<float>()) + at.state_at(b, h, c), at.p, at.n, at.p, state);
    scan_gemm(length, at.p, at.n, {group.cs, padded(at.n), 1}, state, y, false);
    for (std::int64_t t = 0; t < length; ++t) factors[t] = exp_f32(chunk.sums[t]);
    scale_block(length, at.p, factors, y, y);
    add_decayed(length, at.p, group.scores, chunk.steps, chunk.sums, x, m, y);
    const float d = element_of(s.d, h);
#pragma omp simd
    for (std::int64_t i = 0; i < length * padded(at.p); ++i) y[i] += d * x[i];
    store_block(y, length, at.p, op.y.as<T>() + at.y(b, h, c), at.out_row);
  }
}

std::int64_t floats_of_scan(const ScanPlaces& at) {
  return GroupChunk::floats(at, false) + 2 * at.longest * padded(at.p) + kScanRows * padded(at.longest) +
         at.n * padded(at.p) + padded(at.longest) + at.longest * padded(at.n) + ChunkSteps::floats(at);
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::StateScan& op) {
  const ScanShape& s = op.shape;
  if (op.shape.xbc.numel() == 0) return;
  const ScanPlaces at(s);
  const std::int64_t chunks = s.chunks(), each = floats_of_scan(at);
  const Pieces pieces(at, chunks);
  float* scratch = cpu.scratch.floats(each * omp_get_max_threads());
  const auto own = [&] { return scratch + omp_get_thread_num() * each; };
  with_type(s.xbc.dtype(), [&](auto type) {
    using T = decltype(type);
    for_each_piece(pieces.count(), [&](std::int64_t i) {
      const auto [b, c, heads] = pieces[i];
      for (std::int64_t h = heads.first; h < heads.end; ++h)
        make_steps<T>(s, at, b, h, c, op.steps.as<float>() + at.steps(b, h, c),
                      op.sums.as<float>() + at.steps(b, h, c));
      if (c + 1 < chunks) chunk_states<T>(op, at, b, heads, c, own());
    });
    pass_states(s, at, op.sums, op.states);
    if (!op.y) return;
    for_each_piece(pieces.count(), [&](std::int64_t i) {
      const auto [b, c, heads] = pieces[i];
      scan_chunk<T>(op, at, b, heads, c, own());
    });
  });
}

namespace {

// Of the state where chunk c begins, what its outputs give: the sum over t of exp(sums[t]) C[t] dy[t]^T.
template <class T>
void chunk_dstate(const ops::StateScanGrad& op, const ScanPlaces& at, std::int64_t b, std::int64_t h, std::int64_t c,
                  float* room) {
  const ScanShape& s = op.shape;
  const std::int64_t length = s.length(c);
  const float* sums = op.sums.as<float>() + at.steps(b, h, c);
  ScanRoom buffers(room);
  float *dy = buffers.take(at.longest, padded(at.p)), *cs = buffers.take(at.longest, padded(at.n)),
        *factors = buffers.take(1, padded(at.longest)), *state = buffers.take(at.n, padded(at.p));
  load_block(static_cast<const T*>(op.dy.as<T>()) + at.y(b, h, c), at.out_row, length, at.p, dy);
  load_block(static_cast<const T*>(s.xbc.as<T>()) + at.of_group(b, h / at.group, c) + at.width + at.n, at.row, length,
             at.n, cs);
  for (std::int64_t t = 0; t < length; ++t) factors[t] = exp_f32(sums[t]);
  scale_block(length, at.p, factors, dy, dy);
  scan_gemm(at.n, at.p, length, {cs, 1, padded(at.n)}, dy, state, false);
  // Where the chunk before ends.
  store_block(state, at.n, at.p, op.dstates.as<float>() + at.state_at(b, h, c - 1), at.p);
}

// To the gradients of the states where chunks end.
void pass_dstates(const ScanShape& s, const ScanPlaces& at, const Tensor& sums, const Tensor& dstates) {
  const std::int64_t all = at.batch * at.heads, chunks = s.chunks();
  parallel_rows(all, at.state * chunks, [&](std::int64_t i) {
    const FlushDenormals flush;
    const std::int64_t b = i / at.heads, h = i % at.heads;
    float* last = dstates.as<float>() + at.state_at(b, h, chunks - 1);
    std::fill(last, last + at.state, 0.0f);
    for (std::int64_t c = chunks - 1; c-- > 0;) {
      const float decay = exp_f32(sums.as<float>()[at.steps(b, h, c + 1) + s.length(c + 1) - 1]);
      const float* after = dstates.as<float>() + at.state_at(b, h, c + 1);
      float* state = dstates.as<float>() + at.state_at(b, h, c);
#pragma omp simd
      for (std::int64_t k = 0; k < at.state; ++k) state[k] += decay * after[k];
    }
  });
}

// What backward of a chunk needs besides the group's.
struct BackBuffers {
  float *x, *dy, *dx, *work, *turned, *m, *w, *dscores, *state, *dstate, *state_turned, *dbs, *dcs, *factors, *dsums,
      *dsteps;
  BackBuffers(ScanRoom& room, const ScanPlaces& at) {
    const std::int64_t l = at.longest, p = padded(at.p), n = padded(at.n), wide = padded(l);
    for (float** buffer : {&x, &dy, &dx, &work}) *buffer = room.take(l, p);
    turned = room.take(at.p, wide);
    for (float** buffer : {&m, &w, &dscores}) *buffer = room.take(l, wide);
    for (float** buffer : {&state, &dstate}) *buffer = room.take(at.n, p);
    state_turned = room.take(at.p, n);
    for (float** buffer : {&dbs, &dcs}) *buffer = room.take(l, n);
    for (float** buffer : {&factors, &dsums, &dsteps}) *buffer = room.take(1, wide);
  }
  static std::int64_t floats(const ScanPlaces& at) {
    const std::int64_t l = at.longest, p = padded(at.p), n = padded(at.n), wide = padded(l);
    return 4 * l * p + at.p * wide + 3 * l * wide + 2 * at.n * p + at.p * n + 2 * l * n + 3 * wide;
  }
};

// Gradients through M: in: w = dy x^T. Makes M, adds to the scores' gradient, to those of steps and of sums.
inline void back_through_decays(std::int64_t length, const float* scores, const float* steps, const float* sums,
                                const BackBuffers& k) {
  const std::int64_t wide = padded(length);
  float room[Decays::kRoom];
  Decays decays(sums, room);
  for (std::int64_t t = 0; t < length; ++t) {
    const float *score = scores + t * wide, *w = k.w + t * wide, *decays_of = decays.row(t);
    float *m = k.m + t * wide, *dscore = k.dscores + t * wide;
    FloatVector row = all(0);
    for (std::int64_t s = 0; s <= t; s += kVector) {
      const FloatVector decay = load_vector(decays_of + s), step = load_vector(steps + s), of_w = load_vector(w + s),
                        grown = load_vector(score + s) * decay, u = of_w * grown;
      store_vector(grown * step, m + s);
      store_vector(load_vector(dscore + s) + of_w * decay * step, dscore + s);
      store_vector(load_vector(k.dsteps + s) + u, k.dsteps + s);
      row += u * step;
    }
    std::fill(m + t + 1, m + wide, 0.0f);
    k.dsums[t] += sum_of(row);
  }
  for (std::int64_t s = 0; s < length; ++s) k.dsums[s] -= steps[s] * k.dsteps[s];
}

// Through the state where the chunk begins, and the one where it ends. Adds to dx, dB, dC and the gradients of steps and sums.
inline void back_through_states(const ScanPlaces& at, std::int64_t length, const GroupChunk& group, const float* steps,
                                const float* sums, float d, const BackBuffers& k) {
  const std::int64_t p = padded(at.p), n = padded(at.n);
  const float end = sums[length - 1];
  scan_gemm(length, at.p, at.n, {group.cs, n, 1}, k.state, k.work, false);
  for (std::int64_t t = 0; t < length; ++t) {
    k.factors[t] = exp_f32(sums[t]);
    k.dsums[t] += k.factors[t] * row_dot(k.dy + t * p, k.work + t * p, at.p);
  }
  scale_block(length, at.p, k.factors, k.dy, k.work);
  transpose_block(k.state, at.n, at.p, k.state_turned);
  scan_gemm(length, at.n, at.p, {k.work, p, 1}, k.state_turned, k.dcs, true);
  float* work = k.work;
  scan_gemm(length, at.p, at.n, {group.bs, n, 1}, k.dstate, work, false);
  float of_end = exp_f32(end) * sum_of(at.n * p, [&](std::int64_t i) { return k.state[i] * k.dstate[i]; });
  for (std::int64_t s = 0; s < length; ++s) {
    const float decay = exp_f32(end - sums[s]), e = decay * row_dot(k.x + s * p, work + s * p, at.p);
    k.factors[s] = decay * steps[s];
    k.dsteps[s] += e;
    k.dsums[s] -= steps[s] * e;
    of_end += steps[s] * e;
    float *dx = k.dx + s * p, factor = k.factors[s];
    const float *from = work + s * p, *dy = k.dy + s * p;
#pragma omp simd
    for (std::int64_t i = 0; i < p; ++i) dx[i] += factor * from[i] + d * dy[i];
  }
  k.dsums[length - 1] += of_end;
  scale_block(length, at.p, k.factors, k.x, work);
  transpose_block(k.dstate, at.n, at.p, k.state_turned);
  scan_gemm(length, at.n, at.p, {work, p, 1}, k.state_turned, k.dbs, true);
}

// The raw steps' gradients of a chunk of a head; and in `partial` what it adds to those of a_log, dt_bias and d.
template <class T>
void finish_steps(const ops::StateScanGrad& op, const ScanPlaces& at, std::int64_t b, std::int64_t h, std::int64_t c,
                  const BackBuffers& k, float* partial) {
  const ScanShape& s = op.shape;
  const std::int64_t length = s.length(c), p = padded(at.p);
  const float a = -std::exp(element_of(s.a_log, h)), bias = element_of(s.dt_bias, h);
  const float* steps = op.steps.as<float>() + at.steps(b, h, c);
  const T* raw = static_cast<const T*>(s.in.as<T>()) + at.raw(b, h, c);
  T* to = op.din.as<T>() + at.raw(b, h, c);
  float later = 0, da = 0, dbias = 0;
  for (std::int64_t t = length; t-- > 0;) {
    later += k.dsums[t];
    da += later * steps[t];
    float value = 0;
    to_floats(raw + t * at.in_row, &value, 1);
    const float d = (k.dsteps[t] + later * a) / (1.0f + std::exp(-(value + bias)));
    dbias += d;
    from_floats(&d, to + t * at.in_row, 1);
  }
  partial[0] = da * a;
  partial[1] = dbias;
  partial[2] = sum_of(length * p, [&](std::int64_t i) { return k.x[i] * k.dy[i]; });
}

template <class T>
void scan_chunk_back(const ops::StateScanGrad& op, const ScanPlaces& at, std::int64_t b, std::int64_t g, std::int64_t c,
                     float* room, float* partial) {
  const ScanShape& s = op.shape;
  const std::int64_t length = s.length(c), wide = padded(length);
  ScanRoom buffers(room);
  GroupChunk group(buffers, at, true);
  const BackBuffers k(buffers, at);
  const ChunkSteps chunk(buffers, at);
  group.load<T>(s, at, b, g, c);
  std::fill(k.dscores, k.dscores + length * wide, 0.0f);
  for (float* sum : {k.dbs, k.dcs}) std::fill(sum, sum + length * padded(at.n), 0.0f);
  for (std::int64_t h = g * at.group; h < (g + 1) * at.group; ++h) {
    chunk.load(op.steps, op.sums, at.steps(b, h, c), length);
    load_block(static_cast<const T*>(s.xbc.as<T>()) + at.x(b, h, c), at.row, length, at.p, k.x);
    load_block(static_cast<const T*>(op.dy.as<T>()) + at.y(b, h, c), at.out_row, length, at.p, k.dy);
    load_block(static_cast<const float*>(op.states.as<float>()) + at.state_at(b, h, c), at.p, at.n, at.p, k.state);
    load_block(static_cast<const float*>(op.dstates.as<float>()) + at.state_at(b, h, c), at.p, at.n, at.p, k.dstate);
    for (float* sum : {k.dsums, k.dsteps}) std::fill(sum, sum + wide, 0.0f);
    transpose_block(k.x, length, at.p, k.turned);
    causal_scores(length, at.p, k.dy, padded(at.p), k.turned, k.w);
    back_through_decays(length, group.scores, chunk.steps, chunk.sums, k);
    causal_sums_back(length, at.p, k.m, k.dy, k.dx, false);
    back_through_states(at, length, group, chunk.steps, chunk.sums, element_of(s.d, h), k);
    store_block(k.dx, length, at.p, op.dxbc.as<T>() + at.x(b, h, c), at.row);
    finish_steps<T>(op, at, b, h, c, k, partial + h * 3);
  }
  causal_sums(length, at.n, k.dscores, group.bs, k.dcs, true);
  causal_sums_back(length, at.n, k.dscores, group.cs, k.dbs, true);
  T* to = op.dxbc.as<T>() + at.of_group(b, g, c) + at.width;
  store_block(k.dbs, length, at.n, to, at.row);
  store_block(k.dcs, length, at.n, to + at.n, at.row);
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::StateScanGrad& op) {
  const ScanShape& s = op.shape;
  if (s.xbc.numel() == 0) return;
  const ScanPlaces at(s);
  const std::int64_t chunks = s.chunks(), parts = at.batch * chunks,
                     each = GroupChunk::floats(at, true) + BackBuffers::floats(at) + ChunkSteps::floats(at),
                     threads = omp_get_max_threads();
  float *scratch = cpu.scratch.floats(each * threads + parts * at.heads * 3), *partial = scratch + each * threads;
  const auto own = [&] { return scratch + omp_get_thread_num() * each; };
  with_type(s.xbc.dtype(), [&](auto type) {
    using T = decltype(type);
    for_each_piece(at.batch * at.heads * (chunks - 1), [&](std::int64_t i) {
      chunk_dstate<T>(op, at, i / (chunks - 1) / at.heads, i / (chunks - 1) % at.heads, i % (chunks - 1) + 1, own());
    });
    pass_dstates(s, at, op.sums, op.dstates);
    for_each_piece(at.batch * at.groups * chunks, [&](std::int64_t i) {
      const std::int64_t c = i % chunks, b = i / chunks / at.groups;
      scan_chunk_back<T>(op, at, b, i / chunks % at.groups, c, own(), partial + (b * chunks + c) * at.heads * 3);
    });
  });
  add_partials(partial, parts, at.heads, 3, {op.da_log, op.ddt_bias, op.dd});
}

}  // namespace mbench::cpu
