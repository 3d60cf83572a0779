// The gated delta rule, position after position: a thread has a column of a head's state. Backward replays a chunk from the state where it
// begins, walks back through it, and sums over columns. Sums have a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/delta_scan.h"

namespace mbench::cuda {

inline constexpr int kDeltaThreads = 128;

template <class T>
struct DeltaArguments {
  const T *xbc, *in, *a_log, *dt_bias, *dy;
  float* states;
  T *y, *dxbc, *din;
  // Scratch. Of all positions: [seq, batch, groups, 2] inverse lengths of keys and queries; [seq, batch, heads, 2] parts of the sums of
  // a_log and dt_bias.
  float *inverse, *parts;
  float* state;  // [batch, heads, n, p]: the state as it goes along, or its gradient
  // Of one chunk: states after each position and their gradients, [chunk, batch, heads, n, p]. Values less what the state said of the
  // key, and the gradients of u, [chunk, batch, heads, p]. Gradients of units, [chunk, batch, groups, 2, n].
  float *after, *dafter, *less, *du, *units;
  std::int64_t seq, batch, groups, group, heads, p, n, chunk, chunks, channels, width, first,
      from;  // from: the chunk's first
  float scale, beta_scale;

  __device__ std::int64_t row(std::int64_t t, std::int64_t b, std::int64_t g) const {
    return (t * batch + b) * groups + g;
  }
  __device__ std::int64_t value(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return row(t, b, h / group) * channels + h % group * p;
  }
  __device__ std::int64_t key(std::int64_t t, std::int64_t b, std::int64_t g) const {
    return row(t, b, g) * channels + group * p;
  }
  __device__ std::int64_t out(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return row(t, b, h / group) * group * p + h % group * p;
  }
  __device__ std::int64_t raw(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return row(t, b, h / group) * width + first + h % group;
  }
  __device__ float step(std::int64_t t, std::int64_t b, std::int64_t h) const {
    const float z = to_f32(in[raw(t, b, h)]) + to_f32(dt_bias[h]);
    return z > 20.0f ? z : log1pf(expf(z));
  }
  __device__ float decay(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return expf(-expf(to_f32(a_log[h])) * step(t, b, h));
  }
  __device__ float beta(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return beta_scale / (1.0f + expf(-to_f32(in[raw(t, b, h) + group])));
  }
  __device__ float k(std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t j) const {
    return to_f32(xbc[key(t, b, g) + j]) * inverse[2 * row(t, b, g)];
  }
  __device__ float q(std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t j) const {
    return to_f32(xbc[key(t, b, g) + n + j]) * inverse[2 * row(t, b, g) + 1];
  }
  __device__ std::int64_t end() const { return from + chunk < seq ? from + chunk : seq; }
  // In a tensor [position of the chunk, batch, heads, ...].
  __device__ std::int64_t within(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return ((t - from) * batch + b) * heads + h;
  }
  // Before position t: after the one before, or where the chunk begins.
  __device__ const float* before(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return t == from ? states + ((from / chunk * batch + b) * heads + h) * n * p : after + within(t - 1, b, h) * n * p;
  }
};

__device__ inline std::int64_t delta_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Inverse lengths of keys and queries.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_lengths(DeltaArguments<T> a) {
  const std::int64_t r = delta_thread();
  if (r >= a.seq * a.batch * a.groups * 2) return;
  const T* from = a.xbc + r / 2 * a.channels + a.group * a.p + r % 2 * a.n;
  float sum = ops::kUnitEps;
  for (std::int64_t j = 0; j < a.n; ++j) sum += to_f32(from[j]) * to_f32(from[j]);
  a.inverse[r] = 1.0f / sqrtf(sum);
}

template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_forward(DeltaArguments<T> a) {
  const std::int64_t r = delta_thread();
  if (r >= a.batch * a.heads * a.p) return;
  const std::int64_t i = r % a.p, h = r / a.p % a.heads, b = r / a.p / a.heads, g = h / a.group;
  float* state = a.state + (b * a.heads + h) * a.n * a.p + i;
  for (std::int64_t j = 0; j < a.n; ++j) state[j * a.p] = 0;
  for (std::int64_t t = 0; t < a.seq; ++t) {
    if (t % a.chunk == 0)
      for (std::int64_t j = 0; j < a.n; ++j)
        a.states[((t / a.chunk * a.batch + b) * a.heads + h) * a.n * a.p + j * a.p + i] = state[j * a.p];
    const float decay = a.decay(t, b, h);
    float said = 0, y = 0;
    for (std::int64_t j = 0; j < a.n; ++j) said += state[j * a.p] * a.k(t, b, g, j);
    const float u = a.beta(t, b, h) * (to_f32(a.xbc[a.value(t, b, h) + i]) - decay * said);
    for (std::int64_t j = 0; j < a.n; ++j) {
      const float now = decay * state[j * a.p] + a.k(t, b, g, j) * u;
      state[j * a.p] = now;
      y += now * a.q(t, b, g, j);
    }
    a.y[a.out(t, b, h) + i] = from_f32<T>(y * a.scale);
  }
}

// The states of a chunk again.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_replay(DeltaArguments<T> a) {
  const std::int64_t r = delta_thread();
  if (r >= a.batch * a.heads * a.p) return;
  const std::int64_t i = r % a.p, h = r / a.p % a.heads, b = r / a.p / a.heads, g = h / a.group;
  for (std::int64_t t = a.from; t < a.end(); ++t) {
    const float decay = a.decay(t, b, h);
    const float* before = a.before(t, b, h) + i;
    float* after = a.after + a.within(t, b, h) * a.n * a.p + i;
    float said = 0;
    for (std::int64_t j = 0; j < a.n; ++j) said += before[j * a.p] * a.k(t, b, g, j);
    const float less = to_f32(a.xbc[a.value(t, b, h) + i]) - decay * said, u = a.beta(t, b, h) * less;
    a.less[a.within(t, b, h) * a.p + i] = less;
    for (std::int64_t j = 0; j < a.n; ++j) after[j * a.p] = decay * before[j * a.p] + a.k(t, b, g, j) * u;
  }
}

