#include "engine/ops/delta_scan.h"

#include <omp.h>

#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/scan_chunk.h"

namespace mbench::cpu {
namespace {

using ops::ScanShape;

// Sizes, and where chunk c of a sample's group or head begins in the tensors.
struct DeltaPlaces {
  explicit DeltaPlaces(const ScanShape& s)
      : s(s),
        group(s.group()),
        p(s.head_dim),
        n(s.state_dim),
        row(s.batch() * s.groups() * s.channels()),
        out_row(s.batch() * s.groups() * s.group_width()),
        in_row(s.batch() * s.groups() * s.in.shape()[3]),
        longest(std::min(s.chunk, std::max<std::int64_t>(1, s.seq()))),
        scale(1.0f / std::sqrt(static_cast<float>(s.state_dim))) {}
  const ScanShape& s;
  std::int64_t group, p, n, row, out_row, in_row, longest;
  float scale;  // of queries

  std::int64_t at_group(std::int64_t b, std::int64_t g, std::int64_t c) const {
    return c * s.chunk * row + (b * s.groups() + g) * s.channels();
  }
  std::int64_t value(std::int64_t b, std::int64_t g, std::int64_t c, std::int64_t h) const {
    return at_group(b, g, c) + h * p;
  }
  std::int64_t key(std::int64_t b, std::int64_t g, std::int64_t c) const { return at_group(b, g, c) + s.group_width(); }
  std::int64_t out(std::int64_t b, std::int64_t g, std::int64_t c, std::int64_t h) const {
    return c * s.chunk * out_row + (b * s.groups() + g) * s.group_width() + h * p;
  }
  std::int64_t raw(std::int64_t b, std::int64_t g, std::int64_t c, std::int64_t h) const {
    return c * s.chunk * in_row + (b * s.groups() + g) * s.in.shape()[3] + s.first + h;
  }
  std::int64_t state(std::int64_t b, std::int64_t g, std::int64_t c, std::int64_t h) const {
    return ((c * s.batch() + b) * s.heads() + g * group + h) * n * p;
  }
};

// Rows become of length one; `inverse` gets what they were multiplied by.
inline void to_units(std::int64_t rows, std::int64_t n, float* x, float* inverse) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = x + r * padded(n);
    inverse[r] = 1.0f / std::sqrt(row_dot(row, row, n) + ops::kUnitEps);
    for (std::int64_t i = 0; i < n; ++i) row[i] *= inverse[r];
  }
}

