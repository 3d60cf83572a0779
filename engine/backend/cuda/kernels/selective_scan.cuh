// The first Mamba's scan by chunks. A thread takes a channel of a chunk, and walks along the chunk's positions once for each element of its
// state. Between chunks another kernel hands the states on. Sums have a fixed order: over channels first within a block, then block by block.
// What blocks leave to be summed is bounded: gradients take some chunks at a time, one launch after the other.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/selective_scan.h"

namespace mbench::cuda {

inline constexpr int kSelectiveThreads = 128, kSelectiveWarps = kSelectiveThreads / kWarp;
inline constexpr std::int64_t kSelectiveBlocks = 2048;  // of a launch of gradients, at most
inline constexpr int kSelectivePositions = static_cast<int>(ops::kMostSelectiveChunk);

template <class T>
struct SelectiveArguments {
  const T *x, *in, *raw, *bc, *a_log, *dt_bias, *d, *dy;
  float *states, *dstates;
  T *y, *dx, *din, *dsteps, *dbc;
  float* sums;                    // scratch, [chunks, batch, channels]: of a chunk's steps
  float *of_bc, *of_a, *of_rest;  // scratch: [blocks, slots, chunk, 2 n], [slots, channels * n], [slots, 2, channels]
  std::int64_t seq, batch, groups, group_width, channels, n, chunk, chunks, width, columns, first, blocks;
  // Of a launch: its first part, which is a chunk of a sample, and how many parts have slots of scratch.
  std::int64_t first_part, slots;

  __device__ std::int64_t row(std::int64_t t, std::int64_t b) const { return t * batch + b; }
  __device__ std::int64_t at(std::int64_t t, std::int64_t b, std::int64_t c) const { return row(t, b) * channels + c; }
  __device__ std::int64_t gate(std::int64_t t, std::int64_t b, std::int64_t c) const {
    return (row(t, b) * groups + c / group_width) * width + c % group_width;
  }
  __device__ const T* bs(std::int64_t t, std::int64_t b) const { return bc + row(t, b) * columns + first; }
  __device__ std::int64_t state(std::int64_t k, std::int64_t b, std::int64_t c) const {
    return ((k * batch + b) * channels + c) * n;
  }
  __device__ std::int64_t end(std::int64_t k) const { return (k + 1) * chunk < seq ? (k + 1) * chunk : seq; }
  __device__ float slope(std::int64_t c, std::int64_t j) const { return -expf(to_f32(a_log[c * n + j])); }
  __device__ float step(std::int64_t t, std::int64_t b, std::int64_t c) const {
    const float z = to_f32(raw[at(t, b, c)]) + to_f32(dt_bias[c]);
    return z > 20.0f ? z : log1pf(expf(z));
  }
  // The gradient of the output before its gate.
  __device__ float before_gate(std::int64_t t, std::int64_t b, std::int64_t c) const {
    const float z = to_f32(in[gate(t, b, c)]);
    return to_f32(dy[at(t, b, c)]) * z / (1.0f + expf(-z));
  }
};

// The channel, chunk and sample of a thread.
struct SelectivePlace {
  std::int64_t chunk, b, block, channel, slot;
};
template <class T>
__device__ inline SelectivePlace selective_place(const SelectiveArguments<T>& a) {
  const std::int64_t i = blockIdx.x, block = i % a.blocks, slot = i / a.blocks, part = a.first_part + slot;
  return {part / a.batch, part % a.batch, block, block * kSelectiveThreads + threadIdx.x, slot};
}

// What a chunk adds to a channel's state where the next one begins, or, of gradients, where the one before ends.
template <bool Back, class T>
__global__ void __launch_bounds__(kSelectiveThreads) selective_chunk_states(SelectiveArguments<T> a) {
  const auto [k, b, block, c, slot] = selective_place(a);
  if (c >= a.channels) return;
  const std::int64_t begin = k * a.chunk, length = a.end(k) - begin;
  float dt[kSelectivePositions], u[kSelectivePositions], sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    dt[i] = a.step(begin + i, b, c);
    u[i] = Back ? a.before_gate(begin + i, b, c) : dt[i] * to_f32(a.x[a.at(begin + i, b, c)]);
    sum += dt[i];
  }
  a.sums[(k * a.batch + b) * a.channels + c] = sum;
  if (Back ? k == 0 : k + 1 == a.chunks) return;
  float* to = (Back ? a.dstates : a.states) + a.state(Back ? k - 1 : k + 1, b, c);
  for (std::int64_t j = 0; j < a.n; ++j) {
    const float slope = a.slope(c, j);
    float h = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t at = Back ? length - 1 - i : i;
      const float decay = expf(dt[at] * slope), added = u[at] * to_f32(a.bs(begin + at, b)[Back ? a.n + j : j]);
      h = Back ? decay * (h + added) : decay * h + added;
    }
    to[j] = h;
  }
}

