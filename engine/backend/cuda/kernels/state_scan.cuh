// Mamba-2's scan by chunks. A block takes a position of a head: its scores with the other positions of the chunk lie in shared memory. A
// thread takes an element of a state. Sums have a fixed order.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/state_scan.h"

namespace mbench::cuda {

inline constexpr int kScanThreads = 128;

template <class T>
struct ScanArguments {
  const T *xbc, *in, *a_log, *dt_bias, *d, *dy;
  float *steps, *sums, *states, *dstates;
  float *dsums, *dsteps, *ends, *products;  // scratch, [batch, heads, seq]
  float* partial;                           // scratch, [batch * chunks, heads, 3]
  T *y, *dxbc, *din;
  std::int64_t seq, batch, groups, group, heads, p, n, chunk, chunks, channels, width, first;

  __device__ std::int64_t row(std::int64_t t, std::int64_t b, std::int64_t g) const {
    return (t * batch + b) * groups + g;
  }
  __device__ const T* group_row(std::int64_t t, std::int64_t b, std::int64_t g) const {
    return xbc + row(t, b, g) * channels;
  }
  __device__ const T* x(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return group_row(t, b, h / group) + h % group * p;
  }
  __device__ const T* bs(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return group_row(t, b, h / group) + group * p;
  }
  __device__ const T* cs(std::int64_t t, std::int64_t b, std::int64_t h) const { return bs(t, b, h) + n; }
  __device__ std::int64_t out(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return row(t, b, h / group) * group * p + h % group * p;
  }
  __device__ std::int64_t raw(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return row(t, b, h / group) * width + first + h % group;
  }
  __device__ std::int64_t step(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return (b * heads + h) * seq + t;
  }
  __device__ std::int64_t state(std::int64_t c, std::int64_t b, std::int64_t h) const {
    return ((c * batch + b) * heads + h) * n * p;
  }
  __device__ std::int64_t end(std::int64_t c) const { return (c + 1) * chunk < seq ? (c + 1) * chunk : seq; }
};

__device__ inline std::int64_t scan_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

template <class T>
__device__ inline float scan_dot(const T* a, const T* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += to_f32(a[i]) * to_f32(b[i]);
  return sum;
}

// dt and the sums of dt A: a thread takes a chunk of a head.
template <class T>
__global__ void __launch_bounds__(kScanThreads) scan_steps(ScanArguments<T> a) {
  const std::int64_t i = scan_thread();
  if (i >= a.batch * a.heads * a.chunks) return;
  const std::int64_t c = i % a.chunks, h = i / a.chunks % a.heads, b = i / a.chunks / a.heads;
  const float bias = to_f32(a.dt_bias[h]), slope = -expf(to_f32(a.a_log[h]));
  float sum = 0;
  for (std::int64_t t = c * a.chunk; t < a.end(c); ++t) {
    const float z = to_f32(a.in[a.raw(t, b, h)]) + bias, dt = z > 20.0f ? z : log1pf(expf(z));
    sum += dt * slope;
    a.steps[a.step(t, b, h)] = dt;
    a.sums[a.step(t, b, h)] = sum;
  }
}

// An element of what a chunk adds to a state: to the one where the next begins, or, of gradients, where the one before ends.
template <bool Back, class T>
__global__ void __launch_bounds__(kScanThreads) scan_chunk_states(ScanArguments<T> a) {
  const std::int64_t all = a.batch * a.heads * a.n * a.p, k = scan_thread();
  if (k >= all * (a.chunks - 1)) return;
  const std::int64_t c = k / all + (Back ? 1 : 0), i = k % a.p, j = k / a.p % a.n, h = k / a.p / a.n % a.heads,
                     b = k % all / (a.heads * a.n * a.p), last = a.end(c) - 1;
  const float end = a.sums[a.step(last, b, h)];
  float sum = 0;
  for (std::int64_t t = c * a.chunk; t <= last; ++t) {
    const float at = a.sums[a.step(t, b, h)];
    if (Back)
      sum += expf(at) * to_f32(a.cs(t, b, h)[j]) * to_f32(a.dy[a.out(t, b, h) + i]);
    else
      sum += expf(end - at) * a.steps[a.step(t, b, h)] * to_f32(a.bs(t, b, h)[j]) * to_f32(a.x(t, b, h)[i]);
  }
  (Back ? a.dstates : a.states)[a.state(Back ? c - 1 : c + 1, b, h) + j * a.p + i] = sum;
}

// From what chunks add to states, in the order of the sequence or against it.
template <bool Back, class T>
__global__ void __launch_bounds__(kScanThreads) scan_pass(ScanArguments<T> a) {
  const std::int64_t size = a.n * a.p, k = scan_thread();
  if (k >= a.batch * a.heads * size) return;
  const std::int64_t h = k / size % a.heads, b = k / size / a.heads, at = k % size;
  float* states = Back ? a.dstates : a.states;
  float state = 0;
  for (std::int64_t i = 0; i < a.chunks; ++i) {
    const std::int64_t c = Back ? a.chunks - 1 - i : i;
    if (i > 0) {
      const std::int64_t over = Back ? c + 1 : c - 1;  // the chunk that it was carried through
      state = expf(a.sums[a.step(a.end(over) - 1, b, h)]) * state + states[a.state(c, b, h) + at];
    }
    states[a.state(c, b, h) + at] = state;
  }
}

// The position and head that a block has; `in_group`: the position and group.
struct ScanPlace {
  std::int64_t t, b, h, c;
};
template <class T>
__device__ inline ScanPlace scan_place(const ScanArguments<T>& a, std::int64_t heads) {
  const std::int64_t i = blockIdx.x, t = i / (a.batch * heads);
  return {t, i / heads % a.batch, i % heads, t / a.chunk};
}

template <class T>
__global__ void __launch_bounds__(kScanThreads) scan_outputs(ScanArguments<T> a) {
  auto m = dynamic_shared<float>();
  const auto [t, b, h, c] = scan_place(a, a.heads);
  const std::int64_t begin = c * a.chunk;
  const float sum = a.sums[a.step(t, b, h)];
  for (std::int64_t s = begin + threadIdx.x; s <= t; s += blockDim.x)
    m[s - begin] =
        scan_dot(a.cs(t, b, h), a.bs(s, b, h), a.n) * expf(sum - a.sums[a.step(s, b, h)]) * a.steps[a.step(s, b, h)];
  __syncthreads();
  const float *state = a.states + a.state(c, b, h), grown = expf(sum), d = to_f32(a.d[h]);
  for (std::int64_t i = threadIdx.x; i < a.p; i += blockDim.x) {
    float y = d * to_f32(a.x(t, b, h)[i]), before = 0;
    for (std::int64_t s = begin; s <= t; ++s) y += m[s - begin] * to_f32(a.x(s, b, h)[i]);
    for (std::int64_t j = 0; j < a.n; ++j) before += to_f32(a.cs(t, b, h)[j]) * state[j * a.p + i];
    a.y[a.out(t, b, h) + i] = from_f32<T>(y + grown * before);
  }
}

// dy(t) . x(s) and C(t) . B(s), with the decay between the two.
struct ScanPair {
  float w, score, decay;
};
template <class T>
__device__ inline ScanPair scan_pair(const ScanArguments<T>& a, std::int64_t t, std::int64_t s, std::int64_t b,
                                     std::int64_t h) {
  return {scan_dot(a.dy + a.out(t, b, h), a.x(s, b, h), a.p), scan_dot(a.cs(t, b, h), a.bs(s, b, h), a.n),
          expf(a.sums[a.step(t, b, h)] - a.sums[a.step(s, b, h)])};
}

// Of a position as the one that reads: what its sum's gradient is.
template <class T>
__global__ void __launch_bounds__(kScanThreads) scan_readers(ScanArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const auto [t, b, h, c] = scan_place(a, a.heads);
  const std::int64_t at = a.step(t, b, h);
  float sum = 0, product = 0, inner = 0;
  for (std::int64_t s = c * a.chunk + threadIdx.x; s <= t; s += blockDim.x) {
    const ScanPair pair = scan_pair(a, t, s, b, h);
    sum += pair.w * pair.score * pair.decay * a.steps[a.step(s, b, h)];
  }
  const float* state = a.states + a.state(c, b, h);
  for (std::int64_t k = threadIdx.x; k < a.n * a.p; k += blockDim.x)
    inner += to_f32(a.cs(t, b, h)[k / a.p]) * to_f32(a.dy[a.out(t, b, h) + k % a.p]) * state[k];
  for (std::int64_t i = threadIdx.x; i < a.p; i += blockDim.x)
    product += to_f32(a.dy[a.out(t, b, h) + i]) * to_f32(a.x(t, b, h)[i]);
  sum = row_reduce(sum + expf(a.sums[at]) * inner, 0.0f, parts, Sum());
  product = row_reduce(product, 0.0f, parts, Sum());
  if (threadIdx.x != 0) return;
  a.dsums[at] = sum;
  a.products[at] = product;
}

// Of a position as the one that is read: dx, and what its step's gradient is.
template <class T>
__global__ void __launch_bounds__(kScanThreads) scan_sources(ScanArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  auto m = dynamic_shared<float>();
  const auto [s, b, h, c] = scan_place(a, a.heads);
  const std::int64_t at = a.step(s, b, h), end = a.end(c);
  const float dt = a.steps[at], decay = expf(a.sums[a.step(end - 1, b, h)] - a.sums[at]), d = to_f32(a.d[h]);
  float within = 0, beyond = 0;
  for (std::int64_t t = s + threadIdx.x; t < end; t += blockDim.x) {
    const ScanPair pair = scan_pair(a, t, s, b, h);
    within += pair.w * pair.score * pair.decay;
    m[t - s] = pair.score * pair.decay * dt;
  }
  __syncthreads();
  const float* dstate = a.dstates + a.state(c, b, h);
  for (std::int64_t i = threadIdx.x; i < a.p; i += blockDim.x) {
    float dx = 0, later = 0;
    for (std::int64_t t = s; t < end; ++t) dx += m[t - s] * to_f32(a.dy[a.out(t, b, h) + i]);
    for (std::int64_t j = 0; j < a.n; ++j) later += to_f32(a.bs(s, b, h)[j]) * dstate[j * a.p + i];
    beyond += decay * later * to_f32(a.x(s, b, h)[i]);
    a.dxbc[a.row(s, b, h / a.group) * a.channels + h % a.group * a.p + i] =
        from_f32<T>(dx + dt * decay * later + d * to_f32(a.dy[a.out(s, b, h) + i]));
  }
  within = row_reduce(within, 0.0f, parts, Sum());
  beyond = row_reduce(beyond, 0.0f, parts, Sum());
  if (threadIdx.x != 0) return;
  a.dsteps[at] = within + beyond;
  a.dsums[at] -= dt * (within + beyond);
  a.ends[at] = dt * beyond;
}

// dC of a position, or dB: sums over the group's heads, in shared memory behind the weights of the other positions.
template <bool OfB, class T>
__global__ void __launch_bounds__(kScanThreads) scan_group_back(ScanArguments<T> a) {
  auto weights = dynamic_shared<float>();
  const std::int64_t sums = a.chunk < a.seq ? a.chunk : a.seq;  // where the sums begin
  const auto [at, b, g, c] = scan_place(a, a.groups);
  const std::int64_t begin = OfB ? at : c * a.chunk, end = OfB ? a.end(c) : at + 1;
  for (std::int64_t j = threadIdx.x; j < a.n; j += blockDim.x) weights[sums + j] = 0;
  for (std::int64_t h = g * a.group; h < (g + 1) * a.group; ++h) {
    __syncthreads();
    for (std::int64_t o = begin + threadIdx.x; o < end; o += blockDim.x) {
      const std::int64_t t = OfB ? o : at, s = OfB ? at : o;
      weights[o - begin] = scan_dot(a.dy + a.out(t, b, h), a.x(s, b, h), a.p) *
                           expf(a.sums[a.step(t, b, h)] - a.sums[a.step(s, b, h)]) * a.steps[a.step(s, b, h)];
    }
    __syncthreads();
    const float sum = a.sums[a.step(at, b, h)];
    const float factor = OfB ? expf(a.sums[a.step(a.end(c) - 1, b, h)] - sum) * a.steps[a.step(at, b, h)] : expf(sum);
    const float* state = (OfB ? a.dstates : a.states) + a.state(c, b, h);
    const T* row = OfB ? a.x(at, b, h) : a.dy + a.out(at, b, h);
    for (std::int64_t j = threadIdx.x; j < a.n; j += blockDim.x) {
      float within = 0, beyond = 0;
      for (std::int64_t o = begin; o < end; ++o)
        within += weights[o - begin] * to_f32(OfB ? a.cs(o, b, h)[j] : a.bs(o, b, h)[j]);
      for (std::int64_t i = 0; i < a.p; ++i) beyond += to_f32(row[i]) * state[j * a.p + i];
      weights[sums + j] += within + factor * beyond;
    }
  }
  T* to = a.dxbc + a.row(at, b, g) * a.channels + a.group * a.p + (OfB ? 0 : a.n);
  for (std::int64_t j = threadIdx.x; j < a.n; j += blockDim.x) to[j] = from_f32<T>(weights[sums + j]);
}

// The raw steps' gradients: a warp takes a chunk of a head, and its first lane walks back.
template <class T>
__global__ void __launch_bounds__(kWarp) scan_finish(ScanArguments<T> a) {
  const std::int64_t k = blockIdx.x, c = k % a.chunks, h = k / a.chunks % a.heads, b = k / a.chunks / a.heads;
  const std::int64_t begin = c * a.chunk, end = a.end(c);
  const float *state = a.states + a.state(c, b, h), *dstate = a.dstates + a.state(c, b, h);
  float product = 0, ends = 0;
  for (std::int64_t i = threadIdx.x; i < a.n * a.p; i += kWarp) product += state[i] * dstate[i];
  for (std::int64_t t = begin + threadIdx.x; t < end; t += kWarp) ends += a.ends[a.step(t, b, h)];
  ends = warp_reduce(ends, Sum()) + expf(a.sums[a.step(end - 1, b, h)]) * warp_reduce(product, Sum());
  if (threadIdx.x != 0) return;
  const float slope = -expf(to_f32(a.a_log[h])), bias = to_f32(a.dt_bias[h]);
  float later = ends, da = 0, dbias = 0, dd = 0;
  for (std::int64_t t = end; t-- > begin;) {
    const std::int64_t at = a.step(t, b, h);
    later += a.dsums[at];
    da += later * a.steps[at];
    dd += a.products[at];
    const float d = (a.dsteps[at] + later * slope) / (1.0f + expf(-(to_f32(a.in[a.raw(t, b, h)]) + bias)));
    dbias += d;
    a.din[a.raw(t, b, h)] = from_f32<T>(d);
  }
  float* to = a.partial + ((b * a.chunks + c) * a.heads + h) * 3;
  to[0] = da * slope;
  to[1] = dbias;
  to[2] = dd;
}

// Of vectors of heads; null where one is frozen.
template <class G>
struct HeadSums {
  G* to[3];
};
template <class G>
__global__ void __launch_bounds__(kScanThreads)
    add_head_sums(const float* partial, std::int64_t parts, std::int64_t heads, HeadSums<G> sums) {
  const std::int64_t i = scan_thread();
  if (i >= heads * 3) return;
  float sum = 0;
  for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * heads * 3 + i];
  if (G* to = sums.to[i % 3]) to[i / 3] = from_f32<G>(to_f32(to[i / 3]) + sum);
}

