// Model FLOPs of one training step, the numerator of MFU. Formula version 1:
// 6 FLOPs for every weight of every matrix product and token (logits in, embedding look-up out), plus
// attention, 12 * layers * heads * head_dim * seq a token (full square). The causal variant halves the
// attention term.
#pragma once
#include <cstdint>

#include "engine/spec/point.h"

namespace mbench {

inline constexpr int kFlopFormulaVersion = 1;
inline constexpr const char* kFlopFormula =
    "6 per weight of every matmul and token (logits in, embedding look-up out) + "
    "12*layers*heads*head_dim*seq per token";

// Of the whole step over all ranks. The vocabulary counts as it is, without padding.
double model_flops(const Point& point);
double model_flops_causal(const Point& point);  // equal for models that are not causal

}  // namespace mbench