// to += factor * from.
inline void add_row(std::int64_t n, float factor, const float* from, float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// DeltaKeys and queries of a group's chunk as units, and their scores with keys.
struct DeltaKeys {
  float *k, *q, *k_turned, *k_inverse, *q_inverse, *kk, *qk;
  DeltaKeys(ScanRoom& room, const DeltaPlaces& at) {
    const std::int64_t l = at.longest, n = padded(at.n), wide = padded(l);
    for (float** buffer : {&k, &q}) *buffer = room.take(l, n);
    k_turned = room.take(at.n, wide);
    for (float** buffer : {&k_inverse, &q_inverse}) *buffer = room.take(1, wide);
    for (float** buffer : {&kk, &qk}) *buffer = room.take(l, wide);
  }
  static std::int64_t floats(const DeltaPlaces& at) {
    const std::int64_t l = at.longest, wide = padded(l);
    return 2 * l * padded(at.n) + at.n * wide + 2 * wide + 2 * l * wide;
  }
  template <class T>
  void load(const DeltaPlaces& at, std::int64_t b, std::int64_t g, std::int64_t c) {
    const std::int64_t length = at.s.length(c);
    const T* from = static_cast<const T*>(at.s.xbc.as<T>()) + at.key(b, g, c);
    load_block(from, at.row, length, at.n, k);
    load_block(from + at.n, at.row, length, at.n, q);
    to_units(length, at.n, k, k_inverse);
    to_units(length, at.n, q, q_inverse);
    transpose_block(k, length, at.n, k_turned);
    causal_scores(length, at.n, k, padded(at.n), k_turned, kk);
    causal_scores(length, at.n, q, padded(at.n), k_turned, qk);
  }
};

// Of a head's chunk: decays, betas and what the triangular system makes.
struct DeltaHead {
  float *steps, *sums, *betas, *grown;  // [length]; `grown`: the decay from the chunk's start
  float *v, *before, *u;                // values; what the state before says of each key; u
  float *m, *system;                    // queries' scores with decays, and minus the strict part of the system
  float* state;
  DeltaHead(ScanRoom& room, const DeltaPlaces& at) {
    const std::int64_t l = at.longest, p = padded(at.p), wide = padded(l);
    for (float** buffer : {&steps, &sums, &betas, &grown}) *buffer = room.take(1, wide);
    for (float** buffer : {&v, &before, &u}) *buffer = room.take(l, p);
    for (float** buffer : {&m, &system}) *buffer = room.take(l, wide);
    state = room.take(at.n, p);
  }
  static std::int64_t floats(const DeltaPlaces& at) {
    const std::int64_t l = at.longest, p = padded(at.p), wide = padded(l);
    return 4 * wide + 3 * l * p + 2 * l * wide + at.n * p;
  }

  template <class T>
  void load(const DeltaPlaces& at, std::int64_t b, std::int64_t g, std::int64_t c, std::int64_t h) {
    const ScanShape& s = at.s;
    const std::int64_t length = s.length(c), head = g * at.group + h;
    const float bias = element_of(s.dt_bias, head), a = -std::exp(element_of(s.a_log, head));
    const T* raw = static_cast<const T*>(s.in.as<T>()) + at.raw(b, g, c, h);
    float sum = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      float decay = 0, beta = 0;
      to_floats(raw + t * at.in_row, &decay, 1);
      to_floats(raw + t * at.in_row + at.group, &beta, 1);
      decay += bias;
      steps[t] = decay > 20.0f ? decay : std::log1p(std::exp(decay));
      sum += steps[t] * a;
      sums[t] = sum;
      grown[t] = exp_f32(sum);
      betas[t] = s.beta_scale / (1.0f + std::exp(-beta));
    }
    load_block(static_cast<const T*>(s.xbc.as<T>()) + at.value(b, g, c, h), at.row, length, at.p, v);
  }

  // From the state before, which is loaded, to u.
  void solve(const DeltaPlaces& at, std::int64_t length, const DeltaKeys& keys) {
    const std::int64_t p = padded(at.p), wide = padded(length);
    scan_gemm(length, at.p, at.n, {keys.k, padded(at.n), 1}, state, before, false);
    for (std::int64_t t = 0; t < length; ++t) {
      const float *kk = keys.kk + t * wide, *qk = keys.qk + t * wide, beta = betas[t], sum = sums[t];
      float *scores = m + t * wide, *row = system + t * wide;
      for (std::int64_t s = 0; s <= t; s += kVector) {
        const FloatVector decay = exp_of(sum - load_vector(sums + s));
        store_vector(load_vector(qk + s) * decay, scores + s);
        store_vector(load_vector(kk + s) * (-beta * decay), row + s);
      }
      row[t] = 0;
      std::fill(scores + t + 1, scores + wide, 0.0f);
      std::fill(row + t + 1, row + wide, 0.0f);
      float* to = u + t * p;
      for (std::int64_t i = 0; i < p; ++i) to[i] = beta * (v[t * p + i] - grown[t] * before[t * p + i]);
    }
    for (std::int64_t t0 = 0; t0 < length; t0 += kTileRows) {
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, length - t0);
      block_gemm(rows, p, t0, {system + t0 * wide, wide, 1}, u, p, u + t0 * p, p, true);
      for (std::int64_t t = t0 + 1; t < t0 + rows; ++t)
        for (std::int64_t s = t0; s < t; ++s) add_row(p, system[t * wide + s], u + s * p, u + t * p);
    }
  }
};