// From what chunks add to states, in the order of the sequence or against it. A thread takes an element of a state.
template <bool Back, class T>
__global__ void __launch_bounds__(kFlatThreads) selective_pass(SelectiveArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.batch * a.channels * a.n) return;
  const std::int64_t j = i % a.n, c = i / a.n % a.channels, b = i / a.n / a.channels;
  const float slope = a.slope(c, j);
  float* states = Back ? a.dstates : a.states;
  float state = 0;
  for (std::int64_t order = 0; order < a.chunks; ++order) {
    const std::int64_t k = Back ? a.chunks - 1 - order : order;
    if (order > 0) {
      const std::int64_t over = Back ? k + 1 : k - 1;  // the chunk that it was carried through
      state = expf(a.sums[(over * a.batch + b) * a.channels + c] * slope) * state + states[a.state(k, b, c) + j];
    }
    states[a.state(k, b, c) + j] = state;
  }
}

template <class T>
__global__ void __launch_bounds__(kSelectiveThreads) selective_outputs(SelectiveArguments<T> a) {
  const auto [k, b, block, c, slot] = selective_place(a);
  if (c >= a.channels) return;
  const std::int64_t begin = k * a.chunk, length = a.end(k) - begin;
  float dt[kSelectivePositions], u[kSelectivePositions], out[kSelectivePositions];
  for (std::int64_t i = 0; i < length; ++i) {
    const float x = to_f32(a.x[a.at(begin + i, b, c)]);
    dt[i] = a.step(begin + i, b, c), u[i] = dt[i] * x, out[i] = to_f32(a.d[c]) * x;
  }
  for (std::int64_t j = 0; j < a.n; ++j) {
    const float slope = a.slope(c, j);
    float h = a.states[a.state(k, b, c) + j];
    for (std::int64_t i = 0; i < length; ++i) {
      const T* bs = a.bs(begin + i, b);
      h = expf(dt[i] * slope) * h + u[i] * to_f32(bs[j]);
      out[i] += to_f32(bs[a.n + j]) * h;
    }
  }
  for (std::int64_t i = 0; i < length; ++i) {
    const float z = to_f32(a.in[a.gate(begin + i, b, c)]);
    a.y[a.at(begin + i, b, c)] = from_f32<T>(out[i] * z / (1.0f + expf(-z)));
  }
}

// What a thread keeps of each position of its chunk.
struct SelectiveKept {
  float dt[kSelectivePositions], x[kSelectivePositions], g[kSelectivePositions], out[kSelectivePositions],
      ddt[kSelectivePositions], of_x[kSelectivePositions];
};

// The gradients of one channel's gate, input and step, and its sums of those of D and the steps' bias.
template <class T>
__device__ inline Pair selective_channel_gradients(const SelectiveArguments<T>& a, const SelectiveKept& kept,
                                                   std::int64_t begin, std::int64_t length, std::int64_t b,
                                                   std::int64_t c) {
  const float d = to_f32(a.d[c]);
  Pair sums{0, 0};
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t at = a.at(begin + i, b, c), gate = a.gate(begin + i, b, c);
    const float z = to_f32(a.in[gate]), open = 1.0f / (1.0f + expf(-z)), dt = kept.dt[i];
    a.din[gate] = from_f32<T>(to_f32(a.dy[at]) * (kept.out[i] + d * kept.x[i]) * open * (1.0f + z * (1.0f - open)));
    a.dx[at] = from_f32<T>(kept.g[i] * d + dt * kept.of_x[i]);
    const float dstep = -kept.ddt[i] * expm1f(-dt);  // softplus' slope by its value: 1 - e^-dt
    a.dsteps[at] = from_f32<T>(dstep);
    sums.a += kept.g[i] * kept.x[i];
    sums.b += dstep;
  }
  return sums;
}

