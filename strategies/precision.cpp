// Mixed precision: the dtype of weights and activations, and that in which gradients accumulate and are reduced.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.precision == Precision::fp8) return not_built_in("precision fp8", "f32, bf16 or fp16");
  if (p.fp8_recipe != Fp8Recipe::tensorwise)
    return infeasible("fp8_recipe {} with precision {}, need precision fp8 or fp8_recipe tensorwise",
                      name_of(p.fp8_recipe), name_of(p.precision));
  if (p.gradients_in_bf16 && p.precision != Precision::bf16)
    return infeasible("gradients_in_bf16 with precision {}, need precision bf16 or gradients_in_bf16 false",
                      name_of(p.precision));
  if (p.moments_in_bf16 && p.precision != Precision::bf16 && p.precision != Precision::fp16)
    return infeasible(
        "moments_in_bf16 with precision {}, need precision bf16 or fp16 or moments_in_bf16 false",
        name_of(p.precision));
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.precision = precision_plan(p);
}

}  // namespace

Strategy precision() {
  return {"precision",
          {"precision", "gradients_in_f32", "gradients_in_bf16", "moments_in_bf16", "fp8_recipe"},
          refuse,
          nullptr,
          write};
}

}  // namespace mbench::strategies
