// What Adam multiplies gradients by, decided on the device: clipping by the global norm, and whether the step is
// skipped. Gradients are stored times 1 / unscale:
// norm = sqrt(squares) * unscale; grad_scale = unscale * min(1, clip / (norm + 1e-6)).
// There is no minimum where clip is 0, and grad_scale is NaN where the norm is not finite.
#pragma once
#include "engine/ops/adam.h"
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct ClipScale {
  static constexpr std::string_view name = "clip_scale";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor squares;  // [1] f32: of the whole gradient, as stored
  Tensor by_step;  // [kAdamStep] f32: reads kStepUnscale, writes kStepGradScale and kStepNorm
  float clip = 0;
  void check() const {
    need_dtype(name, "squares", squares, DType::f32);
    need_shape(name, "squares", squares, {1});
    need_dtype(name, "by_step", by_step, DType::f32);
    need_shape(name, "by_step", by_step, {kAdamStep});
  }
  Cost cost() const { return {6, 4.0 * 4}; }
};

}  // namespace mbench::ops