template <class T>
__global__ void __launch_bounds__(kSelectiveThreads) selective_gradients(SelectiveArguments<T> a) {
  __shared__ SharedArray<Pair, kSelectiveWarps * kSelectivePositions> parts;
  const auto [k, b, block, c, slot] = selective_place(a);
  const bool own = c < a.channels;
  const std::int64_t begin = k * a.chunk, length = a.end(k) - begin;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  SelectiveKept kept;
  for (std::int64_t i = 0; i < length; ++i) {
    kept.dt[i] = own ? a.step(begin + i, b, c) : 0;
    kept.x[i] = own ? to_f32(a.x[a.at(begin + i, b, c)]) : 0;
    kept.g[i] = own ? a.before_gate(begin + i, b, c) : 0;
    kept.out[i] = kept.ddt[i] = kept.of_x[i] = 0;
  }
  float h[kSelectivePositions + 1];
  for (std::int64_t j = 0; j < a.n; ++j) {
    const float slope = own ? a.slope(c, j) : 0;
    h[0] = own ? a.states[a.state(k, b, c) + j] : 0;
    for (std::int64_t i = 0; i < length; ++i)
      h[i + 1] = expf(kept.dt[i] * slope) * h[i] + kept.dt[i] * kept.x[i] * to_f32(a.bs(begin + i, b)[j]);
    float later = own ? a.dstates[a.state(k, b, c) + j] : 0, da = 0;
    for (std::int64_t i = length - 1; i >= 0; --i) {
      const T* bs = a.bs(begin + i, b);
      const float bt = to_f32(bs[j]), ct = to_f32(bs[a.n + j]), decay = expf(kept.dt[i] * slope);
      const float dh = kept.g[i] * ct + later, before = decay * h[i];
      const Pair both = warp_reduce(Pair{dh * kept.dt[i] * kept.x[i], kept.g[i] * h[i + 1]}, Sum());
      if (lane == 0) parts[warp * kSelectivePositions + static_cast<int>(i)] = both;
      kept.out[i] += ct * h[i + 1];
      kept.of_x[i] += dh * bt;
      kept.ddt[i] += dh * (slope * before + bt * kept.x[i]);
      da += dh * kept.dt[i] * before;
      later = decay * dh;
    }
    if (own) {
      float* to = a.of_a + (slot * a.channels + c) * a.n + j;
      *to = (a.first_part > 0 ? *to : 0.0f) + da * slope;
    }
    __syncthreads();
    if (static_cast<std::int64_t>(threadIdx.x) < length) {
      Pair sum{0, 0};
      for (int w = 0; w < kSelectiveWarps; ++w)
        sum = Sum()(sum, parts[w * kSelectivePositions + static_cast<int>(threadIdx.x)]);
      float* to = a.of_bc + ((block * a.slots + slot) * a.chunk + threadIdx.x) * 2 * a.n;
      to[j] = sum.a, to[a.n + j] = sum.b;
    }
    __syncthreads();
  }
  if (!own) return;
  const Pair sums = selective_channel_gradients(a, kept, begin, length, b, c);
  float* rest = a.of_rest + slot * 2 * a.channels + c;
  rest[0] = (a.first_part > 0 ? rest[0] : 0.0f) + sums.a;
  rest[a.channels] = (a.first_part > 0 ? rest[a.channels] : 0.0f) + sums.b;
}

// The gradients of B and C: what blocks of channels have, one after the other.
template <class T>
__global__ void __launch_bounds__(kFlatThreads) selective_add_blocks(SelectiveArguments<T> a, std::int64_t parts) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, n = 2 * a.n;
  const std::int64_t part = a.first_part + i / n / a.chunk, t = part / a.batch * a.chunk + i / n % a.chunk;
  if (i >= parts * a.chunk * n || t >= a.seq) return;
  float sum = 0;
  for (std::int64_t block = 0; block < a.blocks; ++block) sum += a.of_bc[block * a.slots * a.chunk * n + i];
  a.dbc[a.row(t, part % a.batch) * a.columns + a.first + i % n] = from_f32<T>(sum);
}

