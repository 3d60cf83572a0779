// xIELU (Huang and Schlag 2024), the activation of Apertus. With z = x + bias, a_p = softplus(alpha_p) and
// a_n = beta + softplus(alpha_n):
//
//   y = a_p z^2 + beta z                      where z > 0
//   y = a_n (expm1(min(z, eps)) - z) + beta z elsewhere
//
// alpha_p and alpha_n are learned, one of each for a whole block. beta is 0.5, eps -1e-6, as in transformers' XIELUActivation.
//
// The slope is 2 a_p z + beta and a_n expm1(min(z, eps)) + beta. PyTorch derives beta - a_n between eps and 0: a jump within 1e-6, and rounding
// would decide which elements are there.
#pragma once
#include <utility>

#include "engine/ops/arguments.h"

namespace mbench::ops {

inline constexpr float kXIeluBeta = 0.5f, kXIeluEps = -1e-6f;
inline constexpr float kSoftplusLinear = 20;  // from here on softplus(a) is a

inline void need_alphas(std::string_view op, const Tensor& x, const Tensor& alpha_p, const Tensor& alpha_n) {
  for (const auto& [argument, alpha] : {std::pair("alpha_p", &alpha_p), {"alpha_n", &alpha_n}}) {
    need_shape(op, argument, *alpha, {1});
    need_dtype(op, argument, *alpha, x.dtype());
  }
}

struct XIelu {
  static constexpr std::string_view name = "xielu";
  Tensor x;                 // [..., n]
  Tensor bias;              // [n], optional
  Tensor alpha_p, alpha_n;  // [1], of x's dtype
  Tensor y;                 // like x
  void check() const {
    need_float(name, "x", x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_alphas(name, x, alpha_p, alpha_n);
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {8.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct XIeluGrad {  // dx = d(loss)/dx; dalpha_p and dalpha_n accumulate; the bias's gradient is BiasGrad of dx
  static constexpr std::string_view name = "xielu_grad";
  Tensor dy, x, bias, alpha_p, alpha_n;
  Tensor dx;                  // like x; may be dy itself
  Tensor dalpha_p, dalpha_n;  // [1]; none where they are frozen
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_alphas(name, x, alpha_p, alpha_n);
    need_same(name, "dx", dx, x);
    mbench::check(static_cast<bool>(dalpha_p) == static_cast<bool>(dalpha_n), name,
                  "dalpha_p without dalpha_n, or the other way, need both or none");
    if (!dalpha_p) return;
    for (const auto& [argument, gradient] : {std::pair("dalpha_p", &dalpha_p), {"dalpha_n", &dalpha_n}}) {
      need_float(name, argument, *gradient);
      need_shape(name, argument, *gradient, {1});
    }
  }
  Cost cost() const { return {14.0 * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
