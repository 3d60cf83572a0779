#include "engine/ops/selective_scan.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

constexpr std::int64_t kBlock = 64;  // channels that are scanned together, of one group

float positive_step(float z) {
  return z > 20.0f ? z : std::log1p(std::exp(z));
}

// Which channels a block has. Blocks divide the work among threads; each position's rows of B and C are read by all of them.
struct Block {
  std::int64_t group, at, count, channel;  // of its group's columns, and of all channels
};
struct Blocks {
  explicit Blocks(const ops::SelectiveShape& s)
      : width(s.group_width()), each((width + kBlock - 1) / kBlock), count(s.groups() * each) {}
  Block operator[](std::int64_t i) const {
    const std::int64_t group = i / each, at = i % each * kBlock;
    return {group, at, std::min(kBlock, width - at), group * width + at};
  }
  std::int64_t width, each, count;
};

// One block's inputs, as floats. The weights are read once.
template <class T>
struct Inputs {
  Inputs(const ops::SelectiveShape& s, const Block& block, float* scratch) : s(s), block(block), a(scratch) {
    const std::int64_t n = s.state_dim;
    for (std::int64_t c = 0; c < block.count; ++c) {
      float buffer[ops::kMostSelectiveStates];
      const float* logs = load(static_cast<const T*>(s.a_log.as<T>()) + (block.channel + c) * n, buffer, n);
      for (std::int64_t j = 0; j < n; ++j) a[j * kBlock + c] = -std::exp(logs[j]);
    }
    bias = load(static_cast<const T*>(s.dt_bias.as<T>()) + block.channel, bias_buffer, block.count);
    d = load(static_cast<const T*>(s.d.as<T>()) + block.channel, d_buffer, block.count);
  }
  std::int64_t row(std::int64_t t, std::int64_t b) const { return t * s.batch() + b; }
  std::int64_t place(std::int64_t t, std::int64_t b) const { return row(t, b) * s.channels() + block.channel; }
  std::int64_t gates(std::int64_t t, std::int64_t b) const {
    return (row(t, b) * s.groups() + block.group) * s.in.shape()[3] + block.at;
  }
  void read(std::int64_t t, std::int64_t b) {
    x = load(static_cast<const T*>(s.x.as<T>()) + place(t, b), x_buffer, block.count);
    const float* raw = load(static_cast<const T*>(s.steps.as<T>()) + place(t, b), z_buffer, block.count);
    for (std::int64_t c = 0; c < block.count; ++c) dt[c] = positive_step(raw[c] + bias[c]);
    const T* columns = static_cast<const T*>(s.bc.as<T>()) + row(t, b) * s.bc.shape()[2] + s.first;
    bs = load(columns, bc_buffer, 2 * s.state_dim);
    z = load(static_cast<const T*>(s.in.as<T>()) + gates(t, b), z_buffer, block.count);
  }
  const ops::SelectiveShape& s;
  Block block;
  float* a;  // [state_dim, kBlock]
  const float *bias, *d, *x, *z, *bs;
  float dt[kBlock];
  float bias_buffer[kBlock], d_buffer[kBlock], x_buffer[kBlock], z_buffer[kBlock];
  float bc_buffer[2 * ops::kMostSelectiveStates];
};

// h(t) from h(t - 1), [state_dim, kBlock], and C^T h(t).
template <class T>
void step(const Inputs<T>& in, const float* before, float* h, float* sum) {
  const std::int64_t count = in.block.count, n = in.s.state_dim;
  std::fill(sum, sum + count, 0.0f);
  for (std::int64_t j = 0; j < n; ++j) {
    const float b = in.bs[j], c = in.bs[n + j];
    const float *a = in.a + j * kBlock, *from = before + j * kBlock;
    float* to = h + j * kBlock;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = exp_f32(in.dt[i] * a[i]) * from[i] + in.dt[i] * b * in.x[i];
      sum[i] += c * to[i];
    }
  }
}

// A block's states where a chunk begins, as [state_dim, kBlock], and as the op keeps them.
float* states_at(const Tensor& states, const ops::SelectiveShape& s, std::int64_t chunk, std::int64_t b,
                 std::int64_t channel) {
  return states.as<float>() + ((chunk * s.batch() + b) * s.channels() + channel) * s.state_dim;
}
void keep(const float* h, const Block& block, std::int64_t n, float* to) {
  for (std::int64_t c = 0; c < block.count; ++c)
    for (std::int64_t j = 0; j < n; ++j) to[c * n + j] = h[j * kBlock + c];
}
void bring(const float* from, const Block& block, std::int64_t n, float* h) {
  for (std::int64_t c = 0; c < block.count; ++c)
    for (std::int64_t j = 0; j < n; ++j) h[j * kBlock + c] = from[c * n + j];
}

