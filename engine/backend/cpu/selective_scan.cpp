#include "engine/ops/selective_scan.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/scan_chunk.h"

namespace mbench::cpu {
namespace {

constexpr std::int64_t kBlock = 64;                    // channels that are scanned together, of one group
constexpr int kTogether = kVector == 16 ? 4 : 2;       // vectors of channels whose states a loop advances
constexpr std::int64_t kStripe = kTogether * kVector;  // channels; a block's states are [stripes, state_dim, kStripe]
constexpr float kLn2 = 0.693147181f;

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

// One block's inputs, as floats and zeros behind its channels. The weights are read once.
template <class T>
struct Inputs {
  Inputs(const ops::SelectiveShape& s, const Block& block, float* scratch) : s(s), block(block), a(scratch) {
    const std::int64_t n = s.state_dim;
    std::fill(a, a + n * kBlock, 0.0f);
    for (std::int64_t c = 0; c < block.count; ++c) {
      float logs[ops::kMostSelectiveStates];
      to_floats(static_cast<const T*>(s.a_log.as<T>()) + (block.channel + c) * n, logs, n);
      for (std::int64_t j = 0; j < n; ++j) a[place_of(c, j, n)] = -kLog2e * std::exp(logs[j]);
    }
    to_floats(static_cast<const T*>(s.dt_bias.as<T>()) + block.channel, bias, block.count);
    to_floats(static_cast<const T*>(s.d.as<T>()) + block.channel, d, block.count);
  }
  std::int64_t row(std::int64_t t, std::int64_t b) const { return t * s.batch() + b; }
  std::int64_t place(std::int64_t t, std::int64_t b) const { return row(t, b) * s.channels() + block.channel; }
  std::int64_t gates(std::int64_t t, std::int64_t b) const {
    return (row(t, b) * s.groups() + block.group) * s.in.shape()[3] + block.at;
  }
  // How many positions before their turn rows are fetched. In a cache a row is where rows of the other tensors are: more push each other out.
  static constexpr std::int64_t kAhead = 2;
  // B, and C behind it.
  void read_columns(std::int64_t t, std::int64_t b) {
    const T* columns = static_cast<const T*>(s.bc.as<T>()) + row(t, b) * s.bc.shape()[2] + s.first;
    bs = load(columns, bc_buffer, 2 * s.state_dim);
  }
  // `end`: of the positions that will be read.
  void read(std::int64_t t, std::int64_t b, std::int64_t end) {
    const std::int64_t later = std::min(t + kAhead, end - 1);
    prefetch(s.x.as<T>() + place(later, b), block.count);
    prefetch(s.steps.as<T>() + place(later, b), block.count);
    prefetch(s.in.as<T>() + gates(later, b), block.count);
    read_columns(t, b);
    to_floats(static_cast<const T*>(s.x.as<T>()) + place(t, b), x, block.count);
    to_floats(static_cast<const T*>(s.steps.as<T>()) + place(t, b), raw, block.count);
    to_floats(static_cast<const T*>(s.in.as<T>()) + gates(t, b), z, block.count);
  }
  // Where a state's element j of channel c lies.
  static std::int64_t place_of(std::int64_t c, std::int64_t j, std::int64_t n) {
    return (c / kStripe * n + j) * kStripe + c % kStripe;
  }
  const ops::SelectiveShape& s;
  Block block;
  float* a;  // like a state: A / ln 2, for powers of two
  const float* bs;
  float bias[kBlock] = {}, d[kBlock] = {}, x[kBlock] = {}, raw[kBlock] = {}, z[kBlock] = {};
  float bc_buffer[2 * ops::kMostSelectiveStates];
};

// f(first channel, where its stripe's states begin) for each of a block's stripes of channels.
template <class F>
void for_stripes(const Block& block, std::int64_t n, F&& f) {
  for (std::int64_t c = 0; c < block.count; c += kStripe) f(c, c * n);
}

// A block's states where a chunk begins, as stripes, and as the op keeps them.
float* states_at(const Tensor& states, const ops::SelectiveShape& s, std::int64_t chunk, std::int64_t b,
                 std::int64_t channel) {
  return states.as<float>() + ((chunk * s.batch() + b) * s.channels() + channel) * s.state_dim;
}
void keep(const float* h, const Block& block, std::int64_t n, float* to) {
  for_stripes(block, n, [&](std::int64_t c, std::int64_t at) {
    turn_block(h + at, kStripe, n, std::min(kStripe, block.count - c), to + at, n);
  });
}
void bring(const float* from, const Block& block, std::int64_t n, float* h) {
  if (block.count % kStripe != 0) std::fill(h, h + n * kBlock, 0.0f);
  for_stripes(block, n, [&](std::int64_t c, std::int64_t at) {
    turn_block(from + at, n, std::min(kStripe, block.count - c), n, h + at, kStripe);
  });
}

// The sums of `count` vectors, each over its lanes.
void sum_lanes(const float* rows, std::int64_t count, float* sums) {
  for (std::int64_t i = 0; i < count; i += kVector) {
    FloatVector some[kVector];
    for (std::int64_t r = 0; r < kVector; ++r) some[r] = i + r < count ? load_vector(rows + (i + r) * kVector) : all(0);
    const FloatVector sum = sums_of(some);
    if (i + kVector <= count)
      store_vector(sum, sums + i);
    else
      std::memcpy(sums + i, &sum, static_cast<std::size_t>(count - i) * sizeof(float));
  }
}

// What the states of a position are made of, by channel, and what is summed over them.
struct Position {
  const float *dt, *x;
  const float* bs;      // [2 state_dim]: B and C
  float* sum;           // C^T h(t)
  const float* g;       // for backward: the gradients of `sum`
  float *decays, *dbc;  // for backward: decays are kept; [2 state_dim, kVector], parts of the gradients of B and C
};

// A stripe's h(t) from h(t - 1). `c`: its first channel.
template <bool kForBackward>
void step(const Position& p, std::int64_t n, std::int64_t c, const float* a, const float* before, float* h) {
  FloatVector dt[kTogether], input[kTogether], sum[kTogether], g[kTogether];
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) {
    dt[v] = load_vector(p.dt + c + v * kVector), input[v] = dt[v] * load_vector(p.x + c + v * kVector), sum[v] = all(0);
    if constexpr (kForBackward) g[v] = load_vector(p.g + c + v * kVector);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const FloatVector bt = all(p.bs[j]), ct = all(p.bs[n + j]);
    FloatVector dc = kForBackward && c > 0 ? load_vector(p.dbc + (n + j) * kVector) : all(0);
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      const std::int64_t i = c * n + j * kStripe + v * kVector;
      const FloatVector decay = exp2_of(dt[v] * load_vector(a + i)),
                        state = decay * load_vector(before + i) + input[v] * bt;
      store_vector(state, h + i);
      sum[v] += ct * state;
      if constexpr (kForBackward) store_vector(decay, p.decays + i), dc += g[v] * state;
    }
    if constexpr (kForBackward) store_vector(dc, p.dbc + (n + j) * kVector);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) store_vector(sum[v], p.sum + c + v * kVector);
}