template <class T>
SelectiveArguments<T> selective_arguments(const ops::SelectiveShape& s, const Tensor& states) {
  SelectiveArguments<T> a{};
  a.x = pointer<T>(s.x), a.in = pointer<T>(s.in), a.raw = pointer<T>(s.steps), a.bc = pointer<T>(s.bc);
  a.a_log = pointer<T>(s.a_log), a.dt_bias = pointer<T>(s.dt_bias), a.d = pointer<T>(s.d);
  a.states = pointer<float>(states);
  a.seq = s.seq(), a.batch = s.batch(), a.groups = s.groups(), a.group_width = s.group_width();
  a.channels = s.channels(), a.n = s.state_dim, a.chunk = s.chunk, a.chunks = s.chunks();
  a.width = s.in.shape()[3], a.columns = s.bc.shape()[2], a.first = s.first;
  a.blocks = (a.channels + kSelectiveThreads - 1) / kSelectiveThreads;
  return a;
}

inline Launch selective_threads(std::int64_t blocks, int threads) {
  Launch shape;
  shape.block_x = static_cast<unsigned>(threads);
  shape.grid_x = static_cast<unsigned>(blocks);
  return shape;
}
inline Launch selective_flat(std::int64_t n) {
  return selective_threads((n + kFlatThreads - 1) / kFlatThreads, kFlatThreads);
}

template <class Stream>
void enqueue(Stream& stream, const ops::SelectiveScan& op) {
  const ops::SelectiveShape& s = op.shape;
  if (s.x.numel() == 0) return;
  with_float(op.name, s.x.dtype(), [&](auto type) {
    using T = decltype(type);
    SelectiveArguments<T> a = selective_arguments<T>(s, op.states);
    a.y = pointer<T>(op.y);
    a.sums =
        static_cast<float*>(stream.scratch(static_cast<std::size_t>(a.chunks * a.batch * a.channels) * sizeof(float)));
    const Launch chunks = selective_threads(a.chunks * a.batch * a.blocks, kSelectiveThreads);
    stream.launch(op.name, chunks, selective_chunk_states<false, T>, a);
    stream.launch(op.name, selective_flat(a.batch * a.channels * a.n), selective_pass<false, T>, a);
    if (op.y) stream.launch(op.name, chunks, selective_outputs<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::SelectiveScanGrad& op) {
  const ops::SelectiveShape& s = op.shape;
  if (s.x.numel() == 0) return;
  with_float(op.name, s.x.dtype(), [&](auto type) {
    using T = decltype(type);
    SelectiveArguments<T> a = selective_arguments<T>(s, op.states);
    a.dy = pointer<T>(op.dy), a.dx = pointer<T>(op.dx), a.din = pointer<T>(op.din);
    a.dsteps = pointer<T>(op.dsteps), a.dbc = pointer<T>(op.dbc);
    a.dstates = pointer<float>(op.dstates);
    const std::int64_t parts = a.chunks * a.batch, states = a.channels * a.n, sums = parts * a.channels;
    const std::int64_t rest = 2 * a.channels, of_bc = a.blocks * a.chunk * 2 * a.n;
    a.slots = std::clamp<std::int64_t>(kSelectiveBlocks / a.blocks, 1, parts);
    a.sums = static_cast<float*>(
        stream.scratch(static_cast<std::size_t>(sums + a.slots * (rest + of_bc + states)) * sizeof(float)));
    a.of_rest = a.sums + sums, a.of_bc = a.of_rest + a.slots * rest, a.of_a = a.of_bc + a.slots * of_bc;
    const Launch chunks = selective_threads(parts * a.blocks, kSelectiveThreads);
    stream.launch(op.name, chunks, selective_chunk_states<true, T>, a);
    stream.launch(op.name, selective_flat(a.batch * states), selective_pass<true, T>, a);
    for (; a.first_part < parts; a.first_part += a.slots) {
      const std::int64_t some = std::min(a.slots, parts - a.first_part);
      stream.launch(op.name, selective_threads(some * a.blocks, kSelectiveThreads), selective_gradients<T>, a);
      stream.launch(op.name, selective_flat(some * a.chunk * 2 * a.n), selective_add_blocks<T>, a, some);
    }
    const auto add = [&](const float* from, std::int64_t stride, std::int64_t cols, const Tensor& to) {
      if (!to) return;
      with_float(op.name, to.dtype(), [&](auto sum_type) {
        using S = decltype(sum_type);
        stream.launch(op.name, add_chunks_shape(cols, false), add_chunks<S, S>, from, a.slots, stride, cols,
                      pointer<S>(to), static_cast<S*>(nullptr));
      });
    };
    add(a.of_a, states, states, op.da_log);
    add(a.of_rest, rest, a.channels, op.dd);
    add(a.of_rest + a.channels, rest, a.channels, op.ddt_bias);
  });
}

}  // namespace mbench::cuda