// Back through a chunk: `state` is the gradient of the state that goes along.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_back(DeltaArguments<T> a) {
  const std::int64_t r = delta_thread();
  if (r >= a.batch * a.heads * a.p) return;
  const std::int64_t i = r % a.p, h = r / a.p % a.heads, b = r / a.p / a.heads, g = h / a.group;
  float* d = a.state + (b * a.heads + h) * a.n * a.p + i;
  if (a.end() == a.seq)
    for (std::int64_t j = 0; j < a.n; ++j) d[j * a.p] = 0;
  for (std::int64_t t = a.end(); t-- > a.from;) {
    const float out = a.scale * to_f32(a.dy[a.out(t, b, h) + i]), decay = a.decay(t, b, h), beta = a.beta(t, b, h);
    float* kept = a.dafter + a.within(t, b, h) * a.n * a.p + i;
    float du = 0;
    for (std::int64_t j = 0; j < a.n; ++j) {
      const float all = d[j * a.p] + out * a.q(t, b, g, j);
      kept[j * a.p] = all;
      du += all * a.k(t, b, g, j);
    }
    a.du[a.within(t, b, h) * a.p + i] = du;
    a.dxbc[a.value(t, b, h) + i] = from_f32<T>(beta * du);
    for (std::int64_t j = 0; j < a.n; ++j) d[j * a.p] = decay * (kept[j * a.p] - beta * du * a.k(t, b, g, j));
  }
}

// Of units of keys and queries, over the heads of a group and their columns.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_units(DeltaArguments<T> a) {
  const std::int64_t r = delta_thread(), j = r % a.n, g = r / a.n % a.groups, b = r / a.n / a.groups % a.batch,
                     t = a.from + r / a.n / a.groups / a.batch;
  if (t >= a.end()) return;
  float dk = 0, dq = 0;
  for (std::int64_t h = g * a.group; h < (g + 1) * a.group; ++h) {
    const std::int64_t at = a.within(t, b, h);
    const float decay = a.decay(t, b, h), beta = a.beta(t, b, h);
    const float *before = a.before(t, b, h) + j * a.p, *after = a.after + at * a.n * a.p + j * a.p,
                *dafter = a.dafter + at * a.n * a.p + j * a.p;
    for (std::int64_t i = 0; i < a.p; ++i) {
      dq += a.scale * to_f32(a.dy[a.out(t, b, h) + i]) * after[i];
      dk += beta * (dafter[i] * a.less[at * a.p + i] - a.du[at * a.p + i] * decay * before[i]);
    }
  }
  float* to = a.units + (((t - a.from) * a.batch + b) * a.groups + g) * 2 * a.n;
  to[j] = dk;
  to[a.n + j] = dq;
}