// A block's positions of a chunk.
template <class T>
void scan_block(const ops::SelectiveScan& op, Inputs<T>& in, std::int64_t begin, std::int64_t end, std::int64_t b,
                float* h) {
  const std::int64_t n = op.shape.state_dim, count = round_up(in.block.count, kVector);
  float dt[kBlock] = {}, y[kBlock];
  for (std::int64_t t = begin; t < end; ++t) {
    in.read(t, b, end);
    for (std::int64_t c = 0; c < count; c += kVector)
      store_vector(softplus_of(load_vector(in.raw + c) + load_vector(in.bias + c)).value, dt + c);
    const Position p{dt, in.x, in.bs, y, nullptr, nullptr, nullptr};
    for_stripes(in.block, n, [&](std::int64_t c, std::int64_t) { step<false>(p, n, c, in.a, h, h); });
    if (!op.y) continue;
    for (std::int64_t c = 0; c < count; c += kVector) {
      const FloatVector z = load_vector(in.z + c);
      store_vector((load_vector(y + c) + load_vector(in.d + c) * load_vector(in.x + c)) * z * sigmoid_of(z), y + c);
    }
    prefetch<true>(op.y.as<T>() + in.place(std::min(t + in.kAhead, end - 1), b), in.block.count);
    from_floats(y, op.y.as<T>() + in.place(t, b), in.block.count);
  }
}