template <class T>
void scan(const ops::SelectiveScan& op, const Block& block, float* scratch) {
  const ops::SelectiveShape& s = op.shape;
  const std::int64_t n = s.state_dim;
  Inputs<T> in(s, block, scratch);
  float *h = scratch + n * kBlock, sum[kBlock], buffer[kBlock];
  for (std::int64_t b = 0; b < s.batch(); ++b) {
    std::fill(h, h + n * kBlock, 0.0f);
    for (std::int64_t t = 0; t < s.seq(); ++t) {
      if (t % s.chunk == 0) keep(h, block, n, states_at(op.states, s, t / s.chunk, b, block.channel));
      in.read(t, b);
      step(in, h, h, sum);
      if (!op.y) continue;
      float* y = target(op.y.as<T>() + in.place(t, b), buffer);
#pragma omp simd
      for (std::int64_t c = 0; c < block.count; ++c)
        y[c] = (sum[c] + in.d[c] * in.x[c]) * in.z[c] / (1.0f + exp_f32(-in.z[c]));
      store(y, op.y.as<T>() + in.place(t, b), block.count);
    }
  }
}

// Sums over all positions of a block's channels.
struct Sums {
  float *a, *d, *bias;  // [state_dim, kBlock], [kBlock] each
};

// Backwards through one chunk. `history`: the states before each of its positions and behind the last. `later`: the gradients of the
// states behind the chunk, and then before it. `bc`: [2 state_dim] of every row, the block's part of the gradients of B and C.
template <class T>
void chunk_back(const ops::SelectiveScanGrad& op, Inputs<T>& in, std::int64_t chunk, std::int64_t b, float* history,
                float* later, float* bc, const Sums& sums) {
  const ops::SelectiveShape& s = op.shape;
  const std::int64_t n = s.state_dim, size = n * kBlock, count = in.block.count, begin = chunk * s.chunk,
                     end = std::min(s.seq(), begin + s.chunk);
  float outputs[ops::kMostSelectiveChunk][kBlock];
  for (std::int64_t t = begin; t < end; ++t) {
    in.read(t, b);
    float* before = history + (t - begin) * size;
    step(in, before, before + size, outputs[t - begin]);
  }
  float db[kBlock], xb[kBlock], zb[kBlock], sb[kBlock], g[kBlock], ddt[kBlock], of_x[kBlock];
  for (std::int64_t t = end - 1; t >= begin; --t) {
    in.read(t, b);
    const float *before = history + (t - begin) * size, *h = before + size, *out = outputs[t - begin];
    const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + in.place(t, b), db, count);
    float* dz = target(op.din.as<T>() + in.gates(t, b), zb);
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      const float z = in.z[c], open = 1.0f / (1.0f + exp_f32(-z));
      g[c] = dy[c] * z * open;
      dz[c] = dy[c] * (out[c] + in.d[c] * in.x[c]) * open * (1.0f + z * (1.0f - open));
      ddt[c] = of_x[c] = 0;
      sums.d[c] += g[c] * in.x[c];
    }
    store(dz, op.din.as<T>() + in.gates(t, b), count);
    float* of_row = bc + in.row(t, b) * 2 * n;
    for (std::int64_t j = 0; j < n; ++j) {
      const float bt = in.bs[j], ct = in.bs[n + j];
      const float *a = in.a + j * kBlock, *was = before + j * kBlock, *is = h + j * kBlock;
      float *r = later + j * kBlock, *da = sums.a + j * kBlock, of_b = 0, of_c = 0;
#pragma omp simd reduction(+ : of_b, of_c)
      for (std::int64_t c = 0; c < count; ++c) {
        const float dh = g[c] * ct + r[c], decay = exp_f32(in.dt[c] * a[c]), kept = decay * was[c];
        of_c += g[c] * is[c];
        of_b += dh * in.dt[c] * in.x[c];
        of_x[c] += dh * bt;
        ddt[c] += dh * (a[c] * kept + bt * in.x[c]);
        da[c] += dh * in.dt[c] * kept;
        r[c] = decay * dh;
      }
      of_row[j] = of_b, of_row[n + j] = of_c;
    }
    float *dx = target(op.dx.as<T>() + in.place(t, b), xb), *dsteps = target(op.dsteps.as<T>() + in.place(t, b), sb);
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      dx[c] = g[c] * in.d[c] + in.dt[c] * of_x[c];
      // softplus' slope by its value: 1 - e^-dt.
      dsteps[c] = -ddt[c] * expm1_f32(-in.dt[c]);
      sums.bias[c] += dsteps[c];
    }
    store(dx, op.dx.as<T>() + in.place(t, b), count);
    store(dsteps, op.dsteps.as<T>() + in.place(t, b), count);
  }
}

