// y = f(gate) up of pairs (gate, up), with f silu, GELU or ReLU, and the gradient of the pairs. A bias may be added to the pairs first.
// Each row of y may be multiplied by its weight. Then the gradient has a block (or a warp) for each row, whose sum is the weight's
// gradient.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/gelu_math.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/swiglu.h"

namespace mbench::cuda {

template <class T>
__device__ inline float sigmoid_for(float z) {
  return divide_for<T>(1.0f, 1.0f + exp_for<T>(-z));
}

// A gate: d times its value, and d times its slope. Also what an up becomes, and d times the slope of that.
struct PlainUp {
  static __device__ float up(float u) { return u; }
  static __device__ float through_up(float d, float) { return d; }
};
template <class T>
struct SiluGate : PlainUp {
  static __device__ float times(float d, float z) { return d * z * sigmoid_for<T>(z); }
  static __device__ float gradient(float d, float z) {
    const float s = sigmoid_for<T>(z);
    return d * s * (1.0f + z * (1.0f - s));
  }
};
template <class T>
struct GeluGate : PlainUp {
  static __device__ float times(float d, float z) { return d * gelu<T>(z); }
  static __device__ float gradient(float d, float z) { return d * gelu_slope<T>(z); }
};
template <class T>
struct GeluErfGate : PlainUp {
  static __device__ float phi(float z) { return 0.5f * erfcf(-0.70710678f * z); }
  static __device__ float times(float d, float z) { return d * z * phi(z); }
  static __device__ float gradient(float d, float z) {
    return d * (phi(z) + z * 0.39894228f * exp_for<T>(-0.5f * z * z));
  }
};
template <class T>
struct ReluGate : PlainUp {
  static __device__ float times(float d, float z) { return z > 0.0f ? d * z : 0.0f; }
  static __device__ float gradient(float d, float z) { return z > 0.0f ? d : 0.0f; }
};
template <class T>
struct ClampedGate {
  static __device__ float clamped(float z) { return z < ops::kClampedLimit ? z : ops::kClampedLimit; }
  static __device__ float times(float d, float z) {
    return d * clamped(z) * sigmoid_for<T>(ops::kClampedAlpha * clamped(z));
  }
  static __device__ float gradient(float d, float z) {
    const float s = sigmoid_for<T>(ops::kClampedAlpha * clamped(z));
    return z <= ops::kClampedLimit ? d * s * (1.0f + ops::kClampedAlpha * z * (1.0f - s)) : 0.0f;
  }
  static __device__ float up(float u) { return (u < -ops::kClampedLimit ? -ops::kClampedLimit : clamped(u)) + 1.0f; }
  static __device__ float through_up(float d, float u) {
    return u >= -ops::kClampedLimit && u <= ops::kClampedLimit ? d : 0.0f;
  }
};

// f(a gate of type T).
template <class T, class F>
void with_gate(ops::Gate gate, F&& f) {
  switch (gate) {
    case ops::Gate::silu:
      return f(SiluGate<T>());
    case ops::Gate::gelu:
      return f(GeluGate<T>());
    case ops::Gate::gelu_erf:
      return f(GeluErfGate<T>());
    case ops::Gate::relu:
      return f(ReluGate<T>());
    case ops::Gate::clamped:
      return f(ClampedGate<T>());
  }
}

// V pairs. A single pair may lie where no vector of two fits.
template <int V, class T>
__device__ inline Floats<2 * V> load_pairs(const T* from) {
  if constexpr (V > 1) return load<2 * V>(from);
  return {{load<1>(from).v[0], load<1>(from + 1).v[0]}};
}
// The same with gates and ups in separate tensors if there is an `up`; `at`: the first output.
template <int V, class T>
__device__ inline Floats<2 * V> load_gates(const T* x, const T* up, std::int64_t at) {
  if (up == nullptr) return load_pairs<V>(x + 2 * at);
  const Floats<V> gates = load<V>(x + at), ups = load<V>(up + at);
  Floats<2 * V> pairs;
#pragma unroll
  for (int k = 0; k < V; ++k) pairs.v[2 * k] = gates.v[k], pairs.v[2 * k + 1] = ups.v[k];
  return pairs;
}
template <int V, class T>
bool gates_aligned(const T* x, const T* up) {
  return up == nullptr ? aligned<2 * V>(x) : aligned<V>(x, up);
}
template <int V, class T>
__device__ inline void store_pairs(T* to, const Floats<2 * V>& pairs) {
  if constexpr (V > 1) {
    store(to, pairs);
  } else {
    to[0] = from_f32<T>(pairs.v[0]);
    to[1] = from_f32<T>(pairs.v[1]);
  }
}

template <int V, class T>
__device__ inline Floats<2 * V> bias_of_pairs(const T* bias, std::int64_t col) {
  return bias != nullptr ? load_pairs<V>(bias + 2 * col) : filled<2 * V>(0);
}

template <class T, class G>
struct SwiGluEach {
  static constexpr int kWidth = width_of<T>();
  const T *x, *up, *bias;
  const float* weights;
  T* y;
  std::int64_t cols;  // of y
  bool aligned() const {
    return gates_aligned<kWidth>(x, up) && cuda::aligned<2 * kWidth>(bias) && cuda::aligned<kWidth>(y);
  }
  template <int V>
  __device__ Floats<2 * V> column(std::int64_t col) const {
    return bias_of_pairs<V>(bias, col);
  }
  template <int V>
  __device__ void apply(const Floats<2 * V>& b, std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * cols + col;
    const Floats<2 * V> pairs = load_gates<V>(x, up, at);
    const float weight = weights != nullptr ? weights[row] : 1.0f;
    Floats<V> out;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float gate = pairs.v[2 * k] + b.v[2 * k], times = pairs.v[2 * k + 1] + b.v[2 * k + 1];
      out.v[k] = G::times(1.0f, gate) * G::up(times) * weight;
    }
    store(y + at, out);
  }
};