// `scratch`: of A and a state.
template <class T>
void scan(const ops::SelectiveScan& op, const Block& block, float* scratch) {
  const ops::SelectiveShape& s = op.shape;
  const std::int64_t n = s.state_dim, size = n * kBlock;
  Inputs<T> in(s, block, scratch);
  float* h = scratch + size;
  for (std::int64_t b = 0; b < s.batch(); ++b) {
    std::fill(h, h + size, 0.0f);
    for (std::int64_t chunk = 0; chunk < s.chunks(); ++chunk) {
      keep(h, block, n, states_at(op.states, s, chunk, b, block.channel));
      scan_block(op, in, chunk * s.chunk, std::min(s.seq(), (chunk + 1) * s.chunk), b, h);
    }
  }
}

// Of a chunk's positions by channel.
struct ChunkRows {
  float dt[ops::kMostSelectiveChunk][kBlock], slopes[ops::kMostSelectiveChunk][kBlock];  // softplus and its slope
  float x[ops::kMostSelectiveChunk][kBlock], g[ops::kMostSelectiveChunk][kBlock];        // g: gradients before the gate
};

// A block in the gradient.
template <class T>
struct BackBlock {
  BackBlock(const ops::SelectiveShape& s, const Block& block, float* bc, float* scratch)
      : in(s, block, scratch), later(in.a + s.state_dim * kBlock), da(later + s.state_dim * kBlock), bc(bc) {
    std::fill(da, da + s.state_dim * kBlock, 0.0f);
  }
  static std::int64_t floats(std::int64_t n) { return 3 * n * kBlock; }
  Inputs<T> in;
  float* later;  // like a state: gradients of the states behind a position
  float* da;     // like a state: sums over all positions
  float* bc;     // [rows, 2 state_dim]: its part of the gradients of B and C
  float dd[kBlock] = {}, dbias[kBlock] = {};
};

// What a thread keeps of a block's chunk.
struct ChunkStates {
  ChunkStates(float* at, std::int64_t n, std::int64_t chunk)
      : history(at), decays(history + (chunk + 1) * n * kBlock), dbc(decays + chunk * n * kBlock) {}
  static std::int64_t floats(std::int64_t n, std::int64_t chunk) {
    return (1 + 2 * chunk) * n * kBlock + 2 * n * kVector;
  }
  float* history;    // [chunk + 1] states: before each position and behind the last
  float* decays;     // [chunk] like a state
  float* dbc;        // [2 state_dim, kVector]: of a position, before the sum over lanes
  ChunkRows rows{};  // zeros behind the channels
};

// Forwards through a chunk: its states and decays, and the gradients of its gates and of C.
template <class T>
void chunk_forward(const ops::SelectiveScanGrad& op, BackBlock<T>& own, std::int64_t begin, std::int64_t end,
                   std::int64_t b, ChunkStates& chunk) {
  Inputs<T>& in = own.in;
  ChunkRows& rows = chunk.rows;
  const std::int64_t n = op.shape.state_dim, size = n * kBlock, count = round_up(in.block.count, kVector);
  float dy[kBlock] = {}, gate[kBlock] = {}, sum[kBlock] = {}, dz[kBlock];
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t i = t - begin;
    in.read(t, b, end);
    prefetch(op.dy.as<T>() + in.place(std::min(t + in.kAhead, end - 1), b), in.block.count);
    prefetch<true>(op.din.as<T>() + in.gates(std::min(t + in.kAhead, end - 1), b), in.block.count);
    to_floats(static_cast<const T*>(op.dy.as<T>()) + in.place(t, b), dy, in.block.count);
    for (std::int64_t c = 0; c < count; c += kVector) {
      const Softplus dt = softplus_of(load_vector(in.raw + c) + load_vector(in.bias + c));
      const FloatVector z = load_vector(in.z + c), open = sigmoid_of(z), d = load_vector(dy + c),
                        x = load_vector(in.x + c), g = d * z * open;
      store_vector(dt.value, rows.dt[i] + c), store_vector(dt.slope, rows.slopes[i] + c);
      store_vector(x, rows.x[i] + c), store_vector(g, rows.g[i] + c);
      store_vector(d * open * (1.0f + z * (1.0f - open)), gate + c);
      store_vector(load_vector(own.dd + c) + g * x, own.dd + c);
    }
    const Position p{rows.dt[i], rows.x[i], in.bs, sum, rows.g[i], chunk.decays + i * size, chunk.dbc};
    const float* before = chunk.history + i * size;
    for_stripes(in.block, n, [&](std::int64_t c, std::int64_t) {
      step<true>(p, n, c, in.a, before, chunk.history + (i + 1) * size);
    });
    for (std::int64_t c = 0; c < count; c += kVector)
      store_vector(load_vector(gate + c) * (load_vector(sum + c) + load_vector(in.d + c) * load_vector(rows.x[i] + c)),
                   dz + c);
    from_floats(dz, op.din.as<T>() + in.gates(t, b), in.block.count);
    sum_lanes(chunk.dbc + n * kVector, n, own.bc + in.row(t, b) * 2 * n + n);
  }
}

