// Scaled, masked softmax of rows of scores, and its gradient: a block (or a warp) for each row, the row in registers. Keys that a causal
// row cannot see are neither read nor computed, only written as zero.
#pragma once
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/softmax.h"

namespace mbench::cuda {

inline constexpr int kSoftmaxThreads = 512;

struct SoftmaxShape {
  std::int64_t rows, heads, queries, keys;
  float scale;
  bool causal;
  const std::uint8_t *mask, *keep;  // may be null
  bool one_mask;                    // the same for all samples
  const std::int64_t* bounds;       // [2, queries], may be null

  __device__ std::int64_t visible(std::int64_t row) const {
    const std::int64_t query = row % queries, end = bounds != nullptr ? bounds[queries + query] : keys;
    return causal && query + 1 < end ? query + 1 : end;
  }
  __device__ std::int64_t first(std::int64_t row) const { return bounds != nullptr ? bounds[row % queries] : 0; }
};

// Which keys are hidden from one row: those before `first` and from `visible` on, and those that the bytes hide.
struct RowMask {
  const std::uint8_t *hidden, *keep;  // of this row, may be null
  std::int64_t first, visible;

  __device__ RowMask(const SoftmaxShape& s, std::int64_t row)
      : hidden(s.mask), keep(s.keep), first(s.first(row)), visible(s.visible(row)) {
    const std::int64_t query = row % s.queries, sample = row / s.queries / s.heads;
    if (hidden != nullptr) hidden += ((s.one_mask ? 0 : sample) * s.queries + query) * s.keys;
    if (keep != nullptr) keep += sample * s.keys;
  }
  // Bit k: whether key `key` + k is hidden.
  template <int V>
  __device__ unsigned hides(std::int64_t key) const {
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < V; ++k) bits |= key + k >= visible || key + k < first ? 1u << k : 0u;
    if (keep != nullptr) {
      const Pack<std::uint8_t, V> bytes = load_pack<V>(keep + key);
#pragma unroll
      for (int k = 0; k < V; ++k) bits |= bytes.v[k] == 0 ? 1u << k : 0u;
    }
    if (hidden != nullptr) {
      const Pack<std::uint8_t, V> bytes = load_pack<V>(hidden + key);
#pragma unroll
      for (int k = 0; k < V; ++k) bits |= bytes.v[k] != 0 ? 1u << k : 0u;
    }
    return bits;
  }
};

template <class T, int V, int Items>
__global__ void __launch_bounds__(kSoftmaxThreads) softmax(const T* scores, T* probs, SoftmaxShape s) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= s.rows) return;
  scores += r * s.keys;
  probs += r * s.keys;
  const RowMask mask(s, r);
  Floats<V> kept[Items > 0 ? Items : 1];
  const auto value = [&](std::int64_t col) {  // scale * score, or -infinity
    Floats<V> z = load<V>(scores + col);
    const unsigned hidden = mask.template hides<V>(col);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = (hidden >> k & 1u) != 0 ? kLowest : s.scale * z.v[k];
    return z;
  };
  float top = kLowest;
  for_row<V, Items>(mask.visible, [&](int item, std::int64_t col) {
    kept[item] = value(col);
#pragma unroll
    for (int k = 0; k < V; ++k) top = Max()(top, kept[item].v[k]);
  });
  top = row_reduce(top, kLowest, parts, Max());
  if (top == kLowest) {  // nothing but hidden keys, NaN and -infinity
    for_row<V, Items>(s.keys, [&](int, std::int64_t col) {
      Floats<V> p;
      const unsigned hidden = mask.template hides<V>(col);
#pragma unroll
      for (int k = 0; k < V; ++k) p.v[k] = (hidden >> k & 1u) != 0 ? 0.0f : kNotANumber;
      store(probs + col, p);
    });
    return;
  }
  float sum = 0;
  for_row<V, Items>(mask.visible, [&](int item, std::int64_t col) {
    if constexpr (Items == 0) kept[item] = value(col);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      kept[item].v[k] = exp_for<T>(kept[item].v[k] - top);
      sum += kept[item].v[k];
    }
  });
  const float inverse = 1.0f / row_reduce(sum, 0.0f, parts, Sum());
  for_row<V, Items>(s.keys, [&](int item, std::int64_t col) {
    Floats<V> p = filled<V>(0);
    if (col < mask.visible) {
      if constexpr (Items > 0) {
        p = kept[item];
      } else {
        p = value(col);
#pragma unroll
        for (int k = 0; k < V; ++k) p.v[k] = exp_for<T>(p.v[k] - top);
      }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) p.v[k] *= inverse;
    store(probs + col, p);
  });
}

