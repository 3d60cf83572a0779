// What Muon (Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982) does to a matrix in addition to GEMMs, as
// torch.optim.Muon computes it with Nesterov momentum. With g = grad_scale * grad:
//
//   MuonMomentum   `m = mu m + (1 - mu) g; u = mu m + (1 - mu) g`.
//   MuonNormalise  `x = u / max(sqrt(sum of u^2), eps)`.
//                  Then five times `x = a x + (b s + c s s) x`, `s = x x^T`: GEMMs (engine/train/muon.h).
//   MuonUpdate     `p = (1 - decay) p - lr x`.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct MuonMomentum {
  static constexpr std::string_view name = "muon_momentum";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor grad;      // f32, bf16 or f16
  Tensor momentum;  // m, f32
  Tensor update;    // u, f32 or bf16
  float mu = 0.95f, grad_scale = 1;
  void check() const {
    need_float(name, "grad", grad);
    need_dtype(name, "momentum", momentum, DType::f32);
    need_shape(name, "momentum", momentum, grad.shape());
    need_float(name, "update", update);
    need_shape(name, "update", update, grad.shape());
  }
  Cost cost() const {
    return {7.0 * static_cast<double>(grad.numel()), bytes_of(grad) + 2 * bytes_of(momentum) + bytes_of(update)};
  }
};

struct MuonNormalise {
  static constexpr std::string_view name = "muon_normalise";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor u;        // f32 or bf16
  Tensor squares;  // [1] f32, the sum of u^2
  Tensor x;        // like u; may be u itself
  float eps = 1e-7f;
  void check() const {
    need_float(name, "u", u);
    need_dtype(name, "squares", squares, DType::f32);
    need_shape(name, "squares", squares, {1});
    need_same(name, "x", x, u);
  }
  Cost cost() const { return {static_cast<double>(u.numel()), bytes_of(u) + bytes_of(x)}; }
};

struct MuonUpdate {
  static constexpr std::string_view name = "muon_update";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor param;     // f32, the main weights
  Tensor x;         // f32 or bf16
  Tensor model;     // optional 16-bit weights that the model computes with: rewritten from param
  float lr = 0;     // learning rate, scaled by the matrix's sizes
  float decay = 0;  // weight decay times the learning rate before that scaling
  void check() const {
    need_dtype(name, "param", param, DType::f32);
    need_float(name, "x", x);
    need_shape(name, "x", x, param.shape());
    if (model) need_shape(name, "model", model, param.shape());
  }
  Cost cost() const {
    return {4.0 * static_cast<double>(param.numel()), 2 * bytes_of(param) + bytes_of(x) + bytes_of(model)};
  }
};

}  // namespace mbench::ops
