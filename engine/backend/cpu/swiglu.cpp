#include "engine/ops/swiglu.h"

#include <algorithm>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/gelu_math.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// (gate, up) of n outputs as two rows of floats, the bias added.
template <class T>
void load_pairs(const T* x, const Tensor& bias, std::int64_t col, std::int64_t n, float* gate, float* up) {
  float xb[2 * kTile], bb[2 * kTile];
  const float* pairs = load(x, xb, 2 * n);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    gate[i] = pairs[2 * i];
    up[i] = pairs[2 * i + 1];
  }
  if (!bias) return;
  const float* more = load(bias.as<T>() + 2 * col, bb, 2 * n);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    gate[i] += more[2 * i];
    up[i] += more[2 * i + 1];
  }
}

// The same of gates and ups that may lie apart; `at`: of the first output.
template <class T>
void load_gates(const T* x, const T* apart, const Tensor& bias, std::int64_t at, std::int64_t col, std::int64_t n,
                float* gate, float* up) {
  if (apart == nullptr) return load_pairs(x + 2 * at, bias, col, n, gate, up);
  const float *gates = load(x + at, gate, n), *ups = load(apart + at, up, n);
  if (gates != gate) std::copy_n(gates, n, gate);
  if (ups != up) std::copy_n(ups, n, up);
}

template <class T>
const T* up_of(const Tensor& up) {
  return up ? up.as<T>() : nullptr;
}

// A gate: its value; d times that, as weights' gradients sum it and as the gradients of ups have it; and d times its slope. And what an
// up becomes, and d times the slope of that.
struct PlainUp {
  static float up(float u) { return u; }
  static float through_up(float d, float) { return d; }
};
struct SiluGate : PlainUp {
  static float gemm(float d, float z) { return d * z / (1.0f + exp_f32(-z)); }
  static float value(float z) { return z / (1.0f + exp_f32(-z)); }
  static float times(float d, float z) { return d * z * (1.0f / (1.0f + exp_f32(-z))); }
  static float gradient(float d, float z) {
    const float s = 1.0f / (1.0f + exp_f32(-z));
    return d * s * (1.0f + z * (1.0f - s));
  }
};
template <float (*Value)(float), float (*Slope)(float)>
struct OtherGate : PlainUp {
  static float gemm(float d, float z) { return d * Value(z); }
  static float value(float z) { return Value(z); }
  static float times(float d, float z) { return d * Value(z); }
  static float gradient(float d, float z) { return d * Slope(z); }
};
struct ClampedGate {
  static float clamped(float z) { return z < ops::kClampedLimit ? z : ops::kClampedLimit; }
  static float value(float z) { return clamped(z) / (1.0f + exp_f32(-ops::kClampedAlpha * clamped(z))); }
  static float gemm(float d, float z) { return d * value(z); }
  static float times(float d, float z) { return d * value(z); }
  static float gradient(float d, float z) {
    const float s = 1.0f / (1.0f + exp_f32(-ops::kClampedAlpha * clamped(z)));
    return z <= ops::kClampedLimit ? d * s * (1.0f + ops::kClampedAlpha * z * (1.0f - s)) : 0.0f;
  }
  static float up(float u) { return (u < -ops::kClampedLimit ? -ops::kClampedLimit : clamped(u)) + 1.0f; }
  static float through_up(float d, float u) { return u >= -ops::kClampedLimit && u <= ops::kClampedLimit ? d : 0.0f; }
};
inline float relu(float z) {
  return z > 0.0f ? z : 0.0f;
}
inline float relu_slope(float z) {
  return z > 0.0f ? 1.0f : 0.0f;
}

template <class F>
void with_gate(ops::Gate gate, F&& f) {
  switch (gate) {
    case ops::Gate::silu:
      return f(SiluGate());
    case ops::Gate::gelu:
      return f(OtherGate<gelu, gelu_slope>());
    case ops::Gate::gelu_erf:
      return f(OtherGate<gelu_erf, gelu_erf_slope>());
    case ops::Gate::relu:
      return f(OtherGate<relu, relu_slope>());
    case ops::Gate::clamped:
      return f(ClampedGate());
  }
}

// The gradient with weights: that of a row's weight is the sum over the row, so rows are whole.
template <class T, class G>
void weighted_gradient(const ops::SwiGluGrad& op) {
  const std::int64_t cols = op.dy.shape().cols();
  parallel_rows(op.dy.shape().rows(), cols, [&](std::int64_t row) {
    const float weight = op.weights.as<float>()[row];
    float gemm = 0;
    for (std::int64_t col = 0; col < cols; col += kTile) {
      const std::int64_t n = std::min(kTile, cols - col), at = row * cols + col;
      float gates[kTile], ups[kTile], db[kTile], xb[2 * kTile];
      load_pairs(static_cast<const T*>(op.x.as<T>()) + 2 * at, op.bias, col, n, gates, ups);
      const float *gate = gates, *up = ups, *dy = load(static_cast<const T*>(op.dy.as<T>()) + at, db, n);
      gemm += sum_of(n, [=](std::int64_t i) { return G::gemm(dy[i] * G::up(up[i]), gate[i]); });
      float* dx = target(op.dx.as<T>() + 2 * at, xb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float d = weight * dy[i];
        dx[2 * i] = G::gradient(d * G::up(up[i]), gate[i]);
        dx[2 * i + 1] = G::times(G::through_up(d, up[i]), gate[i]);
      }
      store(dx, op.dx.as<T>() + 2 * at, 2 * n);
    }
    op.dweights.as<float>()[row] = gemm;
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::SwiGlu& op) {
  const auto run = [&](auto type, auto gate_type) {
    using T = decltype(type);
    using G = decltype(gate_type);
    const std::int64_t cols = op.y.shape().cols();
    parallel_row_tiles(op.y.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float gate[kTile], up[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      load_gates<T>(op.x.as<T>(), up_of<T>(op.up), op.bias, at, col, n, gate, up);
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = G::value(gate[i]) * G::up(up[i]);
      if (op.weights) {
        const float weight = op.weights.as<float>()[row];
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] *= weight;
      }
      store(y, op.y.as<T>() + at, n);
    });
  };
  with_gate(op.gate, [&](auto gate) { with_type(op.x.dtype(), [&](auto type) { run(type, gate); }); });
}

// Of silu, with s = 1 / (1 + e^-gate): dup = dy gate s, dgate = dy up s (1 + gate (1 - s)).
template <>
void compute(CpuOps&, const ops::SwiGluGrad& op) {
  const auto run = [&](auto type, auto gate_type) {
    using T = decltype(type);
    using G = decltype(gate_type);
    if (op.weights) return weighted_gradient<T, G>(op);
    const std::int64_t cols = op.dy.shape().cols();
    parallel_row_tiles(op.dy.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float gate[kTile], up[kTile], db[kTile], xb[kTile * 2];
      const std::int64_t at = row * cols + col;
      load_gates<T>(op.x.as<T>(), up_of<T>(op.up), op.bias, at, col, n, gate, up);
      const float* dy = load(op.dy.as<T>() + at, db, n);
      float* dx = target(op.dx.as<T>() + 2 * at, xb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        dx[2 * i] = G::gradient(dy[i] * G::up(up[i]), gate[i]);
        dx[2 * i + 1] = G::times(G::through_up(dy[i], up[i]), gate[i]);
      }
      store(dx, op.dx.as<T>() + 2 * at, 2 * n);
    });
  };
  with_gate(op.gate, [&](auto gate) { with_type(op.x.dtype(), [&](auto type) { run(type, gate); }); });
}

}  // namespace mbench::cpu