template <class T>
void delta_group(const ops::DeltaScan& op, const DeltaPlaces& at, std::int64_t b, std::int64_t g, float* room) {
  const ScanShape& s = op.shape;
  ScanRoom buffers(room);
  DeltaKeys keys(buffers, at);
  DeltaHead head(buffers, at);
  float *y = buffers.take(at.longest, padded(at.p)), *scaled = buffers.take(at.longest, padded(at.p)),
        *factors = buffers.take(1, padded(at.longest));
  for (std::int64_t c = 0; c < s.chunks(); ++c) {
    const std::int64_t length = s.length(c), p = padded(at.p);
    keys.load<T>(at, b, g, c);
    for (std::int64_t h = 0; h < at.group; ++h) {
      float* states = op.states.as<float>();
      if (c == 0) std::fill(states + at.state(b, g, 0, h), states + at.state(b, g, 0, h) + at.n * at.p, 0.0f);
      load_block(static_cast<const float*>(states) + at.state(b, g, c, h), at.p, at.n, at.p, head.state);
      head.load<T>(at, b, g, c, h);
      head.solve(at, length, keys);
      scan_gemm(length, at.p, at.n, {keys.q, padded(at.n), 1}, head.state, y, false);
      scale_block(length, at.p, head.grown, y, y);
      causal_sums(length, at.p, head.m, head.u, y, true);
      for (std::int64_t i = 0; i < length * p; ++i) y[i] *= at.scale;
      store_block(y, length, at.p, op.y.as<T>() + at.out(b, g, c, h), at.out_row);
      if (c + 1 == s.chunks()) continue;
      const float end = head.sums[length - 1], whole = exp_f32(end);
      for (std::int64_t t = 0; t < length; ++t) factors[t] = exp_f32(end - head.sums[t]);
      scale_block(length, at.p, factors, head.u, scaled);
      for (std::int64_t i = 0; i < at.n * p; ++i) head.state[i] *= whole;
      scan_gemm(at.n, at.p, length, {keys.k, 1, padded(at.n)}, scaled, head.state, true);
      store_block(head.state, at.n, at.p, states + at.state(b, g, c + 1, h), at.p);
    }
  }
}

// What backward of a head's chunk needs besides the head's.
struct DeltaBack {
  float *dy, *du, *work, *turned, *dm, *dsystem, *state_turned, *sums, *dsums, *dbetas, *factors, *dk, *dq, *dstates;
  DeltaBack(ScanRoom& room, const DeltaPlaces& at) {
    const std::int64_t l = at.longest, p = padded(at.p), n = padded(at.n), wide = padded(l);
    for (float** buffer : {&dy, &du, &work}) *buffer = room.take(l, p);
    turned = room.take(at.p, wide);
    for (float** buffer : {&dm, &dsystem}) *buffer = room.take(l, wide);
    state_turned = room.take(at.p, n);
    for (float** buffer : {&sums, &dsums, &dbetas, &factors}) *buffer = room.take(1, wide);
    for (float** buffer : {&dk, &dq}) *buffer = room.take(l, n);
    dstates = room.take(at.group * at.n, p);  // of each head, where the chunk ends
  }
  static std::int64_t floats(const DeltaPlaces& at) {
    const std::int64_t l = at.longest, p = padded(at.p), n = padded(at.n), wide = padded(l);
    return 3 * l * p + at.p * wide + 2 * l * wide + at.p * n + 4 * wide + 2 * l * n + at.group * at.n * p;
  }
};

