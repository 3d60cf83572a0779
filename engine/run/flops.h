// Model FLOPs of one training step, the numerator of MFU. Formula version 2 has two terms for a token.
// - 6 FLOPs for every weight of every matmul (logits in, embedding look-up out).
// - attention: 6 * layers * heads * (width of queries and keys + width of values) * seq (full square).
//
// Where both widths are head_dim, the attention term is version 1's 12 * layers * heads * head_dim * seq. Of routed experts a token meets
// its active ones. The causal variant halves the attention term. Where a layer has a window shorter than seq, the window replaces seq, and
// the causal variant counts the keys that its queries see. Where documents are packed, or attention goes in
// chunks, each counts as a sequence of its length.
#pragma once
#include <cstdint>

namespace mbench {

struct Point;

inline constexpr int kFlopFormulaVersion = 2;
inline constexpr const char* kFlopFormula =
    "6 per weight of every matmul and token (logits in, embedding look-up out; 4 where the weight is frozen) + "
    "6*layers*heads*(qk_dim+v_dim)*seq per token";

// Of the whole step over all ranks. The vocabulary counts without padding.
double model_flops(const Point& point);
double model_flops_causal(const Point& point);  // equal for models that are not causal

}  // namespace mbench