// From units to keys and queries: a thread for each of the two.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads) delta_keys(DeltaArguments<T> a) {
  const std::int64_t r = delta_thread(), which = r % 2, g = r / 2 % a.groups, b = r / 2 / a.groups % a.batch,
                     t = a.from + r / 2 / a.groups / a.batch;
  if (t >= a.end()) return;
  const float* d = a.units + ((((t - a.from) * a.batch + b) * a.groups + g) * 2 + which) * a.n;
  const float inverse = a.inverse[2 * a.row(t, b, g) + which];
  const T* from = a.xbc + a.key(t, b, g) + which * a.n;
  float along = 0;
  for (std::int64_t j = 0; j < a.n; ++j) along += d[j] * to_f32(from[j]) * inverse;
  for (std::int64_t j = 0; j < a.n; ++j)
    a.dxbc[a.key(t, b, g) + which * a.n + j] = from_f32<T>(inverse * (d[j] - along * to_f32(from[j]) * inverse));
}

// Of decays and betas: a warp for each position of a head.
template <class T>
__global__ void __launch_bounds__(kWarp) delta_gates(DeltaArguments<T> a) {
  const std::int64_t r = blockIdx.x, h = r % a.heads, b = r / a.heads % a.batch, t = a.from + r / a.heads / a.batch,
                     at = a.within(t, b, h);
  const float decay = a.decay(t, b, h), beta = a.beta(t, b, h), step = a.step(t, b, h);
  const float *before = a.before(t, b, h), *dafter = a.dafter + at * a.n * a.p;
  float through = 0, dbeta = 0, of_said = 0;
  for (std::int64_t e = threadIdx.x; e < a.n * a.p; e += kWarp) through += dafter[e] * before[e];
  for (std::int64_t i = threadIdx.x; i < a.p; i += kWarp) {
    const float du = a.du[at * a.p + i], less = a.less[at * a.p + i];
    dbeta += du * less;
    of_said += du * (to_f32(a.xbc[a.value(t, b, h) + i]) - less);
  }
  through = warp_reduce(through, Sum());
  dbeta = warp_reduce(dbeta, Sum());
  of_said = warp_reduce(of_said, Sum());
  if (threadIdx.x != 0) return;
  const float slope = -expf(to_f32(a.a_log[h])), of_log = decay * through - beta * of_said;
  const float d = of_log * slope / (1.0f + expf(-(to_f32(a.in[a.raw(t, b, h)]) + to_f32(a.dt_bias[h]))));
  a.din[a.raw(t, b, h)] = from_f32<T>(d);
  a.din[a.raw(t, b, h) + a.group] = from_f32<T>(dbeta * beta * (1.0f - beta / a.beta_scale));
  float* to = a.parts + ((t * a.batch + b) * a.heads + h) * 2;
  to[0] = of_log * slope * step;
  to[1] = d;
}

template <class G>
__global__ void __launch_bounds__(kDeltaThreads)
    add_delta_parts(const float* parts, std::int64_t rows, std::int64_t heads, G* da_log, G* ddt_bias) {
  const std::int64_t r = delta_thread();
  if (r >= heads * 2) return;
  float sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) sum += parts[row * heads * 2 + r];
  if (G* to = r % 2 == 0 ? da_log : ddt_bias) to[r / 2] = from_f32<G>(to_f32(to[r / 2]) + sum);
}

inline Launch delta_shape(std::int64_t threads) {
  Launch shape;
  shape.block_x = kDeltaThreads;
  shape.grid_x = static_cast<unsigned>((threads + kDeltaThreads - 1) / kDeltaThreads);
  return shape;
}