// Through outputs and the state where the chunk ends, to du and the gradients of scores: dm is dy u^T then. Adds to dq, dk and dsums.
inline void back_to_u(const DeltaPlaces& at, std::int64_t length, const DeltaKeys& keys, const DeltaHead& head,
                      const float* dstate, const DeltaBack& k) {
  const std::int64_t p = padded(at.p), n = padded(at.n), wide = padded(length);
  causal_sums_back(length, at.p, head.m, k.dy, k.du, false);
  scan_gemm(length, at.p, at.n, {keys.k, n, 1}, dstate, k.work, false);
  const float end = head.sums[length - 1];
  float of_end = exp_f32(end) * sum_of(at.n * p, [&](std::int64_t i) { return head.state[i] * dstate[i]; });
  for (std::int64_t s = 0; s < length; ++s) {
    k.factors[s] = exp_f32(end - head.sums[s]);
    const float value = k.factors[s] * row_dot(k.work + s * p, head.u + s * p, at.p);
    of_end += value;
    k.dsums[s] -= value;
    for (std::int64_t i = 0; i < p; ++i) k.du[s * p + i] += k.factors[s] * k.work[s * p + i];
  }
  k.dsums[length - 1] += of_end;
  scale_block(length, at.p, k.factors, head.u, k.work);
  transpose_block(dstate, at.n, at.p, k.state_turned);
  scan_gemm(length, at.n, at.p, {k.work, p, 1}, k.state_turned, k.dk, true);
  transpose_block(head.u, length, at.p, k.turned);
  causal_scores(length, at.p, k.dy, p, k.turned, k.dm);
  // The state before, as queries read it.
  scan_gemm(length, at.p, at.n, {keys.q, n, 1}, head.state, k.work, false);
  for (std::int64_t t = 0; t < length; ++t) k.dsums[t] += head.grown[t] * row_dot(k.dy + t * p, k.work + t * p, at.p);
  scale_block(length, at.p, head.grown, k.dy, k.work);
  transpose_block(head.state, at.n, at.p, k.state_turned);
  scan_gemm(length, at.n, at.p, {k.work, p, 1}, k.state_turned, k.dq, true);
  for (std::int64_t t = 0; t < length; ++t) {
    float* dm = k.dm + t * wide;
    std::fill(dm + t + 1, dm + wide, 0.0f);
  }
}

// Solves the transposed system in place: du becomes the gradient of its right side. dsystem then has the gradients of its elements.
inline void back_through_system(const DeltaPlaces& at, std::int64_t length, const DeltaHead& head, const DeltaBack& k) {
  const std::int64_t p = padded(at.p), wide = padded(length);
  for (std::int64_t t0 = (length - 1) / kTileRows * kTileRows; t0 >= 0; t0 -= kTileRows) {
    const std::int64_t end = std::min<std::int64_t>(t0 + kTileRows, length);
    block_gemm(end - t0, p, length - end, {head.system + end * wide + t0, 1, wide}, k.du + end * p, p, k.du + t0 * p, p,
               true);
    for (std::int64_t t = end; t-- > t0;)
      for (std::int64_t s = t0; s < t; ++s) add_row(p, head.system[t * wide + s], k.du + t * p, k.du + s * p);
  }
  causal_scores(length, at.p, k.du, p, k.turned, k.dsystem);  // turned: u
}

// Through decays, betas and scores: dm and dsystem become the gradients of the queries' and the keys' scores.
inline void back_through_scores(std::int64_t length, const DeltaKeys& keys, const DeltaHead& head, const DeltaBack& k) {
  const std::int64_t wide = padded(length);
  for (std::int64_t t = 0; t < length; ++t) {
    const float *m = head.m + t * wide, *row = head.system + t * wide, *kk = keys.kk + t * wide, sum = head.sums[t],
                beta = head.betas[t];
    float *dm = k.dm + t * wide, *drow = k.dsystem + t * wide, *dsums = k.dsums;
    std::fill(drow + t, drow + wide, 0.0f);  // the strict part; dm has zeros beyond its diagonal
    FloatVector later = all(0), dbeta = all(0);
    for (std::int64_t s = 0; s <= t; s += kVector) {
      const FloatVector decay = first_of(exp_of(sum - load_vector(head.sums + s)), t - s + 1),
                        of_row = load_vector(drow + s), of_score = load_vector(dm + s);
      const FloatVector through = of_score * load_vector(m + s) + of_row * load_vector(row + s);
      later += through;
      store_vector(load_vector(dsums + s) - through, dsums + s);
      dbeta -= of_row * decay * load_vector(kk + s);
      store_vector(of_score * decay, dm + s);
      store_vector(of_row * decay * -beta, drow + s);
    }
    dsums[t] += sum_of(later);
    k.dbetas[t] += sum_of(dbeta);
  }
}

