// One AdamW step (Loshchilov & Hutter 2019) over all parameters, which lie in one flat buffer.
//
// g = grad_scale * grad; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// p -= lr * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay * p).
//
// The host gives what differs from step to step. Where a recorded step is replayed, it lies in device memory instead
// (AdamStep). The host writes what it knows before the step, and ClipScale writes the rest.
#pragma once
#include <cmath>

#include "engine/ops/arguments.h"
#include "engine/ops/ranges.h"

namespace mbench::ops {

// The factor that corrects a moment that started at zero: 1 / (1 - beta^t).
inline float bias_correction(float beta, std::int64_t t) {
  return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(t))));
}

// Indices into a tensor of [kAdamStep] f32. Where the norm is not finite, grad_scale is NaN, and the step changes
// nothing.
enum AdamStep { kStepRate, kStepMScale, kStepVScale, kStepUnscale, kStepGradScale, kStepNorm, kAdamStep };

struct Adam {
  static constexpr std::string_view name = "adam";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor param;  // f32: the main weights; bf16: the model's own, without main weights, updated and rounded to nearest
  Tensor grad;   // f32, bf16 or f16
  Tensor m, v;   // moments, f32 or bf16
  Tensor model;  // optional 16-bit weights that the model computes with: rewritten from param
  float lr = 0, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0;
  float grad_scale = 1;          // undoes loss scaling and clips
  std::int64_t step = 1;         // t, from 1
  ElementRanges undecayed = {};  // spared by weight_decay: biases and norms
  Tensor by_step{};              // optional [kAdamStep] f32, in place of lr, step and grad_scale
  float m_scale() const { return bias_correction(beta1, step); }
  float v_scale() const { return bias_correction(beta2, step); }
  void check() const {
    mbench::check(param.dtype() == DType::f32 || param.dtype() == DType::bf16, name,
                  "dtype of param, got {}, need f32 or bf16", name_of(param.dtype()));
    mbench::check(param.dtype() == DType::f32 || !model, name, "model with a param in {}, need none or param in f32",
                  name_of(param.dtype()));
    need_shape(name, "m", m, param.shape());
    mbench::check(m.dtype() == DType::f32 || m.dtype() == DType::bf16, name, "dtype of m, got {}, need f32 or bf16",
                  name_of(m.dtype()));
    need_same(name, "v", v, m);
    need_float(name, "grad", grad);
    need_shape(name, "grad", grad, param.shape());
    if (model) need_shape(name, "model", model, param.shape());
    need_ranges(name, "undecayed", undecayed, param.numel());
    if (by_step) need_shape(name, "by_step", by_step, {kAdamStep});
    if (by_step) need_dtype(name, "by_step", by_step, DType::f32);
  }
  Cost cost() const {
    return {16.0 * static_cast<double>(param.numel()),
            2 * bytes_of(param) + 4 * bytes_of(m) + bytes_of(grad) + bytes_of(model)};
  }
};

}  // namespace mbench::ops