template <class F>
void add_to(const Tensor& to, std::int64_t at, std::int64_t n, const F& value) {
  if (!to) return;
  with_type(to.dtype(), [&](auto type) {
    using T = decltype(type);
    float old[kBlock], out[kBlock];
    const float* was = load(static_cast<const T*>(to.as<T>()) + at, old, n);
    float* is = target(to.as<T>() + at, out);
    for (std::int64_t i = 0; i < n; ++i) is[i] = was[i] + value(i);
    store(is, to.as<T>() + at, n);
  });
}

template <class T>
void scan_back(const ops::SelectiveScanGrad& op, const Block& block, float* bc, float* scratch) {
  const ops::SelectiveShape& s = op.shape;
  const std::int64_t n = s.state_dim, size = n * kBlock;
  Inputs<T> in(s, block, scratch);
  float *later = scratch + size, *history = scratch + 3 * size, of_d[kBlock] = {}, of_bias[kBlock] = {};
  const Sums sums{scratch + 2 * size, of_d, of_bias};
  std::fill(sums.a, sums.a + size, 0.0f);
  for (std::int64_t b = 0; b < s.batch(); ++b) {
    std::fill(later, later + size, 0.0f);
    for (std::int64_t chunk = s.chunks() - 1; chunk >= 0; --chunk) {
      keep(later, block, n, states_at(op.dstates, s, chunk, b, block.channel));
      bring(states_at(op.states, s, chunk, b, block.channel), block, n, history);
      chunk_back(op, in, chunk, b, history, later, bc, sums);
    }
  }
  add_to(op.dd, block.channel, block.count, [&](std::int64_t c) { return of_d[c]; });
  add_to(op.ddt_bias, block.channel, block.count, [&](std::int64_t c) { return of_bias[c]; });
  for (std::int64_t c = 0; c < block.count; ++c)
    for (std::int64_t j = 0; j < n; j += kBlock)
      add_to(op.da_log, (block.channel + c) * n + j, std::min(kBlock, n - j),
             [&](std::int64_t i) { return sums.a[(j + i) * kBlock + c] * in.a[(j + i) * kBlock + c]; });
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::SelectiveScan& op) {
  const Blocks blocks(op.shape);
  const std::int64_t each = 2 * op.shape.state_dim * kBlock;
  float* scratch = cpu.scratch.floats(omp_get_max_threads() * each);
  with_type(op.shape.x.dtype(), [&](auto type) {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < blocks.count; ++i)
      scan<decltype(type)>(op, blocks[i], scratch + omp_get_thread_num() * each);
  });
}

template <>
void compute(CpuOps& cpu, const ops::SelectiveScanGrad& op) {
  const ops::SelectiveShape& s = op.shape;
  const Blocks blocks(s);
  const std::int64_t n = s.state_dim, rows = s.seq() * s.batch(), each = (4 + s.chunk) * n * kBlock;
  float* scratch = cpu.scratch.floats(omp_get_max_threads() * each + blocks.count * rows * 2 * n);
  float* bc = scratch + omp_get_max_threads() * each;  // [blocks, rows, 2 state_dim]
  with_type(s.x.dtype(), [&](auto type) {
    using T = decltype(type);
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < blocks.count; ++i)
      scan_back<T>(op, blocks[i], bc + i * rows * 2 * n, scratch + omp_get_thread_num() * each);
      // Blocks in their order: independent of the number of threads.
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
      float buffer[2 * ops::kMostSelectiveStates];
      T* to = op.dbc.as<T>() + row * s.bc.shape()[2] + s.first;
      float* sum = target(to, buffer);
      std::fill(sum, sum + 2 * n, 0.0f);
      for (std::int64_t i = 0; i < blocks.count; ++i)
        for (std::int64_t j = 0; j < 2 * n; ++j) sum[j] += bc[(i * rows + row) * 2 * n + j];
      store(sum, to, 2 * n);
    }
  });
}

}  // namespace mbench::cpu
