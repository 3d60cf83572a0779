// Which layouts of FP8 operands a GPU multiplies.
#pragma once

namespace mbench {

// Whether FP8 GEMMs with one scale for an operand take it as it lies, turned too, on a GPU of that compute capability (100: 10.0):
// Transformer Engine's nvte_is_non_tn_fp8_gemm_supported().
constexpr bool multiplies_turned_fp8(int capability) {
  return (capability >= 100 && capability < 120) || capability >= 130;
}

}  // namespace mbench