// The right side, beta (v - grown before): writes dv into work, adds to dk, dbetas and dsums; `dstate` becomes that of the state before.
inline void back_through_right_side(const DeltaPlaces& at, std::int64_t length, const DeltaKeys& keys,
                                    const DeltaHead& head, float* dstate, const DeltaBack& k) {
  const std::int64_t p = padded(at.p), n = padded(at.n);
  const float whole = head.grown[length - 1];
  for (std::int64_t i = 0; i < at.n * p; ++i) dstate[i] *= whole;
  scale_block(length, at.p, head.grown, k.dy, k.work);
  scan_gemm(at.n, at.p, length, {keys.q, 1, n}, k.work, dstate, true);
  for (std::int64_t t = 0; t < length; ++t) {
    const float *d = k.du + t * p, *before = head.before + t * p, *v = head.v + t * p, grown = head.grown[t];
    const float of_value = row_dot(d, v, at.p), of_before = grown * row_dot(d, before, at.p);
    k.dbetas[t] += of_value - of_before;
    k.dsums[t] -= head.betas[t] * of_before;
    k.factors[t] = -head.betas[t] * grown;
  }
  scale_block(length, at.p, k.factors, k.du, k.work);                         // of `before`
  scan_gemm(length, at.n, at.p, {k.work, p, 1}, k.state_turned, k.dk, true);  // state_turned: the state before
  scan_gemm(at.n, at.p, length, {keys.k, 1, n}, k.work, dstate, true);
  scale_block(length, at.p, head.betas, k.du, k.work);
}

// Raw decays' and betas' gradients; and in `partial` what the chunk adds to those of a_log and dt_bias.
template <class T>
void finish_delta_head(const ops::DeltaScanGrad& op, const DeltaPlaces& at, std::int64_t b, std::int64_t g,
                       std::int64_t c, std::int64_t h, const DeltaHead& head, const DeltaBack& k, float* partial) {
  const ScanShape& s = op.shape;
  const std::int64_t index = g * at.group + h;
  const float bias = element_of(s.dt_bias, index), a = -std::exp(element_of(s.a_log, index));
  const T* raw = static_cast<const T*>(s.in.as<T>()) + at.raw(b, g, c, h);
  T* to = op.din.as<T>() + at.raw(b, g, c, h);
  float later = 0;
  for (std::int64_t t = s.length(c); t-- > 0;) {
    later += k.dsums[t];
    partial[0] += later * head.steps[t] * a;
    float value = 0;
    to_floats(raw + t * at.in_row, &value, 1);
    const float d = later * a / (1.0f + std::exp(-(value + bias)));
    const float dbeta = k.dbetas[t] * head.betas[t] * (1.0f - head.betas[t] / s.beta_scale);
    partial[1] += d;
    from_floats(&d, to + t * at.in_row, 1);
    from_floats(&dbeta, to + t * at.in_row + at.group, 1);
  }
}

// From the gradients of units to those of keys or queries.
inline void back_from_units(std::int64_t rows, std::int64_t n, const float* units, const float* inverse, float* d) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* unit = units + r * padded(n);
    float* row = d + r * padded(n);
    const float along = row_dot(unit, row, n);
    for (std::int64_t i = 0; i < n; ++i) row[i] = inverse[r] * (row[i] - along * unit[i]);
  }
}