// What step_back() sums over a position's states, by channel: dh(t) B, and A decay h(t - 1) dh(t) / ln 2.
struct StepSums {
  float of_input[kBlock], of_decay[kBlock];
};

// A stripe's gradients of h(t - 1) from those of h(t).
inline void step_back(const Position& p, std::int64_t n, std::int64_t c, const float* a, const float* before,
                      float* later, float* da, StepSums& sums) {
  FloatVector dt[kTogether], input[kTogether], g[kTogether], of_input[kTogether], of_decay[kTogether];
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) {
    dt[v] = load_vector(p.dt + c + v * kVector), input[v] = dt[v] * load_vector(p.x + c + v * kVector);
    g[v] = load_vector(p.g + c + v * kVector), of_input[v] = of_decay[v] = all(0);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const FloatVector bt = all(p.bs[j]), ct = all(p.bs[n + j]);
    FloatVector db = c > 0 ? load_vector(p.dbc + j * kVector) : all(0);
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      const std::int64_t i = c * n + j * kStripe + v * kVector;
      const FloatVector dh = g[v] * ct + load_vector(later + i), r = load_vector(p.decays + i) * dh,
                        kept = r * load_vector(before + i);
      store_vector(r, later + i);
      db += dh * input[v];
      of_input[v] += dh * bt;
      of_decay[v] += load_vector(a + i) * kept;
      store_vector(load_vector(da + i) + dt[v] * kept, da + i);
    }
    store_vector(db, p.dbc + j * kVector);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) {
    store_vector(of_input[v], sums.of_input + c + v * kVector);
    store_vector(of_decay[v], sums.of_decay + c + v * kVector);
  }
}