inline Launch scan_shape(std::int64_t threads) {
  Launch shape;
  shape.block_x = kScanThreads;
  shape.grid_x = static_cast<unsigned>((threads + kScanThreads - 1) / kScanThreads);
  return shape;
}

template <class T>
ScanArguments<T> scan_arguments(const ops::ScanShape& s) {
  ScanArguments<T> a{};
  a.xbc = pointer<T>(s.xbc), a.in = pointer<T>(s.in);
  a.a_log = pointer<T>(s.a_log), a.dt_bias = pointer<T>(s.dt_bias), a.d = pointer<T>(s.d);
  a.seq = s.seq(), a.batch = s.batch(), a.groups = s.groups(), a.group = s.group(), a.heads = s.heads();
  a.p = s.head_dim, a.n = s.state_dim, a.chunk = s.chunk, a.chunks = s.chunks();
  a.channels = s.channels(), a.width = s.in.shape()[3], a.first = s.first;
  return a;
}

// A block for each position of each head, or group, with room for a chunk's weights.
template <class T>
Launch position_shape(const ScanArguments<T>& a, std::int64_t heads, std::int64_t more) {
  Launch shape;
  shape.block_x = kScanThreads;
  shape.grid_x = static_cast<unsigned>(a.seq * a.batch * heads);
  shape.shared = static_cast<std::size_t>(std::min(a.chunk, a.seq) + more) * sizeof(float);
  return shape;
}