// dscores = scale * probs * (dprobs - sum(probs * dprobs)).
template <class T, int V, int Items>
__global__ void __launch_bounds__(kSoftmaxThreads)
    softmax_grad(const T* dprobs, const T* probs, T* dscores, SoftmaxShape s) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= s.rows) return;
  const std::int64_t visible = s.visible(r);
  const Row<T, V, Items> d(dprobs + r * s.keys, visible), p(probs + r * s.keys, visible);
  float sum = 0;
  for_row<V, Items>(visible, [&](int item, std::int64_t col) {
    const Floats<V> ds = d.at(item, col), ps = p.at(item, col);
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (col + k < visible) sum += ds.v[k] * ps.v[k];
  });
  sum = row_reduce(sum, 0.0f, parts, Sum());
  for_row<V, Items>(s.keys, [&](int item, std::int64_t col) {
    Floats<V> out = filled<V>(0);
    if (col < visible) {
      const Floats<V> ds = d.at(item, col), ps = p.at(item, col);
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (col + k < visible) out.v[k] = s.scale * ps.v[k] * (ds.v[k] - sum);
    }
    store(dscores + r * s.keys + col, out);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::Softmax& op) {
  const Shape& shape = op.scores.shape();
  const SoftmaxShape s{shape.rows(),
                       shape[1],
                       shape[2],
                       shape[3],
                       op.scale,
                       op.causal,
                       pointer<std::uint8_t>(op.mask),
                       pointer<std::uint8_t>(op.keep),
                       op.mask && op.mask.shape()[0] == 1,
                       pointer<std::int64_t>(op.bounds)};
  if (s.rows == 0 || s.keys == 0) return;
  with_float(op.name, op.scores.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T* scores = pointer<T>(op.scores);
    T* probs = pointer<T>(op.probs);
    if (row_fits(s.keys, V, kSoftmaxThreads) && aligned<V>(scores, probs) && aligned<V>(s.mask, s.keep))
      stream.launch(op.name, row_shape(s.rows, s.keys, V, kSoftmaxThreads), softmax<T, V, kItems>, scores, probs, s);
    else
      stream.launch(op.name, row_shape(s.rows, s.keys, 1, kSoftmaxThreads), softmax<T, 1, 0>, scores, probs, s);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::SoftmaxGrad& op) {
  const Shape& shape = op.probs.shape();
  const SoftmaxShape s{shape.rows(), 1, shape[-2], shape.cols(), op.scale, op.causal, nullptr, nullptr, false, nullptr};
  if (s.rows == 0 || s.keys == 0) return;
  with_float(op.name, op.probs.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T *dprobs = pointer<T>(op.dprobs), *probs = pointer<T>(op.probs);
    T* dscores = pointer<T>(op.dscores);
    if (row_fits(s.keys, V, kSoftmaxThreads) && aligned<V>(dprobs, probs, dscores))
      stream.launch(op.name, row_shape(s.rows, s.keys, V, kSoftmaxThreads), softmax_grad<T, V, kItems>, dprobs, probs,
                    dscores, s);
    else
      stream.launch(op.name, row_shape(s.rows, s.keys, 1, kSoftmaxThreads), softmax_grad<T, 1, 0>, dprobs, probs,
                    dscores, s);
  });
}

}  // namespace mbench::cuda