template <class T>
void delta_group_back(const ops::DeltaScanGrad& op, const DeltaPlaces& at, std::int64_t b, std::int64_t g, float* room,
                      float* partial) {
  const ScanShape& s = op.shape;
  ScanRoom buffers(room);
  DeltaKeys keys(buffers, at);
  DeltaHead head(buffers, at);
  const DeltaBack k(buffers, at);
  const std::int64_t p = padded(at.p);
  std::fill(k.dstates, k.dstates + at.group * at.n * p, 0.0f);
  std::fill(partial, partial + at.group * 2, 0.0f);
  for (std::int64_t c = s.chunks(); c-- > 0;) {
    const std::int64_t length = s.length(c);
    keys.load<T>(at, b, g, c);
    for (float* sum : {k.dk, k.dq}) std::fill(sum, sum + length * padded(at.n), 0.0f);
    for (std::int64_t h = 0; h < at.group; ++h) {
      float* dstate = k.dstates + h * at.n * p;
      load_block(static_cast<const float*>(op.states.as<float>()) + at.state(b, g, c, h), at.p, at.n, at.p, head.state);
      load_block(static_cast<const T*>(op.dy.as<T>()) + at.out(b, g, c, h), at.out_row, length, at.p, k.dy);
      for (std::int64_t i = 0; i < length * p; ++i) k.dy[i] *= at.scale;
      for (float* sum : {k.dsums, k.dbetas}) std::fill(sum, sum + length, 0.0f);
      head.load<T>(at, b, g, c, h);
      head.solve(at, length, keys);
      back_to_u(at, length, keys, head, dstate, k);
      back_through_system(at, length, head, k);
      back_through_scores(length, keys, head, k);
      back_through_right_side(at, length, keys, head, dstate, k);
      store_block(k.work, length, at.p, op.dxbc.as<T>() + at.value(b, g, c, h), at.row);
      causal_sums(length, at.n, k.dm, keys.k, k.dq, true);
      causal_sums_back(length, at.n, k.dm, keys.q, k.dk, true);
      causal_sums(length, at.n, k.dsystem, keys.k, k.dk, true);
      causal_sums_back(length, at.n, k.dsystem, keys.k, k.dk, true);
      finish_delta_head<T>(op, at, b, g, c, h, head, k, partial + h * 2);
    }
    back_from_units(length, at.n, keys.k, keys.k_inverse, k.dk);
    back_from_units(length, at.n, keys.q, keys.q_inverse, k.dq);
    T* to = op.dxbc.as<T>() + at.key(b, g, c);
    store_block(k.dk, length, at.n, to, at.row);
    store_block(k.dq, length, at.n, to + at.n, at.row);
  }
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::DeltaScan& op) {
  const ScanShape& s = op.shape;
  if (s.xbc.numel() == 0) return;
  const DeltaPlaces at(s);
  const std::int64_t each =
      DeltaKeys::floats(at) + DeltaHead::floats(at) + 2 * at.longest * padded(at.p) + padded(at.longest);
  float* scratch = cpu.scratch.floats(each * omp_get_max_threads());
  with_type(s.xbc.dtype(), [&](auto type) {
    for_each_piece(s.batch() * s.groups(), [&](std::int64_t i) {
      delta_group<decltype(type)>(op, at, i / s.groups(), i % s.groups(), scratch + omp_get_thread_num() * each);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::DeltaScanGrad& op) {
  const ScanShape& s = op.shape;
  if (s.xbc.numel() == 0) return;
  const DeltaPlaces at(s);
  const std::int64_t each = DeltaKeys::floats(at) + DeltaHead::floats(at) + DeltaBack::floats(at),
                     threads = omp_get_max_threads();
  float *scratch = cpu.scratch.floats(each * threads + s.batch() * s.heads() * 2), *partial = scratch + each * threads;
  with_type(s.xbc.dtype(), [&](auto type) {
    for_each_piece(s.batch() * s.groups(), [&](std::int64_t i) {
      delta_group_back<decltype(type)>(op, at, i / s.groups(), i % s.groups(), scratch + omp_get_thread_num() * each,
                                       partial + i * at.group * 2);
    });
  });
  add_partials(partial, s.batch(), s.heads(), 2, {op.da_log, op.ddt_bias});
}

}  // namespace mbench::cpu
