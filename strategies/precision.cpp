// Mixed precision: the dtype of weights and activations, and that in which gradients accumulate and are reduced.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.precision == Precision::fp8) return not_built_in("precision fp8", "f32, bf16 or fp16");
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.precision = precision_plan(p.precision, p.gradients_in_f32);
}

}  // namespace

Strategy precision() {
  return {"precision", {"precision", "gradients_in_f32"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