template <class Stream>
void enqueue(Stream& stream, const ops::StateScan& op) {
  if (op.shape.xbc.numel() == 0) return;
  with_float(op.name, op.shape.xbc.dtype(), [&](auto type) {
    using T = decltype(type);
    ScanArguments<T> a = scan_arguments<T>(op.shape);
    a.steps = pointer<float>(op.steps), a.sums = pointer<float>(op.sums), a.states = pointer<float>(op.states);
    a.y = pointer<T>(op.y);
    const std::int64_t elements = a.batch * a.heads * a.n * a.p;
    stream.launch(op.name, scan_shape(a.batch * a.heads * a.chunks), scan_steps<T>, a);
    if (a.chunks > 1) stream.launch(op.name, scan_shape(elements * (a.chunks - 1)), scan_chunk_states<false, T>, a);
    stream.launch(op.name, scan_shape(elements), scan_pass<false, T>, a);
    if (op.y) stream.launch(op.name, position_shape(a, a.heads, 0), scan_outputs<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::StateScanGrad& op) {
  if (op.shape.xbc.numel() == 0) return;
  with_float(op.name, op.shape.xbc.dtype(), [&](auto type) {
    using T = decltype(type);
    ScanArguments<T> a = scan_arguments<T>(op.shape);
    a.dy = pointer<T>(op.dy);
    a.steps = pointer<float>(op.steps), a.sums = pointer<float>(op.sums);
    a.states = pointer<float>(op.states), a.dstates = pointer<float>(op.dstates);
    a.dxbc = pointer<T>(op.dxbc), a.din = pointer<T>(op.din);
    const std::int64_t positions = a.batch * a.heads * a.seq, parts = a.batch * a.chunks,
                       elements = a.batch * a.heads * a.n * a.p;
    auto* scratch = static_cast<float*>(
        stream.scratch(static_cast<std::size_t>(4 * positions + parts * a.heads * 3) * sizeof(float)));
    a.dsums = scratch, a.dsteps = scratch + positions, a.ends = scratch + 2 * positions;
    a.products = scratch + 3 * positions, a.partial = scratch + 4 * positions;
    if (a.chunks > 1) stream.launch(op.name, scan_shape(elements * (a.chunks - 1)), scan_chunk_states<true, T>, a);
    stream.launch(op.name, scan_shape(elements), scan_pass<true, T>, a);
    stream.launch(op.name, position_shape(a, a.heads, 0), scan_readers<T>, a);
    stream.launch(op.name, position_shape(a, a.heads, 0), scan_sources<T>, a);
    stream.launch(op.name, position_shape(a, a.groups, a.n), scan_group_back<false, T>, a);
    stream.launch(op.name, position_shape(a, a.groups, a.n), scan_group_back<true, T>, a);
    Launch warps;
    warps.block_x = kWarp;
    warps.grid_x = static_cast<unsigned>(parts * a.heads);
    stream.launch(op.name, warps, scan_finish<T>, a);
    const Tensor* vectors[] = {&op.da_log, &op.ddt_bias, &op.dd};
    for (const Tensor* any : vectors) {
      if (!*any) continue;
      with_float(op.name, any->dtype(), [&](auto gradient) {
        using G = decltype(gradient);
        HeadSums<G> sums{};
        for (int i = 0; i < 3; ++i) sums.to[i] = pointer<G>(*vectors[i]);
        stream.launch(op.name, scan_shape(a.heads * 3), add_head_sums<G>, a.partial, parts, a.heads, sums);
      });
      break;
    }
  });
}

}  // namespace mbench::cuda
