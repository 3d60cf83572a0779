// Mixed precision: the dtype of weights and activations, and that in which gradients accumulate and are reduced.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeFault refuse(const Point& p) {
  const bool bf16 = p.precision == Precision::bf16 || quantises(p.precision);
  if (p.gradients_in_bf16 && !bf16)
    return infeasible({one_of("precision", "bf16"), one_of("precision.gradients", usual_gradients(p.precision))},
                      "precision.gradients bf16 with precision {}", name_of(p.precision));
  if (p.moments_in_bf16 && !bf16 && p.precision != Precision::fp16)
    return infeasible({one_of("precision", "bf16|fp16"), one_of("precision.moments", "f32")},
                      "precision.moments bf16 with precision {}", name_of(p.precision));
  if (p.main_weights_in_bf16 && p.precision != Precision::bf16)
    return infeasible({one_of("precision", "bf16"), one_of("precision.main_weights", "f32")},
                      "precision.main_weights bf16 with precision {}", name_of(p.precision));
  if (p.main_weights_in_bf16 && p.offload != Offload::none)
    return not_built_in({one_of("offload", "none"), one_of("precision.main_weights", "f32")},
                        "precision.main_weights bf16 with offload {}", name_of(p.offload));
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.precision = precision_plan(p);
}

}  // namespace

// Megatron: fp16 gradients accumulate in fp16 unless asked otherwise; with bf16 they accumulate and reduce in
// f32 unless asked otherwise.
PrecisionPlan precision_plan(const PrecisionSpec& p) {
  const DType moments = p.moments_in_bf16 ? DType::bf16 : DType::f32;
  switch (p.precision) {
    case Precision::bf16:
      return {.units = p.precision,
              .model = DType::bf16,
              .gradients = p.gradients_in_bf16 ? DType::bf16 : DType::f32,
              .moments = moments,
              .main = p.main_weights_in_bf16 ? DType::bf16 : DType::f32};
    case Precision::fp8:
    case Precision::nvfp4:
      return {.units = p.precision,
              .model = DType::bf16,
              .gradients = p.gradients_in_bf16 ? DType::bf16 : DType::f32,
              .moments = moments,
              .fp8 = p.precision == Precision::nvfp4 ? Fp8Recipe::nvfp4 : p.fp8_recipe,
              .first_in_16_bits = p.first_layers_in_bf16,
              .last_in_16_bits = p.last_layers_in_bf16,
              .fp8_parameters = p.fp8_parameters};
    case Precision::fp16:
      return {.units = p.precision,
              .model = DType::f16,
              .gradients = p.gradients_in_f32 ? DType::f32 : DType::f16,
              .loss_scaling = true,
              .moments = moments};
    default:
      return {.units = p.precision};
  }
}

Strategy precision() {
  return {"precision", {"precision"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