template <class T>
DeltaArguments<T> delta_arguments(const ops::ScanShape& s) {
  DeltaArguments<T> a{};
  a.xbc = pointer<T>(s.xbc), a.in = pointer<T>(s.in), a.a_log = pointer<T>(s.a_log), a.dt_bias = pointer<T>(s.dt_bias);
  a.seq = s.seq(), a.batch = s.batch(), a.groups = s.groups(), a.group = s.group(), a.heads = s.heads();
  a.p = s.head_dim, a.n = s.state_dim, a.chunk = s.chunk, a.chunks = s.chunks();
  a.channels = s.channels(), a.width = s.in.shape()[3], a.first = s.first;
  a.scale = 1.0f / std::sqrt(static_cast<float>(s.state_dim)), a.beta_scale = s.beta_scale;
  return a;
}

template <class Stream>
void enqueue(Stream& stream, const ops::DeltaScan& op) {
  if (op.shape.xbc.numel() == 0) return;
  with_float(op.name, op.shape.xbc.dtype(), [&](auto type) {
    using T = decltype(type);
    DeltaArguments<T> a = delta_arguments<T>(op.shape);
    a.states = pointer<float>(op.states), a.y = pointer<T>(op.y);
    const std::int64_t lengths = a.seq * a.batch * a.groups * 2, columns = a.batch * a.heads * a.p;
    auto* scratch =
        static_cast<float*>(stream.scratch(static_cast<std::size_t>(lengths + columns * a.n) * sizeof(float)));
    a.inverse = scratch, a.state = scratch + lengths;
    stream.launch(op.name, delta_shape(lengths), delta_lengths<T>, a);
    stream.launch(op.name, delta_shape(columns), delta_forward<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::DeltaScanGrad& op) {
  if (op.shape.xbc.numel() == 0) return;
  with_float(op.name, op.shape.xbc.dtype(), [&](auto type) {
    using T = decltype(type);
    DeltaArguments<T> a = delta_arguments<T>(op.shape);
    a.states = pointer<float>(op.states), a.dy = pointer<T>(op.dy), a.dxbc = pointer<T>(op.dxbc),
    a.din = pointer<T>(op.din);
    const std::int64_t length = a.chunk < a.seq ? a.chunk : a.seq, columns = a.batch * a.heads * a.p,
                       lengths = a.seq * a.batch * a.groups * 2, rows = a.seq * a.batch;
    const std::int64_t sizes[] = {lengths,
                                  rows * a.heads * 2,
                                  columns * a.n,
                                  length * columns * a.n,
                                  length * columns * a.n,
                                  length * columns,
                                  length * columns,
                                  length * a.batch * a.groups * 2 * a.n};
    float** parts[] = {&a.inverse, &a.parts, &a.state, &a.after, &a.dafter, &a.less, &a.du, &a.units};
    std::int64_t all = 0;
    for (const std::int64_t size : sizes) all += size;
    auto* scratch = static_cast<float*>(stream.scratch(static_cast<std::size_t>(all) * sizeof(float)));
    for (std::size_t i = 0; i < std::size(sizes); ++i) *parts[i] = scratch, scratch += sizes[i];
    stream.launch(op.name, delta_shape(lengths), delta_lengths<T>, a);
    for (std::int64_t c = a.chunks; c-- > 0;) {
      a.from = c * a.chunk;
      const std::int64_t positions = std::min(a.chunk, a.seq - a.from) * a.batch;
      stream.launch(op.name, delta_shape(columns), delta_replay<T>, a);
      stream.launch(op.name, delta_shape(columns), delta_back<T>, a);
      stream.launch(op.name, delta_shape(positions * a.groups * a.n), delta_units<T>, a);
      stream.launch(op.name, delta_shape(positions * a.groups * 2), delta_keys<T>, a);
      Launch warps;
      warps.block_x = kWarp;
      warps.grid_x = static_cast<unsigned>(positions * a.heads);
      stream.launch(op.name, warps, delta_gates<T>, a);
    }
    const Tensor& any = op.da_log ? op.da_log : op.ddt_bias;
    if (!any) return;
    with_float(op.name, any.dtype(), [&](auto gradient) {
      using G = decltype(gradient);
      stream.launch(op.name, delta_shape(a.heads * 2), add_delta_parts<G>, static_cast<const float*>(a.parts), rows,
                    a.heads, pointer<G>(op.da_log), pointer<G>(op.ddt_bias));
    });
  });
}

}  // namespace mbench::cuda