// For silu, with s = 1 / (1 + e^-gate): dup = dy gate s, dgate = dy up s (1 + gate (1 - s)).
template <class T, class G>
struct SwiGluGradEach {
  static constexpr int kWidth = width_of<T>();
  const T *dy, *x, *up, *bias;
  T* dx;
  std::int64_t cols;  // of dy
  bool aligned() const {
    return gates_aligned<kWidth>(x, up) && cuda::aligned<2 * kWidth>(bias, dx) && cuda::aligned<kWidth>(dy);
  }
  template <int V>
  __device__ Floats<2 * V> column(std::int64_t col) const {
    return bias_of_pairs<V>(bias, col);
  }
  template <int V>
  __device__ void apply(const Floats<2 * V>& b, std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * cols + col;
    Floats<2 * V> pairs = load_gates<V>(x, up, at);
    const Floats<V> d = load<V>(dy + at);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float gate = pairs.v[2 * k] + b.v[2 * k], times = pairs.v[2 * k + 1] + b.v[2 * k + 1];
      pairs.v[2 * k] = G::gradient(d.v[k] * G::up(times), gate);
      pairs.v[2 * k + 1] = G::times(G::through_up(d.v[k], times), gate);
    }
    store_pairs<V>(dx + 2 * at, pairs);
  }
};

inline constexpr int kSwiGluThreads = 256;

template <class T>
struct WeightedSwiGluGrad {
  const T *dy, *x, *bias;
  const float* weights;
  T* dx;  // may be x: each thread reads its pairs before it writes them
  float* dweights;
  std::int64_t rows, cols;
};

template <class T, class G, int V>
__global__ void __launch_bounds__(kSwiGluThreads) weighted_swiglu_grad(WeightedSwiGluGrad<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t row = own_row();
  if (row >= a.rows) return;
  const float weight = a.weights[row];
  float sum = 0;
  for_row<V, 0>(a.cols, [&](int, std::int64_t col) {
    const std::int64_t at = row * a.cols + col;
    Floats<2 * V> pairs = load_pairs<V>(a.x + 2 * at);
    const Floats<2 * V> b = bias_of_pairs<V>(a.bias, col);
    const Floats<V> d = load<V>(a.dy + at);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float gate = pairs.v[2 * k] + b.v[2 * k], up = pairs.v[2 * k + 1] + b.v[2 * k + 1];
      const float dy = d.v[k] * weight;
      sum += G::times(d.v[k], gate) * G::up(up);
      pairs.v[2 * k] = G::gradient(dy * G::up(up), gate);
      pairs.v[2 * k + 1] = G::times(G::through_up(dy, up), gate);
    }
    store_pairs<V>(a.dx + 2 * at, pairs);
  });
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) a.dweights[row] = sum;
}

template <class T, class G, class Stream>
void enqueue_weighted(Stream& stream, const ops::SwiGluGrad& op) {
  constexpr int V = width_of<T>();
  const std::int64_t rows = op.dy.shape().rows(), cols = op.dy.shape().cols();
  if (rows == 0) return;
  const WeightedSwiGluGrad<T> a{pointer<T>(op.dy),
                                pointer<T>(op.x),
                                pointer<T>(op.bias),
                                pointer<float>(op.weights),
                                pointer<T>(op.dx),
                                pointer<float>(op.dweights),
                                rows,
                                cols};
  if (cols % V == 0 && aligned<2 * V>(a.x, a.bias, a.dx) && aligned<V>(a.dy))
    stream.launch(op.name, row_shape(rows, cols, V, kSwiGluThreads), weighted_swiglu_grad<T, G, V>, a);
  else
    stream.launch(op.name, row_shape(rows, cols, 1, kSwiGluThreads), weighted_swiglu_grad<T, G, 1>, a);
}

template <class Stream>
void enqueue(Stream& stream, const ops::SwiGlu& op) {
  const std::int64_t cols = op.y.shape().cols();
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    with_gate<T>(op.gate, [&](auto gate) {
      using G = decltype(gate);
      launch_columns(stream, op.name, op.y.shape().rows(), cols,
                     SwiGluEach<T, G>{pointer<T>(op.x), pointer<T>(op.up), pointer<T>(op.bias),
                                      pointer<float>(op.weights), pointer<T>(op.y), cols});
    });
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::SwiGluGrad& op) {
  const std::int64_t cols = op.dy.shape().cols();
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    with_gate<T>(op.gate, [&](auto gate) {
      using G = decltype(gate);
      if (op.weights) return enqueue_weighted<T, G>(stream, op);
      launch_columns(stream, op.name, op.dy.shape().rows(), cols,
                     SwiGluGradEach<T, G>{pointer<T>(op.dy), pointer<T>(op.x), pointer<T>(op.up), pointer<T>(op.bias),
                                          pointer<T>(op.dx), cols});
    });
  });
}

}  // namespace mbench::cuda