// Backwards through a chunk that chunk_forward() has been through.
template <class T>
void chunk_back(const ops::SelectiveScanGrad& op, BackBlock<T>& own, std::int64_t begin, std::int64_t end,
                std::int64_t b, const ChunkStates& chunk) {
  Inputs<T>& in = own.in;
  const ChunkRows& rows = chunk.rows;
  const std::int64_t n = op.shape.state_dim, size = n * kBlock, count = round_up(in.block.count, kVector);
  float dx[kBlock], dsteps[kBlock];
  StepSums sums;
  for (std::int64_t t = end - 1; t >= begin; --t) {
    const std::int64_t i = t - begin;
    in.read_columns(t, b);
    prefetch<true>(op.dx.as<T>() + in.place(std::max(t - in.kAhead, begin), b), in.block.count);
    prefetch<true>(op.dsteps.as<T>() + in.place(std::max(t - in.kAhead, begin), b), in.block.count);
    const Position p{rows.dt[i], rows.x[i], in.bs, nullptr, rows.g[i], chunk.decays + i * size, chunk.dbc};
    for_stripes(in.block, n, [&](std::int64_t c, std::int64_t) {
      step_back(p, n, c, in.a, chunk.history + i * size, own.later, own.da, sums);
    });
    for (std::int64_t c = 0; c < count; c += kVector) {
      const FloatVector of_input = load_vector(sums.of_input + c),
                        slope = (kLn2 * load_vector(sums.of_decay + c) + load_vector(rows.x[i] + c) * of_input) *
                                load_vector(rows.slopes[i] + c);
      store_vector(load_vector(rows.g[i] + c) * load_vector(in.d + c) + load_vector(rows.dt[i] + c) * of_input, dx + c);
      store_vector(slope, dsteps + c);
      store_vector(load_vector(own.dbias + c) + slope, own.dbias + c);
    }
    from_floats(dx, op.dx.as<T>() + in.place(t, b), in.block.count);
    from_floats(dsteps, op.dsteps.as<T>() + in.place(t, b), in.block.count);
    sum_lanes(chunk.dbc, n, own.bc + in.row(t, b) * 2 * n);
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
void add_sums(const ops::SelectiveScanGrad& op, const BackBlock<T>& own) {
  const Block& block = own.in.block;
  const std::int64_t n = op.shape.state_dim;
  add_to(op.dd, block.channel, block.count, [&](std::int64_t c) { return own.dd[c]; });
  add_to(op.ddt_bias, block.channel, block.count, [&](std::int64_t c) { return own.dbias[c]; });
  for (std::int64_t c = 0; c < block.count; ++c)
    for (std::int64_t j = 0; j < n; j += kBlock)
      add_to(op.da_log, (block.channel + c) * n + j, std::min(kBlock, n - j), [&](std::int64_t i) {
        const std::int64_t at = Inputs<T>::place_of(c, j + i, n);
        return own.da[at] * own.in.a[at] * kLn2;
      });
}

template <class T>
void scan_back(const ops::SelectiveScanGrad& op, const Block& block, float* bc, float* scratch) {
  const ops::SelectiveShape& s = op.shape;
  const std::int64_t n = s.state_dim;
  ChunkStates states(scratch, n, s.chunk);
  BackBlock<T> own(s, block, bc, scratch + ChunkStates::floats(n, s.chunk));
  for (std::int64_t b = 0; b < s.batch(); ++b) {
    std::fill(own.later, own.later + n * kBlock, 0.0f);
    for (std::int64_t chunk = s.chunks() - 1; chunk >= 0; --chunk) {
      const std::int64_t begin = chunk * s.chunk, end = std::min(s.seq(), begin + s.chunk);
      keep(own.later, block, n, states_at(op.dstates, s, chunk, b, block.channel));
      bring(states_at(op.states, s, chunk, b, block.channel), block, n, states.history);
      chunk_forward(op, own, begin, end, b, states);
      chunk_back(op, own, begin, end, b, states);
    }
  }
  add_sums(op, own);
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::SelectiveScan& op) {
  const Blocks blocks(op.shape);
  const std::int64_t each = 2 * op.shape.state_dim * kBlock;
  float* scratch = cpu.scratch.floats(omp_get_max_threads() * each);
  with_type(op.shape.x.dtype(), [&](auto type) {
    for_each_piece(blocks.count,
                   [&](std::int64_t i) { scan<decltype(type)>(op, blocks[i], scratch + omp_get_thread_num() * each); });
  });
}

template <>
void compute(CpuOps& cpu, const ops::SelectiveScanGrad& op) {
  const ops::SelectiveShape& s = op.shape;
  const Blocks blocks(s);
  const std::int64_t n = s.state_dim, rows = s.seq() * s.batch(),
                     each = ChunkStates::floats(n, s.chunk) + BackBlock<float>::floats(n);
  float* scratch = cpu.scratch.floats(omp_get_max_threads() * each + blocks.count * rows * 2 * n);
  float* bc = scratch + omp_get_max_threads() * each;  // [blocks, rows, 2 state_dim]
  with_type(s.x.dtype(), [&](auto type) {
    using T = decltype(type);
    for_each_piece(blocks.count, [&](std::int64_t i) {
      scan_back<T>(op, blocks[i], bc + i * rows * 2 * n, scratch + omp_get_thread_num() * each);
    });
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
